/**
 * A rate limit service beside the proxy, at a loopback address that the operator allows, and a ListenerSet of a tenant
 * with a listener at the same port. The service gets its port, even if the proxy starts first: the calls of all limits
 * would reach a backend of the tenant otherwise.
 */
import { expect, test } from "vitest";
import type { KubeObject } from "../../proxy/src/kube/object.ts";
import { collectionPaths } from "../../proxy/src/source/kubernetes/watched-kinds.ts";
import { getStatus } from "../kube/support/gateway-process.ts";
import { gatewayApi } from "../support/api-versions.ts";
import { respondWith, startBackend } from "../support/backend.ts";
import { freePort } from "../support/free-port.ts";
import { startObjectApiServer } from "../support/object-api-server.ts";
import { spawnClusterProxy } from "../support/proxy-process.ts";
import { startScriptedService } from "../support/rate-limit-service.ts";

const own = "gatewayproxy.dev/v1alpha1";
const group = "gateway.networking.k8s.io";

function object(apiVersion: string, kind: string, name: string, spec: object, namespace?: string): KubeObject {
  return { apiVersion, kind, metadata: { name, ...(namespace !== undefined && { namespace }) }, spec };
}

const everywhere = { namespaces: { from: "All" } };

/** Gateway `ann/web`, whose requests the service at `sidecar` limits, and a listener of `bob` at that port. */
function objects(port: number, sidecar: number, backend: number): readonly KubeObject[] {
  const ref = { group: "gatewayproxy.dev", kind: "Backend", name: "backend" };
  const backendOf = (namespace: string) =>
    object(own, "Backend", "backend", { static: { host: "127.0.0.1", port: backend } }, namespace);
  const global = {
    ...{ address: `127.0.0.1:${sidecar}`, domain: "d", failureMode: "Closed" },
    descriptors: [{ entries: [{ name: "path", expression: "request.path" }] }],
  };
  return [
    object(gatewayApi, "GatewayClass", "gateway-proxy", { controllerName: "gatewayproxy.dev/controller" }),
    object(
      gatewayApi,
      "Gateway",
      "web",
      {
        gatewayClassName: "gateway-proxy",
        listeners: [{ name: "http", port, protocol: "HTTP" }],
        allowedListeners: everywhere,
      },
      "ann",
    ),
    object(gatewayApi, "HTTPRoute", "chat", { parentRefs: [{ name: "web" }], rules: [{ backendRefs: [ref] }] }, "ann"),
    object(
      own,
      "ProxyPolicy",
      "limits",
      { targetRefs: [{ group, kind: "Gateway", name: "web" }], traffic: { rateLimit: { global } } },
      "ann",
    ),
    object(
      gatewayApi,
      "ListenerSet",
      "set",
      {
        parentRef: { name: "web", namespace: "ann" },
        listeners: [{ name: "taken", port: sidecar, protocol: "HTTP" }],
      },
      "bob",
    ),
    object(
      gatewayApi,
      "HTTPRoute",
      "limiter",
      { parentRefs: [{ kind: "ListenerSet", name: "set" }], rules: [{ backendRefs: [ref] }] },
      "bob",
    ),
    ...["ann", "bob"].map(backendOf),
  ];
}

test("a listener of a tenant does not take the port of a service beside the proxy", async () => {
  const api = await startObjectApiServer();
  const backend = await startBackend(respondWith(200));
  const [port, sidecar] = [await freePort(), await freePort()];
  for (const each of objects(port, sidecar, backend.port)) {
    api.put(collectionPaths(each["kind"] as never)[0], each);
  }
  const proxy = await spawnClusterProxy(api.kubeconfig, "ann/web", [
    ...["--allow-backend-address", `127.0.0.1:${sidecar},127.0.0.1:${backend.port}`],
    ...["--listen-address", "127.0.0.1"],
  ]);
  await proxy.logged(({ msg }) => msg === "ready");
  // The service is not there yet, and the failure mode decides.
  await expect.poll(() => getStatus(port, "any.test").catch(() => 0)).toBe(503);
  const service = await startScriptedService(
    () => ({ overallCode: "OVER_LIMIT", statuses: [{ code: "OVER_LIMIT" }] }),
    sidecar,
  );
  await expect.poll(() => getStatus(port, "any.test")).toBe(429);
  expect(service.calls.length).toBeGreaterThan(0);
});
