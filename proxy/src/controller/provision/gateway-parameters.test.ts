/**
 * A Gateway's parameters cannot decide what runs: whatever fields are accepted, pods comply with the Pod Security
 * Standard "restricted", and the controller sets image, command and account.
 */
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { parseManifests } from "../../api/parse-manifests.ts";
import type { KubeObject } from "../../kube/object.ts";
import { noCredentials } from "../../translate/tls/credentials.ts";
import { planFor } from "../plan.ts";
import { proxyDefaults } from "../testing/proxy-defaults.ts";
import type { ProxyDefaults } from "./workload.ts";

const defaults: ProxyDefaults = { ...proxyDefaults, serviceType: "NodePort" };

/** @param data of the Gateway's ConfigMap, as texts. */
function planWith(
  data: Readonly<Record<string, string>>,
  ofClass: Readonly<Record<string, string>> = {},
  infrastructure = {},
  others: readonly object[] = [],
) {
  const objects = [
    ...others,
    {
      apiVersion: "gateway.networking.k8s.io/v1",
      kind: "GatewayClass",
      metadata: { name: "ours" },
      spec: {
        controllerName: "gatewayproxy.dev/controller",
        parametersRef: { group: "", kind: "ConfigMap", name: "of-class", namespace: "operator" },
      },
    },
    { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "of-class", namespace: "operator" }, data: ofClass },
    { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "shape", namespace: "infra" }, data },
    {
      apiVersion: "gateway.networking.k8s.io/v1",
      kind: "Gateway",
      metadata: { name: "web", namespace: "infra", uid: "u" },
      spec: {
        gatewayClassName: "ours",
        infrastructure: { parametersRef: { group: "", kind: "ConfigMap", name: "shape" }, ...infrastructure },
        listeners: [{ name: "http", port: 80, protocol: "HTTP" }],
      },
    },
  ];
  const text = objects.map((each) => JSON.stringify(each)).join("\n---\n");
  const { resources, problems } = parseManifests([{ path: "a.yaml", text }]);
  if (problems.length > 0) throw new Error(JSON.stringify(problems));
  const plan = runToEnd(
    planFor({ resources, rejected: [], unreadable: new Set(), crowded: new Set() }, defaults, noCredentials),
  );
  const accepted = plan.statuses.gateways[0]?.conditions.find(({ type }) => type === "Accepted");
  const body = (kind: string) => plan.provision.desired.find((each) => each.kind === kind)?.body;
  return { accepted, body, statuses: plan.statuses };
}

interface PodSpec {
  readonly [field: string]: unknown;
  readonly containers: readonly KubeObject[];
}

/** Pods of a Deployment or StatefulSet. */
function podOf(workload: KubeObject | undefined): { readonly metadata: KubeObject; readonly spec: PodSpec } {
  const { template } = workload?.["spec"] as { template: { metadata: KubeObject; spec: PodSpec } };
  return template;
}

/** The containers of a Gateway without parameters, and of one with volumes. */
const untouched = [planWith({}).body("Deployment"), planWith({ persistentVolumeClaim: "{}" }).body("StatefulSet")].map(
  (workload) => podOf(workload).spec.containers[0]?.["env"],
);

