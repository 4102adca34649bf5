/**
 * What changes while the controller computes or writes: a ReferenceGrant that is withdrawn leads to no right, and a
 * change does not wait for all statuses of others.
 */
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { afterEach, expect, test } from "vitest";
import { objectsOf, type KubeObject } from "../../proxy/src/kube/object.ts";
import { type ControllerProcess, startController } from "../kube/support/controller-process.ts";
import { gatewayClass, paths } from "../support/controlled-objects.ts";
import { type ObjectApiServer, startObjectApiServer } from "../support/object-api-server.ts";
import { gatewayApi, proxyApi } from "../support/api-versions.ts";

/** The controller has started and written what it has to within this time, also on a busy machine. */
const readyMs = 60_000;
/** After this time, a pass in which a change waits begins no further write. */
const urgentPassMs = 500;

function object(apiVersion: string, kind: string, namespace: string, name: string, spec: object): KubeObject {
  return { apiVersion, kind, metadata: { name, namespace }, spec };
}

const gateway = object(gatewayApi, "Gateway", "ann", "web", {
  gatewayClassName: "gateway-proxy",
  listeners: [{ name: "http", port: 80, protocol: "HTTP", allowedRoutes: { namespaces: { from: "All" } } }],
});
const parentRefs = [{ name: "web", namespace: "ann" }];

/** A route of `ann` to a Backend of `bob`, whose Secret has the same name. */
function use(api: ObjectApiServer, name: string): void {
  const backendRefs = [{ group: "gatewayproxy.dev", kind: "Backend", name, namespace: "bob" }];
  const ai = { provider: { openai: {} }, auth: { secretRef: { name } } };
  api.put(paths.backends, object(proxyApi, "Backend", "bob", name, { ai }));
  api.put(paths.routes, object(gatewayApi, "HTTPRoute", "ann", name, { parentRefs, rules: [{ backendRefs }] }));
}

function grantTo(name: string): KubeObject {
  return object(gatewayApi, "ReferenceGrant", "bob", name, {
    from: [{ group: "gateway.networking.k8s.io", kind: "HTTPRoute", namespace: "ann" }],
    to: [{ group: "gatewayproxy.dev", kind: "Backend", name }],
  });
}

const role = "gateway-proxy:ann:web-gateway-proxy";

function readable(api: ObjectApiServer): readonly unknown[] {
  return objectsOf(api.get(paths.roles, "bob", role)?.["rules"]).flatMap(({ resourceNames }) => resourceNames);
}

const running: ControllerProcess[] = [];
afterEach(async () => {
  for (const controller of running.splice(0)) await controller.stop("SIGKILL");
});

async function control(api: ObjectApiServer): Promise<ControllerProcess> {
  const args = ["--log-level", "controller::config=debug"];
  const controller = await startController({ kubeconfig: api.kubeconfig, namespace: "system", args });
  running.push(controller);
  return controller;
}

/** Resolves when the controller has received what `change` changes. */
async function received(controller: ControllerProcess, change: () => void): Promise<void> {
  const times = () => controller.log.filter(({ msg }) => msg === "configuration received").length;
  const before = times();
  change();
  await waitFor(() => expect(times()).toBeGreaterThan(before), { timeout: readyMs, interval: 5 });
}

test("a grant that is withdrawn after it was planned with leads to no right", async () => {
  const api = await startObjectApiServer();
  const classes = api.hold(paths.classes);
  for (const name of ["mail", "chat"]) {
    use(api, name);
    api.put(paths.grants, grantTo(name));
  }
  api.put(paths.gateways, gateway);
  api.put(paths.classes, gatewayClass);
  const controller = await control(api);
  // The finalizer of the class is written between the plan and what follows from it.
  await waitFor(() => expect(classes.waiting).toBe(1), { timeout: readyMs, interval: 5 });
  await received(controller, () => api.remove(paths.grants, grantTo("chat")));
  const seen = new Set<unknown>();
  const look = setInterval(() => readable(api).forEach((each) => seen.add(each)), 0);
  classes.release();
  await waitFor(() => expect(api.get(paths.bindings, "bob", role)).toBeDefined(), { timeout: readyMs, interval: 5 });
  clearInterval(look);
  expect([...seen]).toEqual(["mail"]);
}, 90_000);

/** Puts a route of `dora` while writes of a collection are in progress. Returns what is written before its status. */
async function writtenBeforeChange(api: ObjectApiServer, collection: string): Promise<readonly string[]> {
  const held = api.hold(collection);
  const controller = await control(api);
  await waitFor(() => expect(held.waiting).toBe(8), { timeout: readyMs, interval: 5 });
  await received(controller, () =>
    api.put(paths.routes, object(gatewayApi, "HTTPRoute", "dora", "late", { parentRefs })),
  );
  const startMs = performance.now();
  await waitFor(() => expect(performance.now() - startMs).toBeGreaterThan(urgentPassMs), { timeout: readyMs });
  held.release();
  const late = `${paths.routes} dora/late`;
  await waitFor(() => expect(api.written).toContain(late), { timeout: readyMs, interval: 5 });
  return api.written.slice(0, api.written.indexOf(late)).filter((each) => each.startsWith(`${collection} `));
}

/** Objects that are written, of which a pass without a change writes all. */
const count = 300;

