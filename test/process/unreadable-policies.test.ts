/**
 * A proxy that may not read policies, such as one whose rights are not in force yet, serves nothing without them, and
 * neither does one to which the API server offers other versions of them only.
 */
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { expect, test } from "vitest";
import type { KubeObject } from "../../proxy/src/kube/object.ts";
import { paths } from "../support/controlled-objects.ts";
import { freePort } from "../support/free-port.ts";
import { startObjectApiServer } from "../support/object-api-server.ts";
import { spawnClusterProxy } from "../support/proxy-process.ts";
import { gatewayApi, proxyApi } from "../support/api-versions.ts";

const timeoutMs = 60_000;

function object(apiVersion: string, kind: string, name: string, spec: object): KubeObject {
  return { apiVersion, kind, metadata: { namespace: "ann", name }, spec };
}

/** A proxy of a Gateway whose route redirects, with a policy that closes it, since it is invalid. */
async function startWithoutPolicies(args: readonly string[], withhold: "forbid" | "serveOtherwise" = "forbid") {
  const api = await startObjectApiServer();
  const port = await freePort();
  const listeners = [{ name: "http", port, protocol: "HTTP" }];
  const filters = [{ type: "RequestRedirect", requestRedirect: { hostname: "other.test" } }];
  const targetRefs = [{ group: "gateway.networking.k8s.io", kind: "HTTPRoute", name: "chat" }];
  const rateLimit = { local: [{ requests: 0, unit: "Hours" }] };
  api.put(paths.gateways, object(gatewayApi, "Gateway", "web", { gatewayClassName: "gateway-proxy", listeners }));
  api.put(
    paths.routes,
    object(gatewayApi, "HTTPRoute", "chat", { parentRefs: [{ name: "web" }], rules: [{ filters }] }),
  );
  api.put(paths.policies, object(proxyApi, "ProxyPolicy", "closed", { targetRefs, traffic: { rateLimit } }));
  const forbidden = api[withhold](paths.policies);
  const proxy = await spawnClusterProxy(api.kubeconfig, "ann/web", ["--listen-address", "127.0.0.1", ...args]);
  const seen = new Set<number>();
  const look = async () => {
    const response = await fetch(`http://127.0.0.1:${port}/`, { redirect: "manual" }).catch(() => undefined);
    if (response !== undefined) seen.add(response.status);
  };
  return { forbidden, proxy, seen, look };
}

test.each([
  ["it may read policies", "forbid"],
  ["policies are served in its version", "serveOtherwise"],
] as const)("a proxy serves nothing until %s", { timeout: timeoutMs }, async (_, withhold) => {
  const { forbidden, proxy, seen, look } = await startWithoutPolicies([], withhold);
  await waitFor(
    async () => {
      await look();
      expect(forbidden.rejected).toBeGreaterThan(2);
    },
    { timeout: timeoutMs, interval: 20 },
  );
  forbidden.permit();
  await proxy.logged(({ msg }) => msg === "ready");
  await look();
  expect([...seen]).toEqual([503]);
});

test("a proxy serves without policies that it may not read if the operator says so", {
  timeout: timeoutMs,
}, async () => {
  const { proxy, seen, look } = await startWithoutPolicies(["--refused-policies", "Open"]);
  await proxy.logged(({ msg }) => msg === "ready");
  await look();
  expect([...seen]).toEqual([302]);
});