/** Returns what in a pod violates the Pod Security Standard "restricted", or changes what runs. */
function violations({ metadata, spec }: ReturnType<typeof podOf>): readonly string[] {
  const { securityContext, volumes, serviceAccountName } = spec;
  const [container] = spec.containers;
  const pod = securityContext as KubeObject;
  const own = container?.["securityContext"] as KubeObject | undefined;
  const kinds = (volumes as readonly KubeObject[])
    .flatMap((volume) => Object.keys(volume))
    .filter((key) => key !== "name");
  const annotations = Object.keys((metadata["annotations"] as object | undefined) ?? {});
  const rules: Readonly<Record<string, boolean>> = {
    hostNamespaces: ["hostNetwork", "hostPID", "hostIPC", "hostUsers", "hostAliases"].every(
      (field) => !(field in spec),
    ),
    oneContainer: spec.containers.length === 1 && !("initContainers" in spec) && !("ephemeralContainers" in spec),
    image: container?.["image"] === "proxy:1",
    command:
      JSON.stringify([container?.["command"], (container?.["args"] as string[])[2]]) ===
      '[["node","proxy.js"],"infra/web"]',
    env: untouched.some((env) => isDeepStrictEqual(container?.["env"], env)) && !("envFrom" in (container ?? {})),
    account: serviceAccountName === "web-ours" && !("serviceAccount" in spec),
    volumes: kinds.every((kind) => kind === "emptyDir"),
    nonRoot: pod["runAsNonRoot"] === true && pod["runAsUser"] === 65_532,
    seccomp: (pod["seccompProfile"] as KubeObject)["type"] === "RuntimeDefault",
    escalation:
      own?.["allowPrivilegeEscalation"] === false && !("privileged" in own) && own["readOnlyRootFilesystem"] === true,
    capabilities: JSON.stringify(own?.["capabilities"]) === '{"drop":["ALL"]}',
    ports: (container?.["ports"] as readonly KubeObject[]).every((port) => !("hostPort" in port)),
    node:
      !("nodeName" in spec) &&
      !("priorityClassName" in spec) &&
      !("runtimeClassName" in spec) &&
      !("schedulerName" in spec),
    injection: annotations.every((key) => !key.includes("/") || key.startsWith("prometheus.io/")),
    memory: "limits" in (container?.["resources"] as object),
  };
  return Object.entries(rules).flatMap(([rule, holds]) => (holds ? [] : [rule]));
}

const evil: readonly [string, KubeObject][] = [
  ["image", { containers: [{ name: "proxy", image: "evil" }] }],
  ["command", { containers: [{ name: "proxy", command: ["sh"] }] }],
  ["args", { containers: [{ name: "proxy", args: ["--kubernetes"] }] }],
  ["env", { containers: [{ name: "proxy", env: [{ name: "NODE_OPTIONS", value: "--import=data:," }] }] }],
  ["a container of his own", { containers: [{ name: "evil", image: "evil" }] }],
  ["an init container", { initContainers: [{ name: "evil", image: "evil" }] }],
  ["hostPath", { volumes: [{ name: "tmp", hostPath: { path: "/" } }] }],
  ["the account", { serviceAccountName: "other" }],
  ["the old account", { serviceAccount: "other" }],
  ["root", { securityContext: { runAsUser: 0 } }],
  ["no security context", { securityContext: null }],
  ["nothing of the container", { containers: null }],
  ["hostNetwork", { hostNetwork: true }],
  ["hostPID", { hostPID: true }],
  ["a node", { nodeName: "control-plane" }],
  ["a priority", { priorityClassName: "system-cluster-critical" }],
  ["host aliases", { hostAliases: [{ ip: "127.0.0.1", hostnames: ["a"] }] }],
  ["a device", { containers: [{ name: "proxy", resources: { limits: { "nvidia.com/gpu": 1 } } }] }],
  [
    "others' pods",
    {
      affinity: {
        podAntiAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: "zone", namespaceSelector: {} }],
        },
      },
    },
  ],
];

const inPod = (spec: unknown) => stringify({ spec: { template: { spec } } });

