import { getHeapStatistics } from "node:v8";
import { expect, test } from "vitest";
import { isLongStatus } from "../../kube/long-status.ts";
import { keyOfObject } from "../../kube/object.ts";
import { TotalRoom } from "../../kube/total-room.ts";
import { type CachedResource, cacheResource } from "./cached-resource.ts";
import { boundedGroups, isWaiting, KindMemory } from "./kind-memory.ts";

/** Takes some 700 bytes for each match. */
function route(namespace: string, name: string, matches: number) {
  const metadata = { namespace, name, uid: name };
  const match = (index: number) => ({ path: { type: "PathPrefix", value: `/${index}/${"x".repeat(500)}` } });
  const spec = {
    parentRefs: Array.from({ length: 6 }, (_, index) => ({ name: `web-${index}` })),
    rules: Array.from({ length: matches / 8 }, (_, rule) => ({
      matches: Array.from({ length: 8 }, (_each, index) => match(8 * rule + index)),
    })),
  };
  return { apiVersion: "gateway.networking.k8s.io/v1", kind: "HTTPRoute", metadata, spec };
}

/** Reads versions of routes as a watch does. */
function reader(max: number) {
  const memory = new KindMemory("routes", { maxBytes: max });
  const known = new Map<string, CachedResource>();
  return {
    read: (namespace: string, name: string, matches: number) => {
      const key = `${namespace}/${name}`;
      const read = memory.read(route(namespace, name, matches), known.get(key), (object, errors) =>
        cacheResource(object, known.get(key), { keepsStatus: false, errors }),
      );
      if (read === undefined) throw new Error("the route is left out");
      known.set(key, read);
      return read;
    },
    remove: (namespace: string, name: string) => {
      const key = `${namespace}/${name}`;
      const removed = known.get(key);
      if (removed !== undefined) memory.release(removed);
      known.delete(key);
    },
  };
}

const max = 80_000;

test("routes beyond the memory of their namespace are rejected, and take little of it", () => {
  const { read } = reader(max);
  expect(read("crowd", "first", 24).rejected).toBeUndefined();
  const second = read("crowd", "second", 24);
  expect(second.resource).toBeUndefined();
  expect(second.rejected).toMatchObject({ inForce: "nothing", errors: [{ path: [] }] });
  expect(second.rejected?.errors[0]?.message).toContain("the routes of namespace crowd take more than");
  expect(JSON.stringify(second).length).toBeLessThan(1_500);
  expect(read("other", "first", 24).rejected).toBeUndefined();
  expect(read("crowd", "small", 8).rejected).toBeUndefined();
});

test("a route whose new version has no room keeps its last one", () => {
  const { read } = reader(max);
  const before = read("crowd", "grows", 24);
  const after = read("crowd", "grows", 64);
  expect([after.resource, after.rejected?.inForce]).toEqual([before.resource, "lastValidVersion"]);
  // It takes as much as before.
  expect(read("crowd", "second", 24).rejected).toBeDefined();
  expect(read("crowd", "grows", 8).rejected).toBeUndefined();
  expect(read("crowd", "second", 24).rejected).toBeUndefined();
});

test("removed routes make room", () => {
  const { read, remove } = reader(max);
  for (let times = 0; times < 100; times++) {
    expect(read("crowd", "first", 24).rejected).toBeUndefined();
    // The same version again.
    expect(read("crowd", "first", 24).rejected).toBeUndefined();
    remove("crowd", "first");
  }
  read("crowd", "first", 24);
  const denied = read("crowd", "second", 24);
  expect(denied.rejected).toBeDefined();
  remove("crowd", "second");
  remove("crowd", "first");
  expect(read("crowd", "second", 24).rejected).toBeUndefined();
});

