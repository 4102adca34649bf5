/** Classes that are deleted while Gateways use them, on a real API server. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeCluster, eventually } from "./support/cluster.ts";
import { type ControllerProcess, startController } from "./support/controller-process.ts";

const ours = "gatewayproxy.dev/controller";
const finalizer = "gateway-exists-finalizer.gateway.networking.k8s.io";

describeCluster("a GatewayClass", (cluster) => {
  let controller: ControllerProcess;
  let system: string;

  beforeAll(async () => {
    system = "class-finalizer-system";
    await cluster.apply(`{apiVersion: v1, kind: Namespace, metadata: {name: ${system}}}`);
    controller = await startController({ kubeconfig: cluster.kubeconfig, namespace: system });
  });

  afterAll(async () => {
    await controller.stop();
    await cluster.kubectl(["delete", "namespace", system, "--wait=false"]);
  });

  const gatewayClass = (name: string, finalizers: readonly string[] = [], controllerName = ours) => `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: ${name}, finalizers: ${JSON.stringify(finalizers)}}
spec: {controllerName: ${controllerName}}
`;

  const gateway = (namespace: string, name: string, className: string) => `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: ${name}, namespace: ${namespace}}
spec: {gatewayClassName: ${className}, listeners: [{name: http, port: 80, protocol: HTTP}]}
`;

  const finalizersOf = async (name: string) => {
    const { metadata } = await cluster.get(`gatewayclass/${name}`);
    return (metadata as { finalizers?: readonly string[] }).finalizers ?? [];
  };

  const accepted = {
    status: {
      conditions: [
        { type: "Accepted", status: "True" },
        { type: "SupportedVersion", status: "True" },
      ],
    },
  };

  const isGone = (name: string) =>
    eventually(
      () => cluster.kubectl(["get", "gatewayclass", "-o", "name"]),
      (names) => !names.includes(`/${name}\n`),
    );

  test("that is deleted waits for its last Gateway, which is still served", async () => {
    const namespace = await cluster.namespace();
    await cluster.apply(gatewayClass("held"));
    await cluster.becomes("gatewayclass/held", "", accepted);
    expect(await finalizersOf("held")).toEqual([]);
    await cluster.apply(gateway(namespace, "one", "held"));
    await cluster.apply(gateway(namespace, "two", "held"));
    await expect.poll(() => finalizersOf("held")).toEqual([finalizer]);

    await cluster.kubectl(["delete", "gatewayclass", "held", "--wait=false"]);
    await cluster.kubectl(["delete", "gateway", "one", "-n", namespace]);
    await eventually(
      () => cluster.kubectl(["get", "deployment", "-n", namespace, "-o", "name"]),
      (names) => names.trim() === "deployment.apps/two-held",
      // The garbage collector of Kubernetes finds new kinds of owners twice a minute.
      60_000,
    );
    await cluster.kubectl(["delete", "deployment", "two-held", "-n", namespace]);
    await cluster.becomes("deployment/two-held", namespace, {});
    expect(await finalizersOf("held")).toEqual([finalizer]);
    await cluster.kubectl(["delete", "gateway", "two", "-n", namespace]);
    await isGone("held");
  }, 120_000);

  test("loses the finalizer when its Gateway takes another class, and keeps other finalizers", async () => {
    const namespace = await cluster.namespace();
    const theirs = "example.test/theirs";
    await cluster.apply([gatewayClass("left", [theirs]), gatewayClass("taken")].join("---"));
    await cluster.apply(gateway(namespace, "web", "left"));
    await expect.poll(async () => (await finalizersOf("left")).toSorted()).toEqual([theirs, finalizer]);
    await cluster.kubectl([
      ...["patch", "gateway/web", "-n", namespace, "--type=merge", "-p"],
      '{"spec":{"gatewayClassName":"taken"}}',
    ]);
    await expect.poll(() => finalizersOf("left")).toEqual([theirs]);
    await expect.poll(() => finalizersOf("taken")).toEqual([finalizer]);
    await cluster.deleteClass("left");
    await cluster.kubectl(["delete", "gateway", "web", "-n", namespace]);
    await cluster.kubectl(["delete", "gatewayclass", "taken"]);
  });

  test("that is being deleted when its first Gateway is created gets no finalizer, and no error is logged", async () => {
    const namespace = await cluster.namespace();
    const theirs = "example.test/theirs";
    await cluster.apply(gatewayClass("leaving", [theirs]));
    await cluster.kubectl(["delete", "gatewayclass", "leaving", "--wait=false"]);
    await cluster.apply(gateway(namespace, "web", "leaving"));
    await cluster.becomes("deployment/web-leaving", namespace, {});
    expect(await finalizersOf("leaving")).toEqual([theirs]);
    expect(controller.log.filter(({ msg }) => msg === "cannot change the finalizer of a GatewayClass")).toEqual([]);
    await cluster.kubectl(["patch", "gatewayclass/leaving", "--type=merge", "-p", '{"metadata":{"finalizers":null}}']);
    await isGone("leaving");
  });

  test("of another controller is not changed", async () => {
    const namespace = await cluster.namespace();
    await cluster.apply([gatewayClass("theirs", [finalizer], "example.test/other"), gatewayClass("mine")].join("---"));
    await cluster.apply(gateway(namespace, "web", "mine"));
    await expect.poll(() => finalizersOf("mine")).toEqual([finalizer]);
    expect(await finalizersOf("theirs")).toEqual([finalizer]);
    await cluster.deleteClass("theirs");
    await cluster.kubectl(["delete", "gateway", "web", "-n", namespace]);
    await cluster.kubectl(["delete", "gatewayclass", "mine"]);
  });
});