describe("a Gateway's own parameters", () => {
  test.each(evil)("cannot set %s", (_, spec) => {
    const { accepted, body } = planWith({ deployment: inPod(spec) });
    expect(accepted).toMatchObject({ status: "False", reason: "InvalidParameters" });
    expect(accepted?.message).toMatch(
      /^ConfigMap infra\/shape: deployment\.spec\.template\.spec.*in the parameters of the GatewayClass$/,
    );
    expect(body("Deployment")).toBeUndefined();
  });

  test.each([
    ["the selector", "deployment", { spec: { selector: { matchLabels: { a: "b" } } } }],
    ["nothing of the template", "deployment", { spec: { template: null } }],
    [
      "an annotation that injects a container",
      "deployment",
      { spec: { template: { metadata: { annotations: { "sidecar.istio.io/inject": "true" } } } } },
    ],
    ["externalIPs", "service", { spec: { externalIPs: ["8.8.8.8"] } }],
    ["ExternalName", "service", { spec: { type: "ExternalName", externalName: "a.test" } }],
    ["whose pods it selects", "service", { spec: { selector: { app: "other" } } }],
    ["a cluster address", "service", { spec: { clusterIP: "10.96.0.1" } }],
    ["a type that its class does not have", "service", { spec: { type: "LoadBalancer" } }],
    ["a cloud identity", "serviceAccount", { metadata: { annotations: { "eks.amazonaws.com/role-arn": "a" } } }],
    ["a budget that keeps nodes from being drained", "podDisruptionBudget", { spec: { maxUnavailable: 0 } }],
    ["another target of the autoscaler", "horizontalPodAutoscaler", { spec: { scaleTargetRef: { name: "other" } } }],
    ["any number of replicas", "deployment", { spec: { replicas: 100_000 } }],
    ["the pods of a StatefulSet", "statefulSet", { spec: { template: { spec: { hostNetwork: true } } } }],
    ["volumes of its own", "statefulSet", { spec: { volumeClaimTemplates: [] } }],
    [
      "the content of a volume",
      "persistentVolumeClaim",
      { spec: { dataSource: { kind: "VolumeSnapshot", name: "a" } } },
    ],
    ["an existing volume", "persistentVolumeClaim", { spec: { volumeName: "pv-of-another" } }],
    ["no size of a volume", "persistentVolumeClaim", { spec: { resources: { requests: { storage: "much" } } } }],
  ])("cannot set %s", (_, key, fields) => {
    const { accepted, body } = planWith({ [key]: stringify(fields) });
    expect(accepted).toMatchObject({ status: "False", reason: "InvalidParameters" });
    expect(body("Deployment")).toBeUndefined();
  });

  test("cannot change where the class schedules pods, and the class may set everything", () => {
    const ofClass = { deployment: inPod({ nodeSelector: { pool: "edge" }, hostNetwork: true }) };
    const { accepted, body } = planWith({ deployment: inPod({ nodeSelector: { pool: "control" } }) }, ofClass);
    expect(accepted?.message).toContain("deployment.spec.template.spec.nodeSelector is set by the GatewayClass ours");
    expect(body("Deployment")).toBeUndefined();
    expect(podOf(planWith({ deployment: "spec: {replicas: 3}" }, ofClass).body("Deployment")).spec).toMatchObject({
      hostNetwork: true,
      nodeSelector: { pool: "edge" },
    });
  });

  test("are reported with the field and the accepted values", () => {
    const { accepted } = planWith({ deployment: "spec: {replicas: many}" });
    expect(accepted?.message).toBe(
      'ConfigMap infra/shape: deployment.spec.replicas: found "many", accepted is an integer from 0 to 100; ' +
        "other fields can be set in the parameters of the GatewayClass",
    );
  });

  const quantity = fc.constantFrom("100m", "1", 2, "512Mi");
  const good = fc.record(
    {
      deployment: fc.record(
        {
          replicas: fc.integer({ min: 0, max: 100 }),
          minReadySeconds: fc.nat(100),
          template: fc.record(
            {
              metadata: fc.record({
                labels: fc.constant({ team: "blue" }),
                annotations: fc.constant({ "prometheus.io/scrape": "true" }),
              }),
              spec: fc.record(
                {
                  nodeSelector: fc.constant({ zone: "a" }),
                  tolerations: fc.constant([{ operator: "Exists" }]),
                  affinity: fc.constant({ nodeAffinity: { any: {} } }),
                  topologySpreadConstraints: fc.constant([{ topologyKey: "zone", maxSkew: 1 }]),
                  containers: fc.constant(undefined).chain(() =>
                    fc.tuple(
                      fc.record({
                        name: fc.constant("proxy"),
                        resources: fc.record({ limits: fc.record({ memory: quantity }) }),
                      }),
                    ),
                  ),
                },
                { requiredKeys: [] },
              ),
            },
            { requiredKeys: [] },
          ),
        },
        { requiredKeys: [] },
      ),
      service: fc.record(
        { type: fc.constantFrom("ClusterIP", "NodePort"), ports: fc.constant([{ port: 80, nodePort: 30080 }]) },
        { requiredKeys: [] },
      ),
      statefulSet: fc.record({
        persistentVolumeClaimRetentionPolicy: fc.record({ whenDeleted: fc.constantFrom("Delete", "Retain") }),
      }),
      persistentVolumeClaim: fc.record(
        {
          storageClassName: fc.constantFrom("fast", "slow"),
          resources: fc.record({ requests: fc.record({ storage: fc.constantFrom("1Gi", 1_000_000_000) }) }),
        },
        { requiredKeys: [] },
      ),
      podDisruptionBudget: fc.record({ maxUnavailable: fc.constantFrom(1, "50%") }),
      horizontalPodAutoscaler: fc.record({ maxReplicas: fc.integer({ min: 1, max: 100 }) }),
    },
    { requiredKeys: [] },
  );

  test("keep pods restricted, whatever fields are accepted", () => {
    let acceptedCount = 0;
    fc.assert(
      fc.property(good, fc.option(fc.constantFrom(...evil), { nil: undefined }), fc.boolean(), (fields, bad, isBad) => {
        const { template, ...rest } = { template: undefined, ...fields.deployment };
        const spec = isBad && bad !== undefined ? { ...template?.spec, ...bad[1] } : template?.spec;
        const all = {
          ...fields,
          deployment: { ...rest, ...(template && { template: { ...template, ...(spec && { spec }) } }) },
        };
        const data = Object.fromEntries(Object.entries(all).map(([key, each]) => [key, stringify({ spec: each })]));
        const { accepted, body } = planWith(data);
        if (accepted?.status !== "True") {
          expect(isBad).toBe(true);
          return;
        }
        acceptedCount++;
        const kind = fields.persistentVolumeClaim === undefined ? "Deployment" : "StatefulSet";
        expect(violations(podOf(body(kind)))).toEqual([]);
      }),
      { numRuns: 150 },
    );
    expect(acceptedCount).toBeGreaterThan(50);
  });

  test("of any text are read or rejected, and never throw", () => {
    const piece = fc.constantFrom(
      ...[
        "spec:",
        " {",
        "}",
        "[",
        "]",
        "*nothing",
        "&a",
        "*a",
        "<<: *a",
        "- ",
        "\n",
        "  ",
        ": ",
        "!!js/function",
        "!!binary ",
        "%TAG",
        "---\n",
        "...\n",
      ],
      ...[
        "replicas: 3",
        "null",
        "? ",
        "|",
        ">",
        "'",
        '"',
        "\t",
        "\0",
        "__proto__: {a: 1}",
        "constructor: 1",
        "kind",
        "a: &a [*a]",
      ],
    );
    const text = fc.oneof(
      fc.array(piece, { maxLength: 30 }).map((pieces) => pieces.join("")),
      fc.string(),
    );
    const key = fc.constantFrom(
      ...["deployment", "statefulSet", "persistentVolumeClaim", "service", "podDisruptionBudget"],
      "horizontalPodAutoscaler",
    );
    fc.assert(
      fc.property(key, text, fc.boolean(), (known, value, isOfClass) => {
        const data = { [known]: value };
        const { accepted } = isOfClass ? planWith({}, data) : planWith(data);
        expect(accepted?.reason).toMatch(/^(Accepted|InvalidParameters)$/);
      }),
      { numRuns: 500 },
    );
  }, 60_000);

  test.each([
    ["an alias of nothing", "spec: *nothing", /service is not valid YAML: .*alias.* at line 1, column 7/],
    ["an alias bomb", bomb(), /service is not valid YAML: .*aliases stand for more than 2000 values/],
    ["a cycle", "spec: &a {b: *a}", /service is not valid YAML: text is nested deeper than 64 levels/],
    ["depth", `spec: ${"[".repeat(10_000)}`, /service is not valid YAML: /],
    ["many keys", manyKeys(1_500), /service is not valid YAML: text has more than 2000 YAML tokens/],
    ["size", `# ${"x".repeat(70_000)}\nspec: {}`, /has 70011 characters; a Gateway accepts at most 16384/],
    ["two documents", "spec: {}\n---\nspec: {}", /service must be one document/],
  ])("are rejected for %s", (_, service, message) => {
    expect(planWith({ service }).accepted).toMatchObject({
      reason: "InvalidParameters",
      message: expect.stringMatching(message) as string,
    });
  });
});