test.each([
  ["Gateway", { gatewayClassName: "c" }, { gatewayClassName: "c", listeners: [] }],
  ["ListenerSet", { parentRef: { name: "web" } }, { parentRef: { name: "web" }, listeners: [] }],
])("a %s without room keeps its parent, and serves nothing", (kind, parent, remains) => {
  const memory = new KindMemory("gateways", { maxBytes: 100 });
  const spec = { ...parent, listeners: [{ name: "http", port: 80, protocol: "HTTP" }] };
  const { apiVersion, metadata } = route("crowd", "first", 0);
  const read = memory.read({ apiVersion, kind, metadata, spec }, undefined, (object, errors) =>
    cacheResource(object, undefined, { keepsStatus: false, errors }),
  );
  expect(read?.rejected?.inForce).toBe("remains");
  expect(read?.resource).toMatchObject({ kind, spec: remains });
});

/** Reads new objects of one kind with these names. */
function readAll(memory: KindMemory, kind: string, spec: object, names: readonly string[]) {
  const group = kind === "ProxyPolicy" ? "gatewayproxy.dev/v1alpha1" : "gateway.networking.k8s.io/v1";
  return names.map((name) => {
    const metadata = { namespace: "crowd", name, uid: name };
    return memory.read({ apiVersion: group, kind, metadata, spec }, undefined, (object, errors) =>
      cacheResource(object, undefined, { keepsStatus: true, errors }),
    );
  });
}

const names = (count: number) => Array.from({ length: count }, (_, index) => `n${index}`);

const target = (kind: string) => ({ targetRefs: [{ group: "gateway.networking.k8s.io", kind, name: "web" }] });
const validation = { hostname: "a.test", wellKnownCACertificates: "System" };
const policies = [
  [
    "ProxyPolicy",
    "policies",
    { ...target("Gateway"), traffic: { rateLimit: { local: [{ requests: 1, unit: "Hours" }] } } },
  ],
  ["BackendTLSPolicy", "tlsPolicies", { targetRefs: [{ group: "", kind: "Service", name: "web" }], validation }],
] as const;

test.each(policies)("of many ones of kind %s, the last that is kept has any target", (kind, group, spec) => {
  const memory = new KindMemory(group, { maxBytes: 30_000 });
  const all = readAll(memory, kind, spec, names(200));
  const kept = all.filter((each) => each !== undefined);
  expect(kept.length).toBeLessThan(100);
  const waiting = kept.filter(isWaiting);
  expect(waiting).toHaveLength(64);
  const targets = waiting.map(
    ({ resource }) => (resource as { spec: { targetRefs: readonly unknown[] } }).spec.targetRefs,
  );
  expect(targets.map(({ length }) => length)).toEqual([...Array.from({ length: 63 }, () => 1), 0]);
  expect(JSON.stringify(waiting[62]?.rejected?.object)).toContain('"web"');
});

test.each(policies)(
  "where many of kind %s wait, the next new one represents those that are left out",
  (kind, group, spec) => {
    const memory = new KindMemory(group, { maxBytes: 30_000 });
    const isRepresenting = (each: CachedResource | undefined) =>
      JSON.stringify(each?.resource ?? {}).includes('"targetRefs":[]');
    const first = readAll(memory, kind, spec, names(200));
    const before = first.find(isRepresenting);
    if (before === undefined) throw new Error("none represents the others");
    memory.release(before);
    expect([memory.room.hasFreed, memory.room.takeFreed()]).toEqual([true, [{ kind, namespace: "crowd" }]]);
    expect(readAll(memory, kind, spec, ["late", "later"]).map(isRepresenting)).toEqual([true, false]);
  },
);

test("kinds are listed again once the object that represents others has room", () => {
  const memory = new KindMemory("policies", { maxBytes: 30_000 });
  const [kind, , spec] = policies[0];
  const large = { ...spec, targetRefs: Array.from({ length: 16 }, () => spec.targetRefs[0]) };
  const all = readAll(memory, kind, large, names(100)).filter((each) => each !== undefined);
  const before = all.at(-1);
  if (before === undefined) throw new Error("none represents the others");
  expect([isWaiting(before), memory.room.hasFreed]).toEqual([true, false]);
  const metadata = { namespace: "crowd", name: "n", uid: "n" };
  const object = { apiVersion: "gatewayproxy.dev/v1alpha1", kind, metadata, spec };
  const small = memory.read(object, before, (part, errors) =>
    cacheResource(part, before, { keepsStatus: true, errors }),
  );
  expect([small !== undefined && isWaiting(small), memory.room.hasFreed]).toEqual([false, true]);
});

