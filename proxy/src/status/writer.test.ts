import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { describe, expect, test } from "vitest";
import { controllerName } from "../api/names.ts";
import type { RouteStatus } from "../api/status.ts";
import { ApiFailure } from "../kube/api-failure.ts";
import { longStatusOf } from "../kube/long-status.ts";
import { isObject, type KubeObject } from "../kube/object.ts";
import type { ClusterStatuses } from "./cluster-statuses.ts";
import { type CurrentObjects, StatusWriter } from "./writer.ts";
import type { CurrentObject } from "./written-statuses.ts";

const silent = () => undefined;
const log = { error: silent, warn: silent, info: silent, debug: silent, trace: silent, isLevelEnabled: () => false };

const routePath = "/apis/gateway.networking.k8s.io/v1/namespaces/infra/httproutes/chat";
const gatewayPath = "/apis/gateway.networking.k8s.io/v1/namespaces/infra/gateways/web";

/** Objects of an API server by path, with their versions, and what was written to it. */
class StatusServer {
  readonly objects = new Map<string, KubeObject>();
  readonly writes: { readonly path: string; readonly body: KubeObject }[] = [];
  /** Called before a write is looked at, once for each in the list. */
  readonly interference: (() => void)[] = [];
  #version = 0;

  put(path: string, status: unknown): void {
    this.#version++;
    this.objects.set(path, { metadata: { resourceVersion: String(this.#version) }, status });
  }

  get(path: string): Promise<KubeObject | undefined> {
    return Promise.resolve(this.objects.get(path));
  }

  /** Replaces the whole status: no other manager owns fields of an applied status here. */
  apply(path: string, body: KubeObject): Promise<KubeObject> {
    return this.#write(path, body, () => ({}));
  }

  merge(path: string, body: KubeObject): Promise<KubeObject> {
    return this.#write(path, body, (before) => (isObject(before) ? before : {}));
  }

  async #write(path: string, body: KubeObject, kept: (before: unknown) => KubeObject): Promise<KubeObject> {
    this.interference.shift()?.();
    this.writes.push({ path, body });
    const object = path.replace(/\/status$/, "");
    const before = this.objects.get(object);
    if (before === undefined) throw new ApiFailure(404, "not found");
    const asked = isObject(body["metadata"]) ? body["metadata"]["resourceVersion"] : undefined;
    const is = isObject(before["metadata"]) ? before["metadata"]["resourceVersion"] : undefined;
    if (asked !== undefined && asked !== is) throw new ApiFailure(409, "it has been changed");
    this.put(object, { ...kept(before["status"]), ...(body["status"] as object) });
    return Promise.resolve(this.objects.get(object) ?? {});
  }
}

const none: ClusterStatuses = {
  ...{
    gatewayClasses: [],
    gateways: [],
    listenerSets: [],
    httpRoutes: [],
    grpcRoutes: [],
    tlsRoutes: [],
    tcpRoutes: [],
    udpRoutes: [],
    backendTlsPolicies: [],
  },
  ...{ proxyPolicies: [], backends: [], orphans: { Gateway: [], ListenerSet: [] } },
  foreign: { Gateway: [], ListenerSet: [] },
};
const nothing: CurrentObjects = {
  ...{
    GatewayClass: [],
    Gateway: [],
    ListenerSet: [],
    HTTPRoute: [],
    GRPCRoute: [],
    TLSRoute: [],
    TCPRoute: [],
    UDPRoute: [],
    BackendTLSPolicy: [],
    ProxyPolicy: [],
  },
  Backend: [],
};

const parentRef = { group: "gateway.networking.k8s.io", kind: "Gateway", name: "web" };
const route: RouteStatus = {
  ...{ namespace: "infra", name: "chat" },
  parents: [
    {
      ...{ parentRef, controllerName },
      conditions: [{ type: "Accepted", status: "True", reason: "Accepted", message: "" }],
    },
  ],
};
const gateway: ClusterStatuses["gateways"][number] = {
  ...{ namespace: "infra", name: "web", listeners: [], addresses: [{ type: "IPAddress", value: "10.0.0.1" }] },
  conditions: [{ type: "Accepted", status: "True", reason: "Accepted", message: "" }],
};
const theirs = { parentRef, controllerName: "example.com/other", conditions: [] };

function writerTo(server: StatusServer, isLeader = () => true) {
  const outcomes: string[] = [];
  const warnings: unknown[] = [];
  const writer = new StatusWriter({
    ...{ api: server, clock: new FakeClock(), isLeader },
    log: { ...log, warn: (entry: unknown) => warnings.push(entry) },
    onWritten: (outcome) => outcomes.push(outcome),
  });
  return { writer, outcomes, warnings };
}

const routeWith = (status?: unknown): CurrentObject => ({ metadata: { namespace: "infra", name: "chat" }, status });
const onlyRoute = (status?: unknown): CurrentObjects => ({ ...nothing, HTTPRoute: [routeWith(status)] });

describe("a list with entries of several controllers", () => {
  test("gets the entries of this controller beside those that others have written meanwhile", async () => {
    const server = new StatusServer();
    // The source has not seen their entry yet.
    server.put(routePath, { parents: [theirs] });
    const { writer, outcomes } = writerTo(server);
    expect(await writer.write({ ...none, httpRoutes: [route] }, onlyRoute())).toBe(true);
    expect(server.objects.get(routePath)?.["status"]).toEqual({
      parents: [
        theirs,
        {
          ...{ parentRef, controllerName },
          conditions: [expect.objectContaining({ lastTransitionTime: "2023-11-14T22:13:20Z" })],
        },
      ],
    });
    expect(outcomes).toEqual(["written"]);
  });

  test("is read again after a conflict with another writer", async () => {
    const server = new StatusServer();
    server.put(routePath, {});
    server.interference.push(() => server.put(routePath, { parents: [theirs] }));
    const { writer } = writerTo(server);
    expect(await writer.write({ ...none, httpRoutes: [route] }, onlyRoute())).toBe(true);
    expect(server.writes).toHaveLength(2);
    expect(server.objects.get(routePath)?.["status"]).toMatchObject({ parents: [theirs, { controllerName }] });
  });

  test("is left for a later pass where every attempt ends in a conflict", async () => {
    const server = new StatusServer();
    server.put(routePath, {});
    server.interference.push(...Array.from({ length: 9 }, () => () => server.put(routePath, {})));
    const { writer, outcomes } = writerTo(server);
    expect(await writer.write({ ...none, httpRoutes: [route] }, onlyRoute())).toBe(false);
    expect(server.writes).toHaveLength(5);
    expect(outcomes).toEqual(["failed"]);
  });

  test("loses the entries of this controller where it has none any more", async () => {
    const server = new StatusServer();
    const status = { parents: [theirs, { parentRef, controllerName, conditions: [] }] };
    server.put(routePath, status);
    const { writer } = writerTo(server);
    await writer.write(none, onlyRoute(status));
    expect(server.objects.get(routePath)?.["status"]).toEqual({ parents: [theirs] });
  });
});

describe("a status", () => {
  test("is written once, though the source has not reported it before the next pass", async () => {
    const server = new StatusServer();
    server.put(routePath, undefined);
    server.put(gatewayPath, undefined);
    const { writer } = writerTo(server);
    const statuses = { ...none, httpRoutes: [route], gateways: [gateway] };
    const current = { ...onlyRoute(), Gateway: [{ metadata: { namespace: "infra", name: "web" } }] };
    await writer.write(statuses, current);
    expect(server.writes.map(({ path }) => path)).toEqual([`${gatewayPath}/status`, `${routePath}/status`]);
    await writer.write(statuses, current);
    expect(server.writes).toHaveLength(2);
  });

  test("is written again where the source reports a change by another writer", async () => {
    const server = new StatusServer();
    server.put(routePath, undefined);
    const { writer } = writerTo(server);
    await writer.write({ ...none, httpRoutes: [route] }, onlyRoute());
    server.put(routePath, { parents: [] });
    await writer.write({ ...none, httpRoutes: [route] }, onlyRoute({ parents: [] }));
    expect(server.objects.get(routePath)?.["status"]).toMatchObject({ parents: [{ controllerName }] });
  });

  test("is written to a recreated object of the same name", async () => {
    const server = new StatusServer();
    const { writer } = writerTo(server);
    for (const uid of ["first", "second"]) {
      server.put(routePath, undefined);
      server.put(gatewayPath, undefined);
      const current: CurrentObjects = {
        ...nothing,
        HTTPRoute: [{ metadata: { namespace: "infra", name: "chat", uid } }],
        Gateway: [{ metadata: { namespace: "infra", name: "web", uid } }],
      };
      await writer.write({ ...none, httpRoutes: [route], gateways: [gateway] }, current);
    }
    expect(server.writes.map(({ path }) => path)).toEqual([
      ...[`${gatewayPath}/status`, `${routePath}/status`],
      ...[`${gatewayPath}/status`, `${routePath}/status`],
    ]);
  });

  test("of a deleted object is no failure", async () => {
    const server = new StatusServer();
    const { writer } = writerTo(server);
    const current = { ...nothing, Gateway: [{ metadata: { namespace: "infra", name: "web" } }] };
    expect(await writer.write({ ...none, gateways: [gateway] }, current)).toBe(true);
    expect(server.writes).toHaveLength(1);
  });

  test("that cannot be written is logged once per series of failures", async () => {
    const server = new StatusServer();
    server.put(routePath, {});
    const { writer, warnings } = writerTo(server);
    const reject = () => {
      throw new ApiFailure(422, "it is too long");
    };
    const write = async () => await writer.write({ ...none, httpRoutes: [route] }, onlyRoute({}));
    for (const warned of [1, 2]) {
      server.interference.push(reject, reject);
      expect([await write(), await write()]).toEqual([false, false]);
      expect(warnings).toHaveLength(warned);
      expect(await write()).toBe(true);
      server.put(routePath, {});
    }
  });

  test("of an orphan is removed once, until the object has an owner again", async () => {
    const server = new StatusServer();
    server.put(gatewayPath, undefined);
    const { writer } = writerTo(server);
    const current = { ...nothing, Gateway: [{ metadata: { namespace: "infra", name: "web", uid: "one" } }] };
    const ours = { ...none, gateways: [gateway] };
    const orphaned = { ...none, orphans: { ...none.orphans, Gateway: [{ namespace: "infra", name: "web" }] } };
    for (const statuses of [ours, orphaned, orphaned, ours, orphaned, orphaned]) await writer.write(statuses, current);
    expect(server.writes.map(({ body }) => Object.keys(body["status"] as object).length > 0)).toEqual([
      ...[true, false],
      ...[true, false],
    ]);
  });

  test("that another writer keeps changing back is written five times a minute, and a warning is logged once", async () => {
    const server = new StatusServer();
    server.put(gatewayPath, undefined);
    const { writer, warnings } = writerTo(server);
    const gateways = [gateway];
    const outcomes: boolean[] = [];
    for (let round = 0; round < 9; round++) {
      const theirStatus = { conditions: [{ ...gateway.conditions[0], status: "False" }] };
      const Gateway = [{ metadata: { namespace: "infra", name: "web" }, status: theirStatus }];
      outcomes.push(await writer.write({ ...none, gateways }, { ...nothing, Gateway }));
    }
    expect(outcomes).toEqual([true, true, true, true, true, true, false, false, false]);
    expect(warnings).toHaveLength(1);
    // A new desired status is written all the same.
    const Gateway = [{ metadata: { namespace: "infra", name: "web" }, status: {} }];
    await writer.write({ ...none, gateways: [{ ...gateway, addresses: [] }] }, { ...nothing, Gateway });
    expect(server.writes).toHaveLength(7);
  });

  test("is left to the next leader after leadership is lost", async () => {
    const server = new StatusServer();
    const { writer } = writerTo(server, () => server.writes.length < 8);
    const names = Array.from({ length: 30 }, (_, index) => `gateway-${index}`);
    const gateways = names.map((name) => ({ ...gateway, name }));
    const Gateway = names.map((name) => ({ metadata: { namespace: "infra", name } }));
    expect(await writer.write({ ...none, gateways }, { ...nothing, Gateway })).toBe(false);
    expect(server.writes).toHaveLength(8);
  });
});

describe("thousands of objects of one namespace", () => {
  const many = 500;
  const routes = Array.from({ length: many }, (_, index): RouteStatus => ({ ...route, name: `r${index}` }));
  const policy = {
    ...{ namespace: "other", name: "limits" },
    ancestors: [{ ancestorRef: { ...parentRef, namespace: "other" }, controllerName, conditions: [] }],
    summary: { target: "", limits: "", accepted: "True", attached: "True" },
  } as const;
  const pathOf = (name: string) => routePath.replace("chat", name);
  const policyPath = "/apis/gatewayproxy.dev/v1alpha1/namespaces/other/proxypolicies/limits";
  const statuses: ClusterStatuses = { ...none, httpRoutes: routes, proxyPolicies: [policy] };
  const current: CurrentObjects = {
    ...nothing,
    HTTPRoute: routes.map(({ namespace, name }) => ({ metadata: { namespace, name } })),
    ProxyPolicy: [{ metadata: { namespace: "other", name: "limits" } }],
  };

  function serverWithAll(): StatusServer {
    const server = new StatusServer();
    for (const { name } of routes) server.put(pathOf(name), undefined);
    server.put(policyPath, undefined);
    return server;
  }

  test("do not delay the status of an object in another namespace", async () => {
    const server = serverWithAll();
    const { writer } = writerTo(server);
    expect(await writer.write(statuses, current)).toBe(true);
    expect(server.writes).toHaveLength(many + 1);
    expect(server.writes.findIndex(({ path }) => path.startsWith(policyPath))).toBeLessThan(8);
  });

  test("are written in several passes, so that other changes are planned in between", async () => {
    const server = serverWithAll();
    const clock = new FakeClock();
    const slow = {
      get: (path: string) => server.get(path),
      apply: (path: string, body: KubeObject) => server.apply(path, body),
      merge: (path: string, body: KubeObject) => {
        clock.advance(100);
        return server.merge(path, body);
      },
    };
    let behind = 0;
    const writer = new StatusWriter({ api: slow, clock, log, isLeader: () => true, onBehind: () => behind++ });
    let passes = 0;
    for (; behind === passes; passes++) await writer.write(statuses, current);
    expect(server.writes).toHaveLength(many + 1);
    // Each writes for about four seconds.
    expect(passes).toBeGreaterThan(10);
    expect(passes).toBeLessThan(15);
    // A change that comes while statuses are written ends the pass soon.
    const changedMs = clock.monotonicMs() + 1_000;
    const passMs = () => (clock.monotonicMs() < changedMs ? 4_000 : 500);
    const pressed = new StatusWriter({ api: slow, clock, log, isLeader: () => true, passMs });
    const [before, startMs] = [server.writes.length, clock.monotonicMs()];
    for (const { namespace, name } of statuses.httpRoutes) {
      server.put(`/apis/gateway.networking.k8s.io/v1/namespaces/${namespace}/httproutes/${name}`, {});
    }
    await pressed.write(statuses, current);
    expect(server.writes.length - before).toBeGreaterThan(3);
    expect(clock.monotonicMs() - startMs).toBeLessThan(2_000);
  });
});

describe("fields that the definition of a kind does not declare", () => {
  test("are not written, and do not make a status differ", async () => {
    const server = new StatusServer();
    server.put("/apis/gateway.networking.k8s.io/v1/gatewayclasses/ours", {});
    server.put(gatewayPath, {});
    const writer = new StatusWriter({
      ...{ api: server, clock: new FakeClock(), log, isLeader: () => true },
      declared: (_, status) =>
        Object.fromEntries(
          Object.entries(status).filter(([name]) => name !== "supportedFeatures" && name !== "addresses"),
        ),
    });
    const gatewayClass = {
      name: "ours",
      conditions: gateway.conditions as never,
      supportedFeatures: [{ name: "Gateway" }],
    };
    const statuses = { ...none, gatewayClasses: [gatewayClass], gateways: [gateway] };
    const metadata = { namespace: "infra", name: "web" };
    const current = { ...nothing, GatewayClass: [{ metadata: { name: "ours" } }], Gateway: [{ metadata }] };
    expect(await writer.write(statuses, current)).toBe(true);
    expect(server.writes.map(({ body }) => Object.keys(body["status"] as object))).toEqual([
      ["conditions"],
      ["conditions", "listeners"],
    ]);
    expect(await writer.write(statuses, current)).toBe(true);
    expect(server.writes).toHaveLength(2);
  });
});

describe.each([
  ["it is too long", longStatusOf],
  ["the source has no room for it", (status: unknown) => status],
])("a status of which only a hash is known, since %s", (_, keptOf) => {
  const pass = async (writer: StatusWriter, server: StatusServer) => {
    const kept = (path: string) => longStatusOf(server.objects.get(path)?.["status"]);
    const metadata = { namespace: "infra", name: "web" };
    const current = { ...onlyRoute(kept(routePath)), Gateway: [{ metadata, status: kept(gatewayPath) }] };
    return await writer.write({ ...none, httpRoutes: [route], gateways: [gateway] }, current);
  };

  test("is written again only if another writer has changed it, or another one is desired", async () => {
    const server = new StatusServer();
    for (const path of [routePath, gatewayPath]) server.put(path, { parents: [theirs] });
    let reads = 0;
    const api = {
      ...{ apply: server.apply.bind(server), merge: server.merge.bind(server) },
      get: (path: string) => (reads++, server.get(path)),
    };
    const writer = new StatusWriter({ api, clock: new FakeClock(), log, isLeader: () => true, keptOf });
    for (let times = 0; times < 8; times++) expect(await pass(writer, server)).toBe(true);
    expect(server.writes.map(({ path }) => path).sort()).toEqual([`${gatewayPath}/status`, `${routePath}/status`]);
    expect(reads).toBe(1);

    for (const path of [routePath, gatewayPath]) server.put(path, { parents: [theirs] });
    for (let times = 0; times < 2; times++) expect(await pass(writer, server)).toBe(true);
    expect(server.writes).toHaveLength(4);
  });
});

describe("a Gateway whose class names another controller", () => {
  const metadata = { namespace: "infra", name: "web", uid: "1" };
  const foreign: ClusterStatuses = { ...none, foreign: { ...none.foreign, Gateway: [metadata] } };

  test("loses the status that this controller has written or found to be right, once", async () => {
    const server = new StatusServer();
    server.put(gatewayPath, {});
    await writerTo(server).writer.write({ ...none, gateways: [gateway] }, { ...nothing, Gateway: [{ metadata }] });
    const current = { ...nothing, Gateway: [{ metadata, status: server.objects.get(gatewayPath)?.["status"] }] };
    const { writer } = writerTo(server);
    await writer.write({ ...none, gateways: [gateway] }, current);
    expect(server.writes).toHaveLength(1);
    for (let pass = 0; pass < 3; pass++) expect(await writer.write(foreign, current)).toBe(true);
    expect(server.writes.slice(1)).toEqual([
      { path: `${gatewayPath}/status`, body: expect.objectContaining({ status: {} }) as unknown },
    ]);
  });

  test("keeps a status that this controller has never written", async () => {
    const server = new StatusServer();
    server.put(gatewayPath, { conditions: [] });
    expect(await writerTo(server).writer.write(foreign, { ...nothing, Gateway: [{ metadata }] })).toBe(true);
    expect(server.writes).toEqual([]);
  });
});