/** A text for which a parser that compares each key with all others takes long. */
function manyKeys(count: number): string {
  return Array.from({ length: count }, (_, index) => `k${index}: 1\n`).join("");
}

function bomb(): string {
  const lines = Array.from(
    { length: 20 },
    (_, index) => `a${index}: &a${index} [${index === 0 ? "x" : `*a${index - 1}, *a${index - 1}, *a${index - 1}`}]`,
  );
  return lines.join("\n");
}

test("labels and annotations that other controllers interpret are set on the Service only", () => {
  const annotations = {
    "sidecar.istio.io/inject": "true",
    "service.beta.kubernetes.io/aws-load-balancer-scheme": "internal",
    note: "a",
  };
  const { accepted, body } = planWith({}, {}, { annotations, labels: { "istio.io/rev": "x", team: "blue" } });
  expect(accepted).toMatchObject({ status: "True" });
  expect(accepted?.message).toContain("sidecar.istio.io/inject");
  const on = (kind: string) => body(kind)?.["metadata"] as { annotations?: object; labels: object };
  expect(on("Service").annotations).toEqual(annotations);
  expect(on("Service").labels).toMatchObject({ "istio.io/rev": "x", team: "blue" });
  for (const kind of ["Deployment", "ServiceAccount", "PodDisruptionBudget"]) {
    expect(on(kind).annotations).toEqual({ note: "a" });
    expect(on(kind).labels).not.toHaveProperty("istio.io/rev");
  }
  expect(podOf(body("Deployment")).metadata["annotations"]).toEqual({ note: "a" });
});