test("only kinds of namespaces with objects without room are listed again", () => {
  const memory = new KindMemory("routes", { maxBytes: 10_000 });
  const spec = { parentRefs: [{ name: "web" }], rules: [{}] };
  const [first] = readAll(memory, "HTTPRoute", spec, names(1));
  if (first !== undefined) memory.release(first);
  expect(memory.room.hasFreed).toBe(false);
  const [second] = readAll(memory, "GRPCRoute", spec, names(3));
  if (second !== undefined) memory.release(second);
  const freed = [{ kind: "GRPCRoute", namespace: "crowd" }];
  expect([memory.room.hasFreed, memory.room.takeFreed(), memory.room.hasFreed]).toEqual([true, freed, false]);
});

test("an EndpointSlice counts with its ports", () => {
  const memory = new KindMemory("endpointSlices", { maxBytes: 100_000 });
  const ports = Array.from({ length: 1_000 }, (_, at) => ({ name: `p${at}`, port: 1 + at, protocol: "TCP" }));
  const metadata = { namespace: "crowd", name: "n", uid: "n" };
  const slice = { apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice", metadata, addressType: "IPv4", ports };
  const read = memory.read({ ...slice, endpoints: [] }, undefined, (object, errors) =>
    cacheResource(object, undefined, { keepsStatus: false, errors }),
  );
  expect(read && isWaiting(read)).toBe(true);
});

test("of the statuses of a namespace that take more than a quarter of what its objects may, a hash is kept", () => {
  const memory = new KindMemory("routes", { maxBytes: 320_000, keepsStatus: true });
  const read = (namespace: string, name: string, before?: CachedResource) => {
    const status = { parents: [{ conditions: [{ message: "x".repeat(38_000) }] }] };
    return memory.read({ ...route(namespace, name, 8), status }, before, (object, errors) =>
      cacheResource(object, before, { keepsStatus: true, errors }),
    );
  };
  const isLong = (cached: CachedResource | undefined) =>
    cached?.resource === undefined ? undefined : isLongStatus((cached.resource as { status?: unknown }).status);
  const [first, second] = [read("crowd", "a"), read("crowd", "b")];
  expect([first, second, read("crowd", "c"), read("other", "a")].map(isLong)).toEqual([false, false, true, false]);
  if (first === undefined || second === undefined) throw new Error("a route is left out");
  // The next version of one of them has the room of the last one.
  expect(isLong(read("crowd", "b", second))).toBe(false);
  memory.release(first);
  expect(isLong(read("crowd", "d"))).toBe(false);
});

test("all groups together leave half of the heap to what is computed of them", () => {
  const heap = getHeapStatistics().heap_size_limit;
  const shares = boundedGroups.map((group) => new KindMemory(group).maxBytes / heap);
  expect(shares.reduce((sum, share) => sum + share)).toBeLessThanOrEqual(0.5);
});

/** Reads new objects of several namespaces in a room that all have together, and keeps those that are replaced. */
function sharedReader(kind: string, group: "routes" | "policies", maxBytes: number, totalStatus?: TotalRoom) {
  const known = new Map<string, CachedResource>();
  const memory = new KindMemory(group, {
    ...{ maxBytes: 10 * maxBytes, keepsStatus: true, total: new TotalRoom(maxBytes) },
    ...(totalStatus !== undefined && { totalStatus }),
    replace: (_, key, version) => {
      if (version === undefined) known.delete(key);
      else known.set(key, version);
    },
  });
  const read = (namespace: string, name: string, spec: object, status?: object, isAgain = false) => {
    const apiVersion = kind === "ProxyPolicy" ? "gatewayproxy.dev/v1alpha1" : "gateway.networking.k8s.io/v1";
    const metadata = { namespace, name, uid: name };
    const object = { ...{ apiVersion, kind, metadata, spec }, ...(status !== undefined && { status }) };
    const key = keyOfObject(object);
    const before = known.get(key);
    const version = memory.read(
      object,
      before,
      (part, errors) => cacheResource(part, before, { keepsStatus: true, errors }),
      isAgain,
    );
    if (version === undefined) known.delete(key);
    else known.set(key, version);
    return version;
  };
  const remove = (key: string) => {
    const removed = known.get(key);
    if (removed !== undefined) memory.release(removed);
    known.delete(key);
  };
  return { memory, known, read, remove };
}

const smallRoute = { parentRefs: [{ name: "web" }], rules: [{}] };

test("a small namespace takes the room of the last objects of the largest one, which say so and come back", () => {
  const { memory, known, read, remove } = sharedReader("HTTPRoute", "routes", 50_000);
  const crowd = Array.from({ length: 20 }, (_, index) => `n${index}`);
  for (const name of crowd) read("crowd", name, smallRoute);
  const served = () => crowd.filter((name) => known.get(`crowd/${name}`)?.rejected === undefined);
  const before = served();
  expect(before.length).toBeGreaterThan(5);
  expect(before.length).toBeLessThan(20);
  for (const name of ["a", "b", "c"]) expect(read("small", name, smallRoute)?.rejected).toBeUndefined();
  expect(served()).toEqual(before.slice(0, -3));
  const lost = known.get(`crowd/${before.at(-1)}`);
  expect(lost?.resource).toBeUndefined();
  expect(lost?.rejected).toMatchObject({ inForce: "nothing", object: { spec: { parentRefs: [{ name: "web" }] } } });
  expect(lost?.rejected?.errors[0]?.message).toContain("namespace crowd has more of them than others");
  expect(memory.incomplete()).toEqual(["HTTPRoute crowd"]);
  expect(memory.room.hasFreed).toBe(false);
  remove("small/a");
  expect(memory.room.takeFreed()).toEqual([{ kind: "HTTPRoute", namespace: "crowd" }]);
  for (const name of crowd) {
    const version = known.get(`crowd/${name}`);
    if (version === undefined || isWaiting(version)) read("crowd", name, smallRoute, undefined, true);
  }
  expect(served()).toHaveLength(before.length - 2);
});

test("of policies that lose their room, the last valid versions go as well, and one represents those left out", () => {
  const [kind, , spec] = policies[0];
  const { known, read } = sharedReader(kind, "policies", 800_000);
  for (const name of names(100)) read("crowd", name, spec);
  const all = () => [...known].filter(([key]) => key.startsWith("crowd/")).map(([, version]) => version);
  // An edit that has no room keeps its last version.
  const local = Array.from({ length: 1_000 }, () => ({ requests: 1, unit: "Hours" }));
  read("crowd", "n0", { ...spec, traffic: { rateLimit: { local } } });
  expect(all().filter(isWaiting)).toHaveLength(1);
  for (const namespace of ["b", "c", "d", "e", "f", "g", "h", "i"]) {
    for (const name of names(20)) read(namespace, name, spec);
  }
  const waiting = all().filter(isWaiting);
  expect(waiting.length).toBeGreaterThan(10);
  expect(waiting.length).toBeLessThanOrEqual(64);
  expect(waiting.filter(({ rejected }) => rejected?.inForce === "lastValidVersion").length).toBeLessThanOrEqual(1);
});

test("a small namespace keeps its statuses, and of those of the largest one a hash is kept", () => {
  const { known, read } = sharedReader("HTTPRoute", "routes", 500_000, new TotalRoom(100_000));
  const status = { parents: [{ conditions: [{ message: "x".repeat(30_000) }] }] };
  for (const name of names(3)) read("crowd", name, smallRoute, status);
  read("small", "a", smallRoute, status);
  const isLong = (key: string) => isLongStatus((known.get(key)?.resource as { status?: unknown } | undefined)?.status);
  expect(["crowd/n0", "crowd/n1", "crowd/n2", "small/a"].map(isLong)).toEqual([false, false, true, false]);
  expect([...known.values()].some(isWaiting)).toBe(false);
});
