import { expect, test } from "vitest";
import { type CachedResource, cacheResource } from "./cached-resource.ts";
import { boundOf, KindMemory } from "./kind-memory.ts";

/** Takes some 700 bytes for each match. */
function route(namespace: string, name: string, matches: number) {
  const metadata = { namespace, name, uid: name };
  const match = (index: number) => ({ path: { type: "PathPrefix", value: `/${index}/${"x".repeat(500)}` } });
  const spec = {
    parentRefs: Array.from({ length: 32 }, (_, index) => ({ name: `web-${index}` })),
    rules: Array.from({ length: matches / 8 }, (_, rule) => ({
      matches: Array.from({ length: 8 }, (_each, index) => match(8 * rule + index)),
    })),
  };
  return { apiVersion: "gateway.networking.k8s.io/v1", kind: "HTTPRoute", metadata, spec };
}

/** Reads versions of routes as a watch does. */
function reader(max: number) {
  const memory = new KindMemory("routes", max);
  const known = new Map<string, CachedResource>();
  return {
    read: (namespace: string, name: string, matches: number) => {
      const key = `${namespace}/${name}`;
      const read = memory.read(route(namespace, name, matches), known.get(key), (object, errors) =>
        cacheResource(object, known.get(key), { keepsStatus: false, errors }),
      );
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

const max = 32_768;

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
  const memory = new KindMemory("gateways", 100);
  const spec = { ...parent, listeners: [{ name: "http", port: 80, protocol: "HTTP" }] };
  const { apiVersion, metadata } = route("crowd", "first", 0);
  const { resource, rejected } = memory.read({ apiVersion, kind, metadata, spec }, undefined, (object, errors) =>
    cacheResource(object, undefined, { keepsStatus: false, errors }),
  );
  expect(rejected?.inForce).toBe("remains");
  expect(resource).toMatchObject({ kind, spec: remains });
});

test("kinds whose absence would permit something have no bound", () => {
  const bounded = ["HTTPRoute", "TCPRoute", "Gateway", "ListenerSet"].map(boundOf);
  expect(bounded).toEqual(["routes", "routes", "gateways", "gateways"]);
  for (const kind of ["ProxyPolicy", "BackendTLSPolicy", "ReferenceGrant"]) expect(boundOf(kind)).toBeUndefined();
});