describe("a field that the class sets", () => {
  const scheme = "service.beta.kubernetes.io/aws-load-balancer-scheme";
  const container = (resources: object) => ({
    spec: { template: { spec: { containers: [{ name: "proxy", resources }] } } },
  });

  test.each([
    [
      "an annotation of the Service",
      { service: { metadata: { annotations: { [scheme]: "internal" } } } },
      { service: { metadata: { annotations: { [scheme]: "internet-facing" } } } },
      `service.metadata.annotations["${scheme}"]`,
    ],
    [
      "another annotation for the same load balancer",
      { service: { metadata: { annotations: { [scheme]: "internal" } } } },
      { service: { metadata: { annotations: { "service.beta.kubernetes.io/aws-load-balancer-internal": "false" } } } },
      'service.metadata.annotations["service.beta.kubernetes.io/aws-load-balancer-internal"]',
    ],
    [
      "who may reach the Service",
      { service: { spec: { loadBalancerSourceRanges: ["10.0.0.0/8"] } } },
      { service: { spec: { loadBalancerSourceRanges: ["0.0.0.0/0"] } } },
      "service.spec.loadBalancerSourceRanges",
    ],
    [
      "a port of nodes",
      { service: { spec: { ports: [{ port: 80, nodePort: 30_080 }] } } },
      { service: { spec: { ports: [{ port: 80, nodePort: 30_081 }] } } },
      "service.spec.ports[0].nodePort",
    ],
    [
      "how many proxies there are at most",
      { horizontalPodAutoscaler: { spec: { maxReplicas: 5 } } },
      { horizontalPodAutoscaler: { spec: { maxReplicas: 50 } } },
      "horizontalPodAutoscaler.spec.maxReplicas",
    ],
    [
      "the number of proxies, also for an autoscaler",
      { deployment: { spec: { replicas: 2 } } },
      { horizontalPodAutoscaler: { spec: { maxReplicas: 50 } } },
      "deployment.spec.replicas",
    ],
    [
      "the memory of a proxy",
      { deployment: container({ limits: { memory: "512Mi" } }) },
      { deployment: container({ limits: { memory: "64Gi" } }) },
      "deployment.spec.template.spec.containers[0].resources.limits.memory",
    ],
    [
      "a field that it removes",
      { deployment: { spec: { minReadySeconds: null } } },
      { deployment: { spec: { minReadySeconds: 5 } } },
      "deployment.spec.minReadySeconds",
    ],
  ])("cannot be replaced by a Gateway: %s", (_, ofClass, own, field) => {
    const texts = (parameters: object) =>
      Object.fromEntries(Object.entries(parameters).map(([key, fields]) => [key, JSON.stringify(fields)]));
    const { accepted } = planWith(texts(own), texts(ofClass));
    expect(accepted).toMatchObject({
      status: "False",
      reason: "InvalidParameters",
      message: `${field} is set by the GatewayClass ours and cannot be changed by a Gateway`,
    });
  });

  test("can be extended by a Gateway", () => {
    const ofClass = {
      service: JSON.stringify({ metadata: { annotations: { [scheme]: "internal" } } }),
      deployment: JSON.stringify(container({ limits: { memory: "512Mi" } })),
    };
    const own = {
      service: JSON.stringify({ metadata: { annotations: { note: "mine" } }, spec: { sessionAffinity: "ClientIP" } }),
      // The same value is not a conflict.
      deployment: JSON.stringify(container({ limits: { memory: "512Mi", cpu: 2 } })),
    };
    const { accepted, body } = planWith(own, ofClass);
    expect(accepted?.reason).toBe("Accepted");
    expect(body("Service")?.["metadata"]).toMatchObject({ annotations: { [scheme]: "internal", note: "mine" } });
    expect(podOf(body("Deployment")).spec.containers[0]).toMatchObject({
      resources: { limits: { memory: "512Mi", cpu: 2 } },
    });
  });

  test("takes precedence over labels and annotations of infrastructure", () => {
    const ofClass = {
      service: JSON.stringify({ metadata: { annotations: { [scheme]: "internal" }, labels: { pool: "inside" } } }),
    };
    const sibling = "service.beta.kubernetes.io/aws-load-balancer-internal";
    const annotations = { [scheme]: "internet-facing", [sibling]: "false", note: "a" };
    const { accepted, body } = planWith({}, ofClass, { annotations, labels: { pool: "outside" } });
    const { annotations: made, labels } = body("Service")?.["metadata"] as { annotations: object; labels: object };
    expect(made).toEqual({ [scheme]: "internal", note: "a" });
    expect(labels).toMatchObject({ pool: "inside" });
    expect(accepted?.message).toContain(
      `infrastructure.annotations ${scheme}, ${sibling} have no effect, since the parameters of the GatewayClass ours set them or keys of the same prefix`,
    );
  });
});