test("a change waits for some of the statuses that are being written, not for all", async () => {
  const api = await startObjectApiServer();
  api.put(paths.classes, gatewayClass);
  api.put(paths.gateways, gateway);
  for (let index = 0; index < count; index++) {
    api.put(paths.routes, object(gatewayApi, "HTTPRoute", "carl", `r${index}`, { parentRefs }));
  }
  // Those in progress when the change comes, and those of the next pass before its own: more on a slow machine.
  expect((await writtenBeforeChange(api, paths.routes)).length).toBeLessThan(count / 2);
}, 90_000);

test("a change waits for some of the objects of Gateways that are being written, not for all", async () => {
  const api = await startObjectApiServer();
  api.put(paths.classes, gatewayClass);
  api.put(paths.gateways, gateway);
  for (let index = 0; index < count; index++) {
    api.put(paths.gateways, { ...gateway, metadata: { namespace: `n${index}`, name: "web" } });
  }
  // The next pass writes others for 250 ms before the first status.
  expect((await writtenBeforeChange(api, paths.accounts)).length).toBeLessThan(count / 2);
}, 90_000);

/** An API server with a Gateway that may use the Secrets of `mail` and of `chat`. */
async function startWithGrants(): Promise<ObjectApiServer> {
  const api = await startObjectApiServer();
  for (const name of ["mail", "chat"]) {
    use(api, name);
    api.put(paths.grants, grantTo(name));
  }
  api.put(paths.gateways, gateway);
  api.put(paths.classes, gatewayClass);
  return api;
}

/** Resolves when the proxies of the Gateway may read the Secrets of these only. */
async function mayRead(api: ObjectApiServer, names: readonly string[], timeout = readyMs): Promise<void> {
  await waitFor(() => expect(readable(api)).toEqual(names), { timeout, interval: 5 });
}

/** Sooner than the API server's timeout of an admission webhook. */
const unaffectedMs = 20_000;

test("what is withdrawn, and statuses, do not wait for writes in another namespace that take long", async () => {
  const api = await startWithGrants();
  await control(api);
  await mayRead(api, ["chat", "mail"]);
  const held = api.hold(paths.routes, "carl");
  for (let index = 0; index < count; index++) {
    api.put(paths.routes, object(gatewayApi, "HTTPRoute", "carl", `r${index}`, { parentRefs }));
  }
  await waitFor(() => expect(held.waiting).toBeGreaterThan(0), { timeout: readyMs, interval: 5 });
  api.remove(paths.grants, grantTo("chat"));
  await mayRead(api, ["mail"], unaffectedMs);
  api.put(paths.routes, object(gatewayApi, "HTTPRoute", "dora", "late", { parentRefs }));
  const late = `${paths.routes} dora/late`;
  await waitFor(() => expect(api.written).toContain(late), { timeout: unaffectedMs, interval: 5 });
  held.release();
  const last = `${paths.routes} carl/r${count - 1}`;
  await waitFor(() => expect(api.written).toContain(last), { timeout: readyMs, interval: 5 });
}, 180_000);

test("what is withdrawn does not wait for writes in many namespaces that take long", async () => {
  const api = await startWithGrants();
  const held = api.hold(paths.routes);
  await control(api);
  await mayRead(api, ["chat", "mail"]);
  for (let index = 0; index < count; index++) {
    api.put(paths.routes, object(gatewayApi, "HTTPRoute", `n${index % 40}`, `r${index}`, { parentRefs }));
  }
  await waitFor(() => expect(held.waiting).toBeGreaterThan(64), { timeout: readyMs, interval: 5 });
  api.remove(paths.grants, grantTo("chat"));
  await mayRead(api, ["mail"], unaffectedMs);
}, 180_000);

test("the objects of a Gateway do not wait for those of others whose writes take long", async () => {
  const api = await startObjectApiServer();
  const held = api.hold(paths.accounts, "carl");
  api.put(paths.classes, gatewayClass);
  for (let index = 0; index < count; index++) {
    api.put(paths.gateways, { ...gateway, metadata: { namespace: "carl", name: `g${index}` } });
  }
  await control(api);
  await waitFor(() => expect(held.waiting).toBeGreaterThan(0), { timeout: readyMs, interval: 5 });
  api.put(paths.gateways, { ...gateway, metadata: { namespace: "dora", name: "web" } });
  const account = `${paths.accounts} dora/web-gateway-proxy`;
  await waitFor(() => expect(api.written).toContain(account), { timeout: unaffectedMs, interval: 5 });
  expect(held.waiting).toBeLessThan(2 * 8);
}, 180_000);

test("a right whose withdrawal fails is withdrawn later, also without another change", async () => {
  const api = await startObjectApiServer();
  use(api, "mail");
  api.put(paths.grants, grantTo("mail"));
  api.put(paths.gateways, gateway);
  api.put(paths.classes, gatewayClass);
  await control(api);
  await mayRead(api, ["mail"]);
  const failing = api.failWrites(paths.roles);
  api.remove(paths.grants, grantTo("mail"));
  // The first passes follow from the grant and from the statuses that it changes.
  await waitFor(() => expect(failing.rejected).toBeGreaterThan(4), { timeout: readyMs, interval: 5 });
  failing.permit();
  await mayRead(api, []);
}, 180_000);
