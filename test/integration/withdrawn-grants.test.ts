/**
 * The permissions of proxies after a ReferenceGrant is deleted or malformed, while the Gateway is valid, or malformed
 * and the controller has never read a valid version of it.
 */
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { afterEach, expect, test } from "vitest";
import { fieldsOf, objectsOf, type KubeObject } from "../../proxy/src/kube/object.ts";
import { type ControllerProcess, startController } from "../kube/support/controller-process.ts";
import { gatewayClass, paths } from "../support/controlled-objects.ts";
import { type ObjectApiServer, startObjectApiServer } from "../support/object-api-server.ts";
import { gatewayApi, proxyApi } from "../support/api-versions.ts";

/** A permission without a grant is removed after this time. */
const removalMs = 2_000;
/** The controller has started and written what it permits within this time, also on a busy machine. */
const readyMs = 30_000;

/** The Gateway of tenant `ann`, with a certificate of `bob`. */
const gateway = {
  apiVersion: gatewayApi,
  kind: "Gateway",
  metadata: { name: "web", namespace: "ann" },
  spec: {
    gatewayClassName: "gateway-proxy",
    listeners: [
      { name: "http", port: 80, protocol: "HTTP" },
      {
        ...{ name: "https", port: 443, protocol: "HTTPS" },
        tls: { certificateRefs: [{ name: "certificate", namespace: "bob" }] },
      },
    ],
  },
};
const malformedGateway = { ...gateway, spec: { ...gateway.spec, addresses: "everywhere" } };

function backend(name: string, secret: string): KubeObject {
  const ai = { provider: { openai: {} }, auth: { secretRef: { name: secret } } };
  return { apiVersion: proxyApi, kind: "Backend", metadata: { name, namespace: "bob" }, spec: { ai } };
}

function route(name: string, to: string, more: object = {}): KubeObject {
  const backendRefs = [{ group: "gatewayproxy.dev", kind: "Backend", name: to, namespace: "bob" }];
  const spec = { parentRefs: [{ name: "web" }], rules: [{ backendRefs }], ...more };
  return { apiVersion: gatewayApi, kind: "HTTPRoute", metadata: { name, namespace: "ann" }, spec };
}

/** A grant of `bob` for the objects of a kind of `ann`. */
function grant(name: string, kind: string, to: object): KubeObject {
  const from = [{ group: "gateway.networking.k8s.io", kind, namespace: "ann" }];
  return {
    ...{ apiVersion: gatewayApi, kind: "ReferenceGrant" },
    ...{ metadata: { name, namespace: "bob" }, spec: { from, to: [to] } },
  };
}
const toBackends = grant("backends", "HTTPRoute", { group: "gatewayproxy.dev", kind: "Backend" });
const toSecrets = grant("secrets", "Gateway", { group: "", kind: "Secret" });

const running: ControllerProcess[] = [];
afterEach(async () => {
  for (const controller of running.splice(0)) await controller.stop("SIGKILL");
});

async function control(api: ObjectApiServer): Promise<ControllerProcess> {
  const controller = await startController({ kubeconfig: api.kubeconfig, namespace: "system" });
  running.push(controller);
  return controller;
}

/** Names of Secrets of `bob` that the proxies of `ann/web` may read. */
function readable(api: ObjectApiServer): readonly unknown[] {
  const name = "gateway-proxy:ann:web-gateway-proxy";
  if (api.get(paths.bindings, "bob", name) === undefined) return [];
  const rules = objectsOf(api.get(paths.roles, "bob", name)?.["rules"]);
  return rules.flatMap(({ resourceNames }) => resourceNames);
}

/** By the last condition that the controller wrote for the Gateway. */
function isRejected(api: ObjectApiServer): boolean {
  return JSON.stringify(api.get(paths.gateways, "ann", "web")?.["status"] ?? {}).includes("everywhere");
}

/** Waits until `what` stops throwing, or rejects after the timeout. */
async function eventually(what: () => void, timeout: number): Promise<void> {
  await waitFor(what, { timeout, interval: 20 });
}

async function clusterWithPermissions(): Promise<ObjectApiServer> {
  const api = await startObjectApiServer();
  api.put(paths.classes, gatewayClass);
  api.put(paths.gateways, gateway);
  for (const [name, secret] of [
    ["chat", "chat-key"],
    ["mail", "mail-key"],
  ] as const) {
    api.put(paths.backends, backend(name, secret));
    api.put(paths.routes, route(name, name));
  }
  api.put(paths.grants, toBackends);
  api.put(paths.grants, toSecrets);
  return api;
}

