/** Invalid objects of other Gateways do not appear in the log and metrics of a Gateway's proxies. */
import { expect, test } from "vitest";
import type { KubeObject } from "../../proxy/src/kube/object.ts";
import { collectionPaths } from "../../proxy/src/source/kubernetes/watched-kinds.ts";
import { freePort } from "../support/free-port.ts";
import { startObjectApiServer } from "../support/object-api-server.ts";
import { spawnClusterProxy } from "../support/proxy-process.ts";

const apiVersion = "gateway.networking.k8s.io/v1";

test("an invalid route of another tenant is not a problem of the proxies of a Gateway", {
  timeout: 60_000,
}, async () => {
  const api = await startObjectApiServer();
  const put = (kind: string, namespace: string, name: string, spec: object) => {
    const object: KubeObject = { apiVersion, kind, metadata: { namespace, name }, spec };
    api.put(collectionPaths(kind as never)[0], object);
  };
  const listeners = [{ name: "http", port: await freePort(), protocol: "HTTP" }];
  put("Gateway", "ann", "web", { gatewayClassName: "gateway-proxy", listeners });
  put("HTTPRoute", "ann", "chat", { parentRefs: [{ name: "web" }] });
  put("HTTPRoute", "bob", "invalid", { parentRefs: [{ name: "of-bob" }], rules: "none" });
  const proxy = await spawnClusterProxy(api.kubeconfig, "ann/web", ["--listen-address", "127.0.0.1"]);
  await proxy.logged(({ msg }) => msg === "ready");
  const sample = async (name: string) => {
    const text = await (await fetch(`${proxy.stats}/metrics`)).text();
    return Number(new RegExp(`^gateway_proxy_config_${name} (.*)$`, "m").exec(text)?.[1]);
  };
  expect(await sample("last_reload_success_timestamp_seconds")).toBeGreaterThan(0);
  expect(await sample("rejected_total")).toBe(0);
  expect(proxy.log.filter((line) => JSON.stringify(line).includes("bob/"))).toEqual([]);
  // An invalid route of the Gateway itself is one.
  put("HTTPRoute", "ann", "invalid", { parentRefs: [{ name: "web" }], rules: "none" });
  await expect.poll(() => sample("rejected_total"), { timeout: 10_000 }).toBe(1);
});
