import { readinessPort, statsPort } from "@gatewayproxy/runtime/operator-server-settings";
import { describe, expect, test } from "vitest";
import type { Gateway } from "../../api/gateway.ts";
import { parseManifests } from "../../api/parse-manifests.ts";
import { isObject } from "../../kube/object.ts";
import { ownedKey, type OwnedKind } from "./owned-object.ts";
import { rolesOf } from "./roles.ts";
import { proxyDefaults } from "../testing/proxy-defaults.ts";
import { labelsOf, type ProxyDefaults, type ManagedGateway, workloadOf } from "./workload.ts";

const defaults: ProxyDefaults = {
  ...proxyDefaults,
  serviceType: "LoadBalancer",
  hasNetworkPolicy: true,
  allowedAddresses: [{ host: "127.0.0.1", port: 8081 }],
};

function gatewayWith(fields = "", name = "web"): Gateway {
  const text = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: ${name}, namespace: infra}
spec:
  gatewayClassName: gateway-proxy
  listeners: [{name: http, port: 80, protocol: HTTP}]
  ${fields}
`;
  const { resources, problems } = parseManifests([{ path: "a.yaml", text }]);
  if (resources.Gateway[0] === undefined) throw new Error(JSON.stringify(problems));
  return resources.Gateway[0];
}

const tcp = (...ports: readonly number[]) => ports.map((port) => ({ port, protocol: "TCP" as const }));

const tenant = (fields: Partial<ManagedGateway> = {}): ManagedGateway => ({
  ...{ gateway: gatewayWith(), uid: "uid-1", ports: tcp(80, 443), parameters: [], selected: new Set(), defaults },
  ...fields,
});

function objectOf(kind: OwnedKind, made: ManagedGateway = tenant()): Readonly<Record<string, unknown>> {
  const objects = workloadOf(made).filter((object) => object.kind === kind);
  if (objects[0] === undefined || objects.length > 1) throw new Error(`${objects.length} of ${kind}`);
  return objects[0].body;
}

/** The value at a path of fields, such as `spec.ports`. */
function field(object: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>((value, name) => (isObject(value) ? value[name] : undefined), object);
}

describe("the workload of a Gateway", () => {
  test("is in the order in which it is needed, under one name", () => {
    const objects = workloadOf(tenant());
    expect(objects.map(({ kind }) => kind)).toEqual([
      ...["ServiceAccount", "Service", "Deployment", "PodDisruptionBudget", "NetworkPolicy"],
    ]);
    expect(new Set(objects.map(({ namespace, name }) => `${namespace}/${name}`))).toEqual(
      new Set(["infra/web-gateway-proxy"]),
    );
  });

  test("belongs to the Gateway, so that it is deleted with the Gateway", () => {
    for (const { body } of workloadOf(tenant())) {
      expect(field(body, "metadata.ownerReferences")).toEqual([
        {
          ...{ apiVersion: "gateway.networking.k8s.io/v1", kind: "Gateway", name: "web", uid: "uid-1" },
          ...{ controller: true, blockOwnerDeletion: false },
        },
      ]);
    }
  });

  test("has names and labels that the API accepts for a Gateway with the longest name", () => {
    const name = `${"a".repeat(200)}.${"b".repeat(52)}`;
    for (const object of workloadOf(tenant({ gateway: gatewayWith("", name) }))) {
      expect(object.name.length).toBeLessThanOrEqual(63);
      const labels = Object.values(labelsOf(gatewayWith("", name)));
      expect(Math.max(...labels.map((label) => label.length))).toBeLessThanOrEqual(63);
    }
  });

  test("has the ports of the listeners in its Service, and the NetworkPolicy also allows the operator ports", () => {
    expect(field(objectOf("Service"), "spec.ports")).toEqual([
      { name: "port-80", port: 80, targetPort: 80, protocol: "TCP" },
      { name: "port-443", port: 443, targetPort: 443, protocol: "TCP" },
    ]);
    expect(field(objectOf("NetworkPolicy"), "spec.ingress")).toEqual([
      { ports: [80, 443, statsPort, readinessPort].map((port) => ({ port, protocol: "TCP" })) },
    ]);
  });

  test("has a port for TCP and one for UDP of the same number", () => {
    const made = tenant({ ports: [...tcp(53), { port: 53, protocol: "UDP" }] });
    expect(field(objectOf("Service", made), "spec.ports")).toEqual([
      { name: "port-53", port: 53, targetPort: 53, protocol: "TCP" },
      { name: "port-53-udp", port: 53, targetPort: 53, protocol: "UDP" },
    ]);
    expect(field(objectOf("NetworkPolicy", made), "spec.ingress")).toEqual([
      { ports: [...tcp(53), { port: 53, protocol: "UDP" }, ...tcp(statsPort, readinessPort)] },
    ]);
  });

  test("allows the metrics of a rate limit service beside the proxy to those who may read its own", () => {
    const metricsFrom = [{ podSelector: {} }];
    const allowedAddresses = [{ host: "127.0.0.1", port: 15_081 }];
    const made = tenant({ defaults: { ...defaults, metricsFrom, allowedAddresses } });
    const tcp = (port: number) => ({ port, protocol: "TCP" });
    const [, metrics] = field(objectOf("NetworkPolicy", made), "spec.ingress") as readonly unknown[];
    expect(metrics).toEqual({ ports: [tcp(15_020), tcp(15_084)], from: metricsFrom });
  });

  test("has no NetworkPolicy where the operator disables it", () => {
    const kinds = workloadOf(tenant({ defaults: { ...defaults, hasNetworkPolicy: false } })).map(({ kind }) => kind);
    expect(kinds).not.toContain("NetworkPolicy");
  });

  test("requests from a load balancer the address that the Gateway requests", () => {
    const gateway = gatewayWith("addresses: [{type: Hostname, value: a.test}, {type: IPAddress, value: 192.0.2.1}]");
    expect(field(objectOf("Service", tenant({ gateway })), "spec.loadBalancerIP")).toBe("192.0.2.1");
    const inside = tenant({ gateway, defaults: { ...defaults, serviceType: "ClusterIP" } });
    expect(objectOf("Service", inside)["spec"]).not.toHaveProperty("loadBalancerIP");
  });
});

describe("the infrastructure of a Gateway", () => {
  const gateway = gatewayWith(
    "infrastructure: {labels: {team: blue, app.kubernetes.io/name: other}, annotations: {note: hello}}",
  );
  const made = tenant({ gateway });

  test("sets labels and annotations on all objects and on the pods", () => {
    const places = [...workloadOf(made).map(({ body }) => body["metadata"])];
    places.push(field(objectOf("Deployment", made), "spec.template.metadata"));
    for (const metadata of places) {
      expect(metadata).toMatchObject({ labels: { team: "blue" }, annotations: { note: "hello" } });
    }
  });

  test("cannot change the controller's labels, and is not part of selectors", () => {
    expect(labelsOf(gateway)["app.kubernetes.io/name"]).toBe("gateway-proxy");
    expect(field(objectOf("Deployment", made), "spec.selector.matchLabels")).toEqual({
      "gateway.networking.k8s.io/gateway-name": "web",
      "app.kubernetes.io/managed-by": "gatewayproxy.dev",
    });
  });
});

describe("parameters", () => {
  test("are merged over the generated objects, the Gateway's over its class's", () => {
    const made = tenant({
      parameters: [
        { deployment: { spec: { replicas: 3, minReadySeconds: 5 } }, service: { spec: { type: "NodePort" } } },
        { deployment: { spec: { replicas: 4 } } },
      ],
    });
    expect(objectOf("Deployment", made)["spec"]).toMatchObject({ replicas: 4, minReadySeconds: 5 });
    expect(field(objectOf("Service", made), "spec.type")).toBe("NodePort");
  });

  test("cannot change name, identifying labels and owner, and may add labels", () => {
    const metadata = {
      name: "mine",
      labels: { team: "red", "app.kubernetes.io/managed-by": "me" },
      ownerReferences: [],
    };
    const { metadata: merged } = objectOf("Service", tenant({ parameters: [{ service: { metadata } }] }));
    expect(merged).toMatchObject({
      name: "web-gateway-proxy",
      labels: { team: "red", "app.kubernetes.io/managed-by": "gatewayproxy.dev" },
      ownerReferences: [{ uid: "uid-1" }],
    });
  });

  test("add an autoscaler, which then sets the number of proxies", () => {
    const parameters = [
      { deployment: { spec: { replicas: 3 } } },
      { horizontalPodAutoscaler: { spec: { maxReplicas: 5 } } },
    ];
    const made = tenant({ parameters });
    expect(objectOf("HorizontalPodAutoscaler", made)["spec"]).toEqual({
      scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: "web-gateway-proxy" },
      minReplicas: 2,
      maxReplicas: 5,
    });
    expect(objectOf("Deployment", made)["spec"]).not.toHaveProperty("replicas");
  });
});

describe("volumes", () => {
  const claim = { spec: { resources: { requests: { storage: "5Gi" } }, storageClassName: "fast" } };
  const made = tenant({
    parameters: [
      {
        deployment: {
          metadata: { annotations: { note: "hello" } },
          spec: {
            replicas: 3,
            strategy: { rollingUpdate: { maxSurge: 2 } },
            progressDeadlineSeconds: 60,
            template: { spec: { containers: [{ name: "proxy", env: [{ name: "LOG_LEVEL", value: "debug" }] }] } },
          },
        },
        persistentVolumeClaim: claim,
      },
      { deployment: { spec: { minReadySeconds: 4 } } },
    ],
  });

  test("make the proxies a StatefulSet with the parameters of the Deployment, each proxy with a volume of its own", () => {
    expect(workloadOf(made).map(({ kind }) => kind)).toEqual([
      ...["ServiceAccount", "Service", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy"],
    ]);
    const { metadata, spec } = objectOf("StatefulSet", made);
    expect(metadata).toMatchObject({ name: "web-gateway-proxy", annotations: { note: "hello" } });
    expect(spec).not.toHaveProperty("strategy");
    expect(spec).not.toHaveProperty("progressDeadlineSeconds");
    const env: unknown = expect.arrayContaining([
      { name: "STATE_DIR", value: "/var/lib/gateway-proxy/counters" },
      { name: "LOG_LEVEL", value: "debug" },
    ]);
    const volumeMounts: unknown = expect.arrayContaining([{ name: "state", mountPath: "/var/lib/gateway-proxy" }]);
    expect(spec).toMatchObject({
      ...{ replicas: 3, minReadySeconds: 4, serviceName: "web-gateway-proxy", podManagementPolicy: "Parallel" },
      updateStrategy: { type: "RollingUpdate" },
      persistentVolumeClaimRetentionPolicy: { whenDeleted: "Delete", whenScaled: "Retain" },
      template: {
        spec: {
          securityContext: { runAsNonRoot: true, fsGroup: 65_532, fsGroupChangePolicy: "OnRootMismatch" },
          containers: [{ name: "proxy", env, volumeMounts, securityContext: { readOnlyRootFilesystem: true } }],
        },
      },
      volumeClaimTemplates: [
        {
          metadata: { name: "state", labels: { "gateway.networking.k8s.io/gateway-name": "web" } },
          spec: { accessModes: ["ReadWriteOnce"], ...claim.spec },
        },
      ],
    });
  });

  test("are of 1 GiB and of the default storage class without fields", () => {
    const set = objectOf("StatefulSet", tenant({ parameters: [{ persistentVolumeClaim: {} }] }));
    const [template] = field(set, "spec.volumeClaimTemplates") as [object];
    expect(field(template, "spec.resources.requests.storage")).toBe("1Gi");
    expect(field(template, "spec")).not.toHaveProperty("storageClassName");
  });

  test("are kept if the parameters of the StatefulSet request it", () => {
    const persistentVolumeClaimRetentionPolicy = { whenDeleted: "Retain" };
    const parameters = [{ persistentVolumeClaim: {}, statefulSet: { spec: { persistentVolumeClaimRetentionPolicy } } }];
    expect(field(objectOf("StatefulSet", tenant({ parameters })), "spec.persistentVolumeClaimRetentionPolicy")).toEqual(
      {
        ...{ whenDeleted: "Retain", whenScaled: "Retain" },
      },
    );
  });

  test("are scaled by an autoscaler of the StatefulSet", () => {
    const scaled = tenant({ parameters: [{ persistentVolumeClaim: {}, horizontalPodAutoscaler: {} }] });
    expect(field(objectOf("HorizontalPodAutoscaler", scaled), "spec.scaleTargetRef")).toEqual({
      ...{ apiVersion: "apps/v1", kind: "StatefulSet", name: "web-gateway-proxy" },
    });
    expect(objectOf("StatefulSet", scaled)["spec"]).not.toHaveProperty("replicas");
  });

  test("are of pods that the selector of the StatefulSet distinguishes from those of a Deployment", () => {
    const labels = field(objectOf("Deployment"), "spec.template.metadata.labels") as Record<string, string>;
    const selector = field(objectOf("StatefulSet", made), "spec.selector.matchLabels") as Record<string, string>;
    expect(Object.entries(selector).every(([key, value]) => labels[key] === value)).toBe(false);
    expect(field(objectOf("StatefulSet", made), "spec.template.metadata.labels")).toMatchObject(selector);
    // The Service and the budget select both.
    expect(selector).toMatchObject(field(objectOf("Service", made), "spec.selector") as object);
    expect(selector).toMatchObject(field(objectOf("PodDisruptionBudget", made), "spec.selector.matchLabels") as object);
  });

  test("belong to a StatefulSet whose pods have names and labels that the API accepts, for the longest name of a Gateway", () => {
    const gateway = gatewayWith("", `${"a".repeat(200)}.${"b".repeat(52)}`);
    const { metadata, spec } = objectOf(
      "StatefulSet",
      tenant({ gateway, parameters: [{ persistentVolumeClaim: {} }] }),
    );
    // The value of controller-revision-hash is the name, a dash and a hash of up to ten digits.
    expect(String(field(metadata, "name")).length).toBeLessThanOrEqual(63 - 11);
    expect(field(spec, "template.spec.serviceAccountName")).toBe(
      field(objectOf("ServiceAccount", tenant({ gateway })), "metadata.name"),
    );
  });
});

describe("a pod", () => {
  test("complies with the Pod Security Standard restricted", () => {
    expect(field(objectOf("Deployment"), "spec.template.spec")).toMatchObject({
      securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
      containers: [
        {
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ["ALL"] },
          },
        },
      ],
    });
  });
});

describe("the roles of a Gateway's proxies", () => {
  const roles = rolesOf(tenant(), [
    { kind: "Secret", namespace: "infra", name: "b" },
    { kind: "Secret", namespace: "infra", name: "a" },
    { kind: "Secret", namespace: "infra", name: "a" },
    { kind: "ConfigMap", namespace: "team", name: "ca" },
  ]);

  test("permit to read, in each namespace, exactly the referenced Secrets and ConfigMaps", () => {
    const rules = roles.filter(({ kind }) => kind === "Role").map(({ namespace, body }) => [namespace, body["rules"]]);
    const verbs = ["list", "watch"];
    expect(rules).toMatchObject([
      ["infra", [{ apiGroups: [""], resources: ["secrets"], resourceNames: ["a", "b"], verbs }]],
      ["team", [{ apiGroups: [""], resources: ["configmaps"], resourceNames: ["ca"], verbs }]],
    ]);
  });

  test("have unique names, whatever the names of the Gateway and its namespace contain", () => {
    const named = (namespace: string, name: string) => {
      const gateway = gatewayWith("", name);
      const made = tenant({ gateway: { ...gateway, metadata: { ...gateway.metadata, namespace } } });
      return rolesOf(made, [{ kind: "Secret", namespace: "certs", name: "a" }]).map(ownedKey);
    };
    const all = [...named("team", "a-web"), ...named("team-a", "web")];
    expect(all).toHaveLength(6);
    expect(new Set(all).size).toBe(6);
  });

  test("are bound to their ServiceAccount only", () => {
    const bindings = roles.filter(({ kind }) => kind === "RoleBinding" || kind === "ClusterRoleBinding");
    expect(bindings).toHaveLength(3);
    for (const { body } of bindings) {
      expect(body["subjects"]).toEqual([{ kind: "ServiceAccount", namespace: "infra", name: "web-gateway-proxy" }]);
    }
  });

  test("have an owner reference only in the namespace of the Gateway", () => {
    const owned = roles.filter(({ body }) => field(body, "metadata.ownerReferences") !== undefined);
    expect(owned.map(({ namespace }) => namespace)).toEqual(["infra", "infra"]);
  });
});
