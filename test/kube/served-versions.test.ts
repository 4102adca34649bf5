/**
 * CustomResourceDefinitions that change while objects exist: a version that is served no more, and another one in its
 * place. Programs have the permissions of `deploy/rbac` and of the Role that the controller writes.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ControlPlane } from "../rig/control-plane.ts";
import { freePort } from "../support/free-port.ts";
import { type LogLine, type ProxyProcess, spawnClusterProxy } from "../support/proxy-process.ts";
import { kubeconfigOf } from "./support/accounts.ts";
import { type Cluster, describeCluster, eventually } from "./support/cluster.ts";
import type { ControllerProcess } from "./support/controller-process.ts";
import { getStatus } from "./support/gateway-process.ts";
import { startOwnController, startOwnPlane, system } from "./support/own-plane.ts";

/** A kind counts as missing after three responses, which are up to 10 s apart. */
const missingMs = 60_000;

describeCluster("while the API server serves another version only, there", () => {
  let plane: ControlPlane;
  let cluster: Cluster;
  let controller: ControllerProcess | undefined;
  let port: number;

  beforeAll(async () => {
    port = await freePort();
    ({ plane, cluster } = await startOwnPlane(setting(port)));
    controller = await startOwnController(plane);
    await eventually(
      () => cluster.get("deployment/web-gateway-proxy", "tenant"),
      () => true,
    );
  }, 120_000);

  afterAll(async () => {
    await controller?.stop();
    await plane.stop();
  });

  async function startProxy(): Promise<ProxyProcess> {
    const kubeconfig = await kubeconfigOf(plane, "tenant", "web-gateway-proxy");
    const args = ["--listen-address", "127.0.0.1", "--log-level", "proxy::kubernetes=debug"];
    return await spawnClusterProxy(kubeconfig, "tenant/web", args);
  }

  /** Whether a program has found that only another version of a kind is served. */
  const keepsObjects =
    (plural: string) =>
    ({ msg, path }: LogLine): boolean =>
      String(msg).startsWith("the API server serves other versions only") && String(path).endsWith(`/${plural}`);

  const status = () => getStatus(port, "any.test").catch(() => 0);

  /** Adds a version to a definition, as a newer release would, and serves this one only, or those of before again. */
  async function serve(definition: string, next: boolean): Promise<void> {
    const current = JSON.parse(await plane.kubectl(["get", "crd", definition, "-o", "json"])) as Definition;
    const { spec } = current;
    const before = spec.versions.filter(({ name }) => name !== "v9");
    const stored = before.find(({ storage }) => storage === true);
    const versions = [
      ...before.map((each) => ({ ...each, served: !next })),
      { ...stored, name: "v9", served: next, storage: false },
    ];
    const changed = JSON.stringify({ ...current, spec: { ...spec, versions } });
    await plane.kubectl(["replace", "-f", "-"], changed);
  }

  test("limits stay in force, and no proxy that starts serves without them", { timeout: 240_000 }, async () => {
    const proxy = await startProxy();
    await eventually(status, (each) => each === 429);
    await serve("proxypolicies.gatewayproxy.dev", true);
    await proxy.logged(keepsObjects("proxypolicies"));
    expect(await status()).toBe(429);
    const second = await startProxy();
    await second.logged(({ msg, state }) => msg === "watch changed" && state === "unread");
    // Both listen on the same port.
    expect(second.log.filter(({ msg }) => msg === "ready")).toEqual([]);
    await serve("proxypolicies.gatewayproxy.dev", false);
    await cluster.apply(policy(1_000));
    await eventually(status, (each) => each === 302);
  });

  test("proxies keep their rights", { timeout: 120_000 }, async () => {
    const binding = "clusterrolebinding/gateway-proxy:tenant:web-gateway-proxy";
    const { metadata } = await cluster.get(binding);
    await serve("gateways.gateway.networking.k8s.io", true);
    await eventually(
      () => Promise.resolve(controller?.log ?? []),
      (log) => log.some(keepsObjects("gateways")),
      missingMs,
    );
    expect((await cluster.get(binding)).metadata.uid).toBe(metadata.uid);
    await serve("gateways.gateway.networking.k8s.io", false);
  });
});

interface Definition {
  readonly spec: { readonly versions: readonly { readonly name: string; readonly storage?: boolean }[] };
}

const policy = (requests: number) => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: {name: limit, namespace: tenant}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: redirect}]
  traffic: {rateLimit: {local: [{requests: ${requests}, unit: Days}]}}
`;

const setting = (port: number) => `
apiVersion: v1
kind: Namespace
metadata: {name: ${system}}
---
apiVersion: v1
kind: Namespace
metadata: {name: tenant}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: gateway-proxy}
spec: {controllerName: gatewayproxy.dev/controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: tenant}
spec:
  gatewayClassName: gateway-proxy
  listeners: [{name: http, protocol: HTTP, port: ${port}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: redirect, namespace: tenant}
spec:
  parentRefs: [{name: web}]
  rules: [{filters: [{type: RequestRedirect, requestRedirect: {hostname: other.test}}]}]
---${policy(1)}`;