describe("labels of pods", () => {
  const service = {
    ...{ apiVersion: "v1", kind: "Service", metadata: { name: "payments", namespace: "infra" } },
    spec: { selector: { team: "payments" }, ports: [{ port: 80 }] },
  };
  const labels = { app: "payments", team: "payments", "app.kubernetes.io/part-of": "payments", key1: "value1" };
  const labelsOfPods = (body: ReturnType<typeof planWith>["body"]) => podOf(body("Deployment")).metadata["labels"];

  test("cannot be ones by which Services of the namespace select pods, or pods are commonly selected", () => {
    const { accepted, body } = planWith({}, {}, { labels }, [service]);
    expect(labelsOfPods(body)).toMatchObject({ key1: "value1" });
    for (const key of ["app", "team", "app.kubernetes.io/part-of"]) {
      expect(labelsOfPods(body)).not.toHaveProperty([key]);
    }
    expect(body("Deployment")?.["metadata"]).toMatchObject({ labels });
    expect(body("Service")?.["metadata"]).toMatchObject({ labels });
    expect(accepted?.message).toContain(
      "infrastructure.labels app, team, app.kubernetes.io/part-of are not set on pods, since Services or NetworkPolicies may select pods by them",
    );
  });

  test("can be any others, also where another namespace selects by them", () => {
    const elsewhere = { ...service, metadata: { name: "payments", namespace: "other" } };
    expect(labelsOfPods(planWith({}, {}, { labels }, [elsewhere]).body)).toMatchObject({ team: "payments" });
  });

  test("from parameters are restricted in the same way", () => {
    const template = (own: object) => JSON.stringify({ spec: { template: { metadata: { labels: own } } } });
    const { body } = planWith({ deployment: template({ team: "payments", key1: "value1" }) }, {}, {}, [service]);
    expect(labelsOfPods(body)).toMatchObject({ key1: "value1" });
    expect(labelsOfPods(body)).not.toHaveProperty("team");
    expect(planWith({ deployment: template({ app: "payments" }) }).accepted).toMatchObject({
      reason: "InvalidParameters",
      message: expect.stringContaining(
        'deployment.spec.template.metadata.labels.app: found "app", accepted is a key by which pods are not commonly selected',
      ) as string,
    });
  });

  test("from the class are not restricted", () => {
    const ofClass = { deployment: JSON.stringify({ spec: { template: { metadata: { labels: { app: "edge" } } } } }) };
    expect(labelsOfPods(planWith({}, ofClass).body)).toMatchObject({ app: "edge" });
  });
});
