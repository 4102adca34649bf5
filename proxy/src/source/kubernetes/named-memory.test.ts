/** The Secrets of a namespace that are kept, within a bound of their length. */
import { expect, test } from "vitest";
import { type CachedResource, cacheResource } from "./cached-resource.ts";
import { isDenied, NamedMemory, NamedTotal } from "./named-memory.ts";

const secret = (name: string, length: number) => ({
  ...{ apiVersion: "v1", kind: "Secret", metadata: { name, namespace: "a" } },
  data: { key: "x".repeat(length) },
});

function read(memory: NamedMemory, name: string, length: number, before?: CachedResource): CachedResource {
  const object = secret(name, length);
  return memory.read(object, before, () => cacheResource(object, before, { keepsStatus: false }));
}

test("an object beyond the bound is rejected, and read again when there is room", () => {
  const memory = new NamedMemory({ max: 10_000 });
  const [first, second] = [read(memory, "first", 6_000), read(memory, "second", 6_000)];
  expect([first, second].map(isDenied)).toEqual([false, true]);
  expect(second).toMatchObject({ resource: undefined, rejected: { inForce: "nothing" } });
  expect(memory.count([[first], [second]])).toEqual([false, false]);
  const shorter = read(memory, "first", 100, first);
  expect(memory.count([[shorter], [second]])).toEqual([false, true]);
  expect(isDenied(read(memory, "second", 6_000))).toBe(false);
});

test("versions of an object count once, also without a count between them", () => {
  const memory = new NamedMemory({ max: 10_000 });
  let version: CachedResource | undefined;
  // The same content again, as after a reconnection to the API server, and other content.
  for (const length of [6_000, 6_000, 6_000, 6_001, 6_002]) version = read(memory, "first", length, version);
  expect(version && isDenied(version)).toBe(false);
  const larger = read(memory, "first", 20_000, version);
  expect(isDenied(larger)).toBe(true);
  expect(isDenied(read(memory, "second", 6_000))).toBe(false);
});

test("each selection of an object counts", () => {
  const memory = new NamedMemory({ max: 10_000 });
  const all = Array.from({ length: 5 }, () => read(memory, "selected", 3_000));
  expect(all.map(isDenied)).toEqual([false, false, true, true, true]);
  expect(memory.count(all.map((each) => [each]))).toEqual([false, false, false, false, false]);
});

test("what is gone leaves room for some of the others", () => {
  const memory = new NamedMemory({ max: 10_000 });
  const all = Array.from({ length: 6 }, (_, at) => read(memory, `s${at}`, 4_000));
  expect(memory.count(all.slice(1).map((each) => [each]))).toEqual([false, true, false, false, false]);
});

test("what is read again by another watch counts once", () => {
  const memory = new NamedMemory({ max: 10_000 });
  const first = read(memory, "first", 6_000);
  memory.release([first]);
  expect(isDenied(read(memory, "first", 6_000))).toBe(false);
});

test("keys without values count", () => {
  const memory = new NamedMemory({ max: 10_000 });
  const keys = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`k${at}`, ""]));
  const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "keys", namespace: "a" }, data: keys };
  expect(isDenied(memory.read(object, undefined, () => cacheResource(object, undefined, { keepsStatus: false })))).toBe(
    true,
  );
});

test("the namespace with the most Secrets loses its last ones to others, until there is room", () => {
  const of = new NamedTotal(10_000);
  const large = new NamedMemory({ total: { namespace: "a", of } });
  const small = new NamedMemory({ total: { namespace: "b", of } });
  const denied: CachedResource[] = [];
  const readLarge = (name: string) => {
    const object = secret(name, 2_000);
    const parse = () => cacheResource(object, undefined, { keepsStatus: false });
    return large.read(object, undefined, parse, (version) => denied.push(version));
  };
  const [first, second, third] = [readLarge("first"), readLarge("second"), readLarge("third")];
  const own = read(small, "own", 3_000);
  expect([first, second, third, own].map(isDenied)).toEqual([false, false, false, false]);
  expect(denied.map(({ rejected }) => (rejected?.object["metadata"] as { name: string }).name)).toEqual(["third"]);
  expect(denied[0]?.rejected?.errors[0]?.message).toContain("of all namespaces");
  expect(large.count([[first, second], denied])).toEqual([false, false]);
  small.release([own]);
  small.close();
  expect(large.count([[first, second], denied])).toEqual([false, true]);
});
