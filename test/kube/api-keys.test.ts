/**
 * API keys of Secrets that a policy selects by labels: the proxy gets permission for exactly these Secrets, by name,
 * and follows changes of the labels.
 */
import { request } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ControlPlane } from "../rig/control-plane.ts";
import { freePort } from "../support/free-port.ts";
import { kubeconfigOf, type Rule } from "./support/accounts.ts";
import { type Cluster, describeCluster, eventually } from "./support/cluster.ts";
import type { ControllerProcess } from "./support/controller-process.ts";
import { type GatewayProcess, startGatewayProcess } from "./support/gateway-process.ts";
import { startOwnController, startOwnPlane, system } from "./support/own-plane.ts";

function secret(name: string, key: string, labels = "keys: customers"): string {
  return `
apiVersion: v1
kind: Secret
metadata: {name: ${name}, namespace: tenant, labels: {${labels}}}
stringData: {apiKey: ${key}}
---`;
}

function setting(port: number): string {
  return `
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
${secret("acme", "key-of-acme")}
${secret("other", "key-of-other", "keys: internal")}
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: tenant}
spec:
  gatewayClassName: gateway-proxy
  listeners: [{name: http, port: ${port}, protocol: HTTP}]
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: {name: elsewhere, namespace: tenant}
spec: {static: {host: elsewhere.invalid, port: 80}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat, namespace: tenant}
spec:
  parentRefs: [{name: web}]
  rules: [{backendRefs: [{group: gatewayproxy.dev, kind: Backend, name: elsewhere}]}]
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: {name: keys, namespace: tenant}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: chat}]
  traffic:
    authentication:
      apiKeys: {secretSelector: {matchLabels: {keys: customers}}}
`;
}

/** 401 without a known key; a 5xx for a request that passed, whose backend does not exist. */
function statusWith(port: number, key: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: "127.0.0.1", port, headers: { "x-api-key": key }, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sent.on("error", reject);
    sent.end();
  });
}

describeCluster("API keys by labels", () => {
  let plane: ControlPlane;
  let cluster: Cluster;
  let controller: ControllerProcess | undefined;
  let proxy: GatewayProcess | undefined;
  let port: number;

  beforeAll(async () => {
    port = await freePort();
    ({ plane, cluster } = await startOwnPlane(setting(port)));
    controller = await startOwnController(plane);
    for (const part of ["rolebinding", "serviceaccount"]) {
      await eventually(
        () => cluster.get(`${part}/web-gateway-proxy`, "tenant"),
        () => true,
      );
    }
    proxy = await startGatewayProcess(await kubeconfigOf(plane, "tenant", "web-gateway-proxy"), "tenant/web");
  });

  afterAll(async () => {
    await controller?.stop();
    await proxy?.stop();
    await plane.stop();
  });

  const passes = (status: number): boolean => status >= 500;
  const rules = async () => (await cluster.get("role/web-gateway-proxy", "tenant"))["rules"] as readonly Rule[];

  test("the proxy may read the selected Secrets only, and accepts their keys", async () => {
    await eventually(() => statusWith(port, "key-of-acme"), passes);
    expect(await statusWith(port, "key-of-other")).toBe(401);
    expect(await rules()).toEqual([
      { apiGroups: [""], resources: ["secrets"], resourceNames: ["acme"], verbs: ["list", "watch"] },
    ]);
  });

  test("a Secret that gets the labels is used, and one that loses them is not", async () => {
    await cluster.apply(secret("globex", "key-of-globex"));
    await eventually(() => statusWith(port, "key-of-globex"), passes);
    await cluster.kubectl(["label", "secret/acme", "-n", "tenant", "keys=previous", "--overwrite"]);
    await eventually(
      () => statusWith(port, "key-of-acme"),
      (status) => status === 401,
    );
    await eventually(rules, ([rule]) => JSON.stringify(rule?.resourceNames) === '["globex"]');
    expect(passes(await statusWith(port, "key-of-globex"))).toBe(true);
  });

  test("the status of the policy says that no Secret is left", async () => {
    await cluster.kubectl(["delete", "secret/globex", "-n", "tenant"]);
    await eventually(
      () => cluster.get("proxypolicy/keys", "tenant"),
      ({ status }) => JSON.stringify(status ?? "").includes("no Secret of namespace tenant has these labels"),
    );
    await eventually(
      () => statusWith(port, "key-of-globex"),
      (status) => status === 401,
    );
  });
});