test("a malformed Gateway keeps its granted permissions, and loses each with its grant", async () => {
  const api = await clusterWithPermissions();
  const first = await control(api);
  await eventually(() => expect(readable(api)).toEqual(["certificate", "chat-key", "mail-key"]), readyMs);
  // The next replica has never read the valid version.
  await first.stop();
  api.put(paths.gateways, malformedGateway);
  await control(api);
  await eventually(() => expect(isRejected(api)).toBe(true), readyMs);
  expect(readable(api)).toEqual(["certificate", "chat-key", "mail-key"]);

  api.remove(paths.grants, toSecrets);
  await eventually(() => expect(readable(api)).toEqual(["chat-key", "mail-key"]), removalMs);
  api.put(paths.grants, grant("backends", "HTTPRoute", { group: "gatewayproxy.dev", kind: "Backend", name: "mail" }));
  await eventually(() => expect(readable(api)).toEqual(["mail-key"]), removalMs);
  api.remove(paths.grants, toBackends);
  await eventually(() => expect(readable(api)).toEqual([]), removalMs);
}, 90_000);

const grantsOf = (spec: object) => ({ ...toBackends, spec: { ...fieldsOf(toBackends["spec"]), ...spec } });

test.each([
  ["names another object", { to: [{ group: "gatewayproxy.dev", kind: "Backend", name: "other", names: ["more"] }] }],
  ["names another namespace", { from: [{ group: "gateway.networking.k8s.io", kind: "HTTPRoute", namespace: "-" }] }],
  ["is not a list", { from: "none" }],
])(
  "permissions are removed when their grant %s and is malformed",
  async (_, spec) => {
    const api = await clusterWithPermissions();
    await control(api);
    await eventually(() => expect(readable(api)).toEqual(["certificate", "chat-key", "mail-key"]), readyMs);
    api.put(paths.grants, grantsOf(spec));
    await eventually(() => expect(readable(api)).toEqual(["certificate"]), removalMs);
    api.put(paths.grants, toBackends);
    await eventually(() => expect(readable(api)).toEqual(["certificate", "chat-key", "mail-key"]), readyMs);
  },
  60_000,
);

test("permissions are removed when their grant is deleted and a finalizer keeps it", async () => {
  const api = await clusterWithPermissions();
  await control(api);
  await eventually(() => expect(readable(api)).toEqual(["certificate", "chat-key", "mail-key"]), readyMs);
  const deletion = { deletionTimestamp: "2026-01-02T03:04:05Z", finalizers: ["example.com/never"] };
  api.put(paths.grants, { ...toBackends, metadata: { ...fieldsOf(toBackends["metadata"]), ...deletion } });
  await eventually(() => expect(readable(api)).toEqual(["certificate"]), removalMs);
}, 60_000);

test.each([
  ["Gateway", paths.gateways, malformedGateway],
  ["HTTPRoute", paths.routes, route("chat", "chat", { hostnames: "everything" })],
  ["class parameters", paths.classes, { ...gatewayClass, spec: { ...gatewayClass.spec, parametersRef: "shape" } }],
  [
    "Backend",
    paths.backends,
    {
      ...backend("chat", "chat-key"),
      spec: { ai: { provider: { none: {} }, auth: { secretRef: { name: "chat-key" } } } },
    },
  ],
  [
    "policy",
    paths.policies,
    {
      ...{ apiVersion: proxyApi, kind: "ProxyPolicy", metadata: { name: "p", namespace: "ann" } },
      spec: { targetRefs: [{ group: "gateway.networking.k8s.io", kind: "Gateway", name: "web" }], traffic: "much" },
    },
  ],
])(
  "a permission is removed with its grant after an edit made the %s malformed",
  async (_, path, malformed) => {
    const api = await clusterWithPermissions();
    await control(api);
    await eventually(() => expect(readable(api)).toEqual(["certificate", "chat-key", "mail-key"]), readyMs);
    api.put(path, malformed);
    api.remove(paths.grants, toBackends);
    await eventually(() => expect(readable(api)).toEqual(["certificate"]), removalMs);
    api.remove(paths.grants, toSecrets);
    await eventually(() => expect(readable(api)).toEqual([]), removalMs);
  },
  60_000,
);

test.each([
  ["Gateways", paths.gateways],
  ["HTTPRoutes", paths.routes],
  ["Backends", paths.backends],
])(
  "a permission is removed with its grant while the API server fails to return %s",
  async (_, path) => {
    const api = await clusterWithPermissions();
    await control(api);
    await eventually(() => expect(readable(api)).toEqual(["certificate", "chat-key", "mail-key"]), readyMs);
    api.fail(path);
    api.remove(paths.grants, toBackends);
    await eventually(() => expect(readable(api)).toEqual(["certificate"]), removalMs);
  },
  60_000,
);
