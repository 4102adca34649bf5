/** Objects of Gateways that have several writers: other Gateways, autoscalers, the API server itself. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeCluster, eventually } from "./support/cluster.ts";
import { type ControllerProcess, startController } from "./support/controller-process.ts";

describeCluster("provisioning of contested objects", (cluster) => {
  let controller: ControllerProcess;

  beforeAll(async () => {
    const classes = ["contested", "b-contested"].map(
      (name) => `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: ${name}}
spec: {controllerName: gatewayproxy.dev/controller}`,
    );
    await cluster.apply(
      ["{apiVersion: v1, kind: Namespace, metadata: {name: contested-system}}", ...classes].join("\n---\n"),
    );
    controller = await startController({
      kubeconfig: cluster.kubeconfig,
      namespace: "contested-system",
      args: ["--proxy-service-type", "ClusterIP"],
    });
  });

  afterAll(async () => {
    await controller.stop();
    for (const name of ["contested", "b-contested"]) await cluster.deleteClass(name);
    await cluster.kubectl(["delete", "namespace/contested-system", "--wait=false"]);
  });

  interface GatewayFields {
    readonly name?: string;
    readonly className?: string;
    readonly ports?: readonly number[];
  }

  /** With the parameters of the ConfigMap `shape`, if the test has one. */
  function gateway(namespace: string, { name = "web", className = "contested", ports = [80] }: GatewayFields = {}) {
    const listeners = ports.map((port) => `{name: port-${port}, protocol: HTTP, port: ${port}}`);
    return `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: ${name}, namespace: ${namespace}}
spec:
  gatewayClassName: ${className}
  infrastructure: {parametersRef: {group: "", kind: ConfigMap, name: shape}}
  listeners: [${listeners.join(", ")}]
`;
  }

  function shape(namespace: string, data: Readonly<Record<string, string>>): string {
    return JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "shape", namespace }, data });
  }

  const shaped = (namespace: string, data: Readonly<Record<string, string>>, fields?: GatewayFields) =>
    cluster.apply(`${shape(namespace, data)}\n---\n${gateway(namespace, fields)}`);

  /** The number of updates of an object by the controller. */
  const changes = (object: string) =>
    controller.log.filter((line) => line["object"] === object && line["msg"] === "changed").length;

  const condition = (fields: object) => ({
    status: { conditions: expect.arrayContaining([expect.objectContaining(fields)]) as unknown },
  });

  const gatewayNameOf = (name: string) => ({
    metadata: { labels: { "gateway.networking.k8s.io/gateway-name": name } },
  });

  test("leaves objects to the Gateway that owns them if another's have the same name, until it is deleted", async () => {
    const namespace = await cluster.namespace();
    await shaped(namespace, {}, { name: "a-b" });
    await cluster.becomes("poddisruptionbudget/a-b-contested", namespace, {});
    await cluster.apply(gateway(namespace, { name: "a", className: "b-contested" }));
    await cluster.becomes(
      "gateway/a",
      namespace,
      condition({
        type: "Programmed",
        status: "False",
        message: expect.stringContaining(
          `Deployment ${namespace}/a-b-contested already exists and belongs to Gateway`,
        ) as unknown,
      }),
    );
    await cluster.becomes(
      "gateway/a-b",
      namespace,
      condition({ type: "Programmed", message: "no proxy of the Gateway is ready yet" }),
    );
    expect(await cluster.get("deployment/a-b-contested", namespace)).toMatchObject(gatewayNameOf("a-b"));
    expect(changes(`Deployment ${namespace}/a-b-contested`)).toBe(0);
    await cluster.kubectl(["delete", "-n", namespace, "gateway/a-b"]);
    // Garbage collection takes time.
    await cluster.becomes("deployment/a-b-contested", namespace, gatewayNameOf("a"), 45_000);
  });

  test("leaves the number of replicas to an autoscaler, starting from the current number", async () => {
    const namespace = await cluster.namespace();
    await shaped(namespace, { deployment: "spec: {replicas: 5}" });
    const before = await cluster.becomes("deployment/web-contested", namespace, { spec: { replicas: 5 } });
    // The parameters still have the number.
    const autoscaler = "spec: {minReplicas: 3, maxReplicas: 9}";
    await shaped(namespace, { deployment: "spec: {replicas: 5}", horizontalPodAutoscaler: autoscaler });
    await cluster.becomes("horizontalpodautoscaler/web-contested", namespace, {});
    const after = await cluster.get("deployment/web-contested", namespace);
    expect(after).toMatchObject({ spec: before["spec"] });
    // One update, for the annotation with the digest: the number was never another one.
    expect(after.metadata.generation).toBe((before.metadata.generation ?? 0) + 1);
    await cluster.kubectl(["scale", "-n", namespace, "deployment/web-contested", "--replicas=7"]);
    await shaped(namespace, { horizontalPodAutoscaler: autoscaler }, { ports: [80, 81] });
    await cluster.becomes("service/web-contested", namespace, { spec: { ports: [{ port: 80 }, { port: 81 }] } });
    expect(await cluster.get("deployment/web-contested", namespace)).toMatchObject({ spec: { replicas: 7 } });
  });

  test("does not update objects that the API server normalizes", async () => {
    const namespace = await cluster.namespace();
    const container = "{name: proxy, resources: {requests: {cpu: 1000m, memory: 1024Mi}}}";
    await shaped(namespace, { deployment: `spec: {template: {spec: {containers: [${container}]}}}` });
    await cluster.becomes("deployment/web-contested", namespace, {
      spec: { template: { spec: { containers: [{ resources: { requests: { cpu: "1", memory: "1Gi" } } }] } } },
    });
    await cluster.apply(gateway(namespace, { ports: [80, 81] }));
    await cluster.becomes("service/web-contested", namespace, { spec: { ports: [{ port: 80 }, { port: 81 }] } });
    expect(changes(`Deployment ${namespace}/web-contested`)).toBe(0);
  });

  test("pauses updates of an object that another writer changes each time", async () => {
    const namespace = await cluster.namespace();
    await shaped(namespace, {});
    await cluster.becomes("poddisruptionbudget/web-contested", namespace, {});
    const object = `Deployment ${namespace}/web-contested`;
    for (let attempt = 1; attempt <= 8; attempt++) {
      const theirs = `example.test/other:${attempt}`;
      await cluster.kubectl(["set", "image", "-n", namespace, "deployment/web-contested", `proxy=${theirs}`]);
      await eventually(
        () => Promise.resolve(changes(object)),
        (count) => count >= Math.min(attempt, 5),
      );
    }
    const message = expect.stringContaining(`${object} is changed by another writer each time`) as unknown;
    await cluster.becomes("gateway/web", namespace, condition({ type: "Programmed", status: "False", message }));
    expect(changes(object)).toBe(5);
  });

  test("replaces a binding to another role, which cannot be changed", async () => {
    const namespace = await cluster.namespace();
    const name = `gateway-proxy:${namespace}:web-contested`;
    await cluster.apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: ${name}
  labels:
    app.kubernetes.io/managed-by: gatewayproxy.dev
    gateway.networking.k8s.io/gateway-name: web
    gatewayproxy.dev/gateway-namespace: ${namespace}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: of-an-earlier-release}
subjects: []
---
${shape(namespace, {})}
---
${gateway(namespace)}
`);
    await cluster.becomes(`clusterrolebinding/${name}`, "", {
      roleRef: { name: "gateway-proxy-proxy" },
      subjects: [{ kind: "ServiceAccount", namespace, name: "web-contested" }],
    });
  });
});
