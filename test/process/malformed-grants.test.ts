/**
 * Edits that withdraw the permission of a ReferenceGrant and are malformed: a route loses its backend in the other
 * namespace, in a folder of manifests and in a cluster.
 */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { KubeObject } from "../../proxy/src/kube/object.ts";
import { collectionPaths } from "../../proxy/src/source/kubernetes/watched-kinds.ts";
import { respondWith, startBackend } from "../support/backend.ts";
import { getStatus } from "../kube/support/gateway-process.ts";
import { startObjectApiServer } from "../support/object-api-server.ts";
import { freePort } from "../support/free-port.ts";
import { spawnClusterProxy, startProxy } from "../support/proxy-process.ts";
import { gatewayApi } from "../support/api-versions.ts";

/** A permission without a grant must be removed after this time. */
const removalMs = 2_000;

function object(apiVersion: string, kind: string, name: string, spec: object, namespace?: string): KubeObject {
  return { apiVersion, kind, metadata: { name, ...(namespace !== undefined && { namespace }) }, spec };
}

/** The Gateway and the route of tenant `ann`, with a Backend of `bob`. */
function objects(port: number, backend: number): readonly KubeObject[] {
  const controllerName = "gatewayproxy.dev/controller";
  const listeners = [{ name: "http", port, protocol: "HTTP" }];
  const backendRefs = [{ group: "gatewayproxy.dev", kind: "Backend", name: "chat", namespace: "bob" }];
  return [
    object(gatewayApi, "GatewayClass", "gateway-proxy", { controllerName }),
    object(gatewayApi, "Gateway", "web", { gatewayClassName: "gateway-proxy", listeners }, "ann"),
    object(gatewayApi, "HTTPRoute", "chat", { parentRefs: [{ name: "web" }], rules: [{ backendRefs }] }, "ann"),
    object("gatewayproxy.dev/v1alpha1", "Backend", "chat", { static: { host: "127.0.0.1", port: backend } }, "bob"),
  ];
}

const from = { group: "gateway.networking.k8s.io", kind: "HTTPRoute", namespace: "ann" };
const to = { group: "gatewayproxy.dev", kind: "Backend" };
const granting = object(gatewayApi, "ReferenceGrant", "backends", { from: [from], to: [to] }, "bob");

function edited(spec: object): KubeObject {
  return { ...granting, spec };
}

/** Invalid versions of the grant, each with its error. */
const malformed: readonly (readonly [string, KubeObject])[] = [
  ["names another object", edited({ from: [from], to: [{ ...to, name: "other", names: ["more"] }] })],
  ["names another namespace", edited({ from: [{ ...from, namespace: "Everybody!" }], to: [to] })],
  ["grants nothing", edited({ from: [], to: [] })],
  ["has other types", edited({ from: "none", to: [to] })],
  [
    "has a field that may restrict it",
    edited({ from: [from], to: [{ ...to, selector: { matchLabels: { a: "b" } } }] }),
  ],
];

/** Versions whose name or kind cannot be read. */
const unnamed: readonly (readonly [string, KubeObject])[] = [
  ["has no name", { ...granting, metadata: { namespace: "bob" } }],
  ["has a misspelt kind", { ...granting, kind: "ReferenceGrants" }],
];

function yaml(...all: readonly KubeObject[]): string {
  return all.map((each) => JSON.stringify(each)).join("\n---\n");
}

async function startInFolder() {
  const backend = await startBackend(respondWith(200));
  const port = await freePort();
  const proxy = await startProxy({ "base.yaml": yaml(...objects(port, backend.port)), "grant.yaml": yaml(granting) });
  const status = () => getStatus(port, "any.test").catch(() => 0);
  await expect.poll(status).toBe(200);
  return { proxy, status };
}

test.each([...malformed, ...unnamed])(
  "in a folder, a grant that %s and is malformed permits nothing",
  async (_, grant) => {
    const { proxy, status } = await startInFolder();
    await proxy.write("grant.yaml", yaml(grant));
    await expect.poll(status, { timeout: removalMs }).toBe(500);
    await proxy.write("grant.yaml", yaml(granting));
    await expect.poll(status).toBe(200);
  },
);

test("in a folder, a grant stays in use while the text of its file cannot be read", async () => {
  const { proxy, status } = await startInFolder();
  await proxy.write("grant.yaml", "spec: [");
  await proxy.logged(({ msg, problem }) => msg === "invalid configuration" && String(problem).includes("grant.yaml"));
  expect(await status()).toBe(200);
  await rm(join(proxy.directory, "grant.yaml"));
  await expect.poll(status, { timeout: removalMs }).toBe(500);
});

test("in a cluster, a grant that is malformed permits nothing until it is valid again", async () => {
  const api = await startObjectApiServer();
  const backend = await startBackend(respondWith(200));
  const port = await freePort();
  const put = (each: KubeObject): void => api.put(collectionPaths(each["kind"] as never)[0], each);
  for (const each of [...objects(port, backend.port), granting]) put(each);
  const args = ["--allow-backend-address", `127.0.0.1:${backend.port}`, "--listen-address", "127.0.0.1"];
  const proxy = await spawnClusterProxy(api.kubeconfig, "ann/web", args);
  await proxy.logged(({ msg }) => msg === "ready");
  const status = () => getStatus(port, "any.test").catch(() => 0);
  await expect.poll(status).toBe(200);
  for (const [, grant] of malformed) {
    put(grant);
    await expect.poll(status, { timeout: removalMs }).toBe(500);
    put(granting);
    await expect.poll(status).toBe(200);
  }
  expect(proxy.stderr()).toBe("");
});
