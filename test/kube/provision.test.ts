/** The objects that the controller creates for a Gateway, on a real API server with its garbage collector. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeCluster, eventually } from "./support/cluster.ts";
import { type ControllerProcess, startController } from "./support/controller-process.ts";

describeCluster("provisioning", (cluster) => {
  let controller: ControllerProcess;

  beforeAll(async () => {
    await cluster.apply(`
apiVersion: v1
kind: Namespace
metadata: {name: provision-system}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: provisioned}
spec: {controllerName: gatewayproxy.dev/controller}
`);
    controller = await startController({
      kubeconfig: cluster.kubeconfig,
      namespace: "provision-system",
      args: ["--proxy-service-type", "ClusterIP"],
    });
  });

  afterAll(async () => {
    await controller.stop();
    await cluster.deleteClass("provisioned");
    await cluster.kubectl(["delete", "namespace/provision-system", "--wait=false"]);
  });

  function gateway(namespace: string, infrastructure = "", listeners = "[{name: http, protocol: HTTP, port: 80}]") {
    return `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: ${namespace}}
spec:
  gatewayClassName: provisioned
  listeners: ${listeners}
${infrastructure}
`;
  }

  const exists = (resource: string, namespace: string) => cluster.becomes(resource, namespace, {});

  const isGone = (resource: string, namespace: string) =>
    eventually(
      () =>
        cluster.get(resource, namespace).then(
          () => false,
          (error: unknown) => String(error).includes("NotFound"),
        ),
      Boolean,
    );

  test("gives a Gateway its own pods, with only the permissions that they need", async () => {
    const namespace = await cluster.namespace();
    // The API server itself validates the pods against the standard.
    await cluster.kubectl(["label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted"]);
    await cluster.apply(gateway(namespace));
    const deployment = await exists("deployment/web-provisioned", namespace);
    expect(deployment).toMatchObject({
      metadata: {
        labels: { "gateway.networking.k8s.io/gateway-name": "web" },
        ownerReferences: [{ kind: "Gateway", name: "web", controller: true }],
      },
      spec: {
        replicas: 2,
        template: {
          spec: {
            serviceAccountName: "web-provisioned",
            containers: [{ args: ["--kubernetes", "--gateway", `${namespace}/web`], image: "test/proxy:1" }],
          },
        },
      },
    });
    await eventually(
      () => cluster.kubectl(["get", "pods", "-n", namespace, "-o", "name"]),
      (names) => names.trim().split("\n").length === 2 && names.includes("pod/"),
    );
    await cluster.becomes("poddisruptionbudget/web-provisioned", namespace, {
      spec: { maxUnavailable: 1, unhealthyPodEvictionPolicy: "AlwaysAllow" },
    });
    await exists("serviceaccount/web-provisioned", namespace);
  });

  test("opens the ports of the listeners, and follows their changes", async () => {
    const namespace = await cluster.namespace();
    await cluster.apply(gateway(namespace));
    await cluster.becomes("service/web-provisioned", namespace, {
      spec: { type: "ClusterIP", ports: [{ port: 80, targetPort: 80 }] },
    });
    const two = "[{name: http, protocol: HTTP, port: 80}, {name: other, protocol: HTTP, port: 8080}]";
    await cluster.apply(gateway(namespace, "", two));
    await cluster.becomes("service/web-provisioned", namespace, { spec: { ports: [{ port: 80 }, { port: 8080 }] } });
  });

  test("is programmed once a proxy is ready, and reports until then that none is", async () => {
    const namespace = await cluster.namespace();
    await cluster.apply(gateway(namespace));
    const waiting = await cluster.becomes("gateway/web", namespace, {
      status: {
        conditions: expect.arrayContaining([
          expect.objectContaining({ type: "Accepted", status: "True", reason: "Accepted" }),
          expect.objectContaining({ type: "Programmed", status: "False", reason: "NoResources" }),
        ]) as unknown,
        addresses: [{ type: "IPAddress" }],
        listeners: [{ name: "http", attachedRoutes: 0 }],
      },
    });
    // There is no node here: a manual slice represents a ready pod.
    await cluster.apply(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-by-hand, namespace: ${namespace}, labels: {kubernetes.io/service-name: web-provisioned}}
addressType: IPv4
ports: [{name: port-80, port: 80}]
endpoints: [{addresses: [10.1.2.3], conditions: {ready: true}}]
`);
    const programmed = await cluster.becomes("gateway/web", namespace, {
      status: {
        conditions: expect.arrayContaining([
          expect.objectContaining({ type: "Programmed", status: "True", reason: "Programmed" }),
        ]) as unknown,
      },
    });
    expect(transitionOf(programmed, "Accepted")).toBe(transitionOf(waiting, "Accepted"));
  });

  test("restores objects that another writer changes or deletes", async () => {
    const namespace = await cluster.namespace();
    await cluster.apply(gateway(namespace));
    const before = await exists("deployment/web-provisioned", namespace);
    await cluster.kubectl([
      "set",
      "image",
      "-n",
      namespace,
      "deployment/web-provisioned",
      "proxy=example.test/other:1",
    ]);
    await cluster.becomes("deployment/web-provisioned", namespace, {
      spec: { template: { spec: { containers: [{ image: "test/proxy:1" }] } } },
    });
    await cluster.kubectl(["delete", "-n", namespace, "deployment/web-provisioned", "service/web-provisioned"]);
    const after = await eventually(
      () => cluster.get("deployment/web-provisioned", namespace),
      ({ metadata }) => metadata.uid !== before.metadata.uid,
    );
    expect(after.metadata.name).toBe("web-provisioned");
    await exists("service/web-provisioned", namespace);
  });

  test("deletes the objects with their Gateway", async () => {
    const namespace = await cluster.namespace();
    await cluster.apply(gateway(namespace));
    await exists("deployment/web-provisioned", namespace);
    const bindings = [
      "get",
      "clusterrolebindings",
      "-l",
      `gatewayproxy.dev/gateway-namespace=${namespace}`,
      "-o",
      "name",
    ];
    expect(await cluster.kubectl(bindings)).toContain("clusterrolebinding");
    await cluster.kubectl(["delete", "-n", namespace, "gateway/web"]);
    await Promise.all(
      ["deployment", "service", "serviceaccount", "poddisruptionbudget"].map((kind) =>
        isGone(`${kind}/web-provisioned`, namespace),
      ),
    );
    await eventually(
      () => cluster.kubectl(bindings),
      (names) => names === "",
    );
  });

  test("puts labels and annotations of the infrastructure on everything", async () => {
    const namespace = await cluster.namespace();
    await cluster.apply(gateway(namespace, "  infrastructure: {labels: {team: blue}, annotations: {note: here}}"));
    const marked = { metadata: { labels: { team: "blue" }, annotations: { note: "here" } } };
    await cluster.becomes("service/web-provisioned", namespace, marked);
    await cluster.becomes("deployment/web-provisioned", namespace, { ...marked, spec: { template: marked } });
    await cluster.apply(gateway(namespace));
    await eventually(
      () => cluster.get("service/web-provisioned", namespace),
      ({ metadata }) => metadata.labels?.["team"] === undefined,
    );
  });

  test("merges parameters over the objects that it creates, and rejects invalid ones", async () => {
    const namespace = await cluster.namespace();
    const named = "  infrastructure: {parametersRef: {group: '', kind: ConfigMap, name: shape}}";
    await cluster.apply(gateway(namespace, named));
    const rejected = {
      status: {
        conditions: expect.arrayContaining([
          expect.objectContaining({ type: "Accepted", status: "False", reason: "InvalidParameters" }),
        ]) as unknown,
      },
    };
    await cluster.becomes("gateway/web", namespace, rejected);
    await cluster.apply(`
apiVersion: v1
kind: ConfigMap
metadata: {name: shape, namespace: ${namespace}}
data:
  service: |
    spec: {clusterIP: None}
  deployment: |
    spec: {template: {spec: {containers: [{name: proxy, resources: {limits: {memory: 2Gi}}}]}}}
  horizontalPodAutoscaler: |
    spec: {maxReplicas: 5, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]}
`);
    await cluster.becomes("service/web-provisioned", namespace, { spec: { clusterIP: "None" } });
    await cluster.becomes("horizontalpodautoscaler/web-provisioned", namespace, {
      spec: { minReplicas: 2, maxReplicas: 5 },
    });
    const container: unknown = expect.objectContaining({
      resources: { requests: { cpu: "100m", memory: "384Mi" }, limits: { memory: "2Gi" } },
    });
    await cluster.becomes("deployment/web-provisioned", namespace, {
      spec: { template: { spec: { containers: [container] } } },
    });
    await cluster.kubectl(["patch", "-n", namespace, "configmap/shape", "-p", '{"data":{"service":"- no map"}}']);
    await cluster.becomes("gateway/web", namespace, rejected);
    // The served objects stay.
    await exists("service/web-provisioned", namespace);
  });

  test("changes no object that it did not create", async () => {
    const namespace = await cluster.namespace();
    await cluster.apply(`
apiVersion: v1
kind: Service
metadata: {name: web-provisioned, namespace: ${namespace}}
spec: {ports: [{port: 1234}]}
`);
    await cluster.apply(gateway(namespace));
    await cluster.becomes("gateway/web", namespace, {
      status: {
        conditions: expect.arrayContaining([
          expect.objectContaining({
            type: "Programmed",
            reason: "NoResources",
            message: expect.stringContaining("already exists and is not managed by gatewayproxy.dev") as unknown,
          }),
        ]) as unknown,
      },
    });
    expect(await cluster.get("service/web-provisioned", namespace)).toMatchObject({
      spec: { ports: [{ port: 1234 }] },
    });
  });

  test("accepts its class and says what it supports", async () => {
    const { status } = await cluster.becomes("gatewayclass/provisioned", "", {
      status: {
        conditions: [
          { type: "Accepted", status: "True", observedGeneration: 1 },
          { type: "SupportedVersion", status: "True", observedGeneration: 1 },
        ],
      },
    });
    const { supportedFeatures } = status as { supportedFeatures: readonly { name: string }[] };
    const names = supportedFeatures.map(({ name }) => name);
    expect(names).toContain("HTTPRoute");
    expect(names).toEqual([...names].sort());
  });
});

function transitionOf(object: Readonly<Record<string, unknown>>, type: string): string | undefined {
  const { conditions } = object["status"] as { conditions: readonly { type: string; lastTransitionTime: string }[] };
  return conditions.find((condition) => condition.type === type)?.lastTransitionTime;
}
