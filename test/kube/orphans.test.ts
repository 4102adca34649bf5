/** Objects whose Gateway or class is deleted, on a real API server: no status says that they are served. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeCluster } from "./support/cluster.ts";
import { type ControllerProcess, startController } from "./support/controller-process.ts";

describeCluster("an orphaned object", (cluster) => {
  let controller: ControllerProcess;

  beforeAll(async () => {
    await cluster.apply(`
apiVersion: v1
kind: Namespace
metadata: {name: orphans-system}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: orphans}
spec: {controllerName: gatewayproxy.dev/controller}
`);
    controller = await startController({ kubeconfig: cluster.kubeconfig, namespace: "orphans-system" });
  });

  afterAll(async () => {
    await controller.stop();
    await cluster.deleteClass("orphans");
    await cluster.kubectl(["delete", "namespace", "orphans-system", "--wait=false"]);
  });

  const gateway = (namespace: string, className = "orphans") => `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: ${namespace}}
spec:
  gatewayClassName: ${className}
  allowedListeners: {namespaces: {from: Same}}
  listeners: [{name: http, port: 80, protocol: HTTP}]
`;
  const set = (namespace: string) => `
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: more, namespace: ${namespace}}
spec: {parentRef: {name: web}, listeners: [{name: more, port: 8080, protocol: HTTP}]}
`;
  const route = (namespace: string) => `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat, namespace: ${namespace}}
spec: {parentRefs: [{name: web}, {kind: ListenerSet, name: more}]}
`;

  const acceptedIn = async (resource: string, namespace: string) =>
    JSON.stringify((await cluster.get(resource, namespace))["status"] ?? {}).includes('"status":"True"');

  test("has no status for a deleted Gateway", async () => {
    const namespace = await cluster.namespace();
    await cluster.apply([gateway(namespace), set(namespace), route(namespace)].join("---"));
    for (const each of ["listenerset/more", "httproute/chat"]) {
      await expect.poll(() => acceptedIn(each, namespace)).toBe(true);
    }
    await cluster.kubectl(["delete", "gateway", "web", "-n", namespace]);
    for (const each of ["listenerset/more", "httproute/chat"]) {
      await expect.poll(() => acceptedIn(each, namespace)).toBe(false);
    }
    await cluster.apply(gateway(namespace));
    for (const each of ["listenerset/more", "httproute/chat"]) {
      await expect.poll(() => acceptedIn(each, namespace)).toBe(true);
    }
  });

  test("of a class that does not exist has no status of its earlier class", async () => {
    const namespace = await cluster.namespace();
    await cluster.apply(gateway(namespace));
    await expect.poll(() => acceptedIn("gateway/web", namespace)).toBe(true);
    await cluster.apply(gateway(namespace, "missing"));
    await expect.poll(() => acceptedIn("gateway/web", namespace)).toBe(false);
    await cluster.apply(gateway(namespace));
    await expect.poll(() => acceptedIn("gateway/web", namespace)).toBe(true);
  });
});
