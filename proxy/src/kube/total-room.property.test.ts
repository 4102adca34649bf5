/** Random namespaces, whose objects arrive, change and are removed in any order, in a room that all have together. */
import fc from "fast-check";
import { fairLevel } from "@gatewayproxy/runtime/fair-level";
import { expect, test } from "vitest";
import { NamespaceRoom } from "./namespace-room.ts";
import { ReadOrder } from "./read-order.ts";
import { TotalRoom } from "./total-room.ts";

const max = 1_000;
const largest = 120;
const namespaces = ["a", "b", "c", "d", "e"];
const kinds = ["Route", "Backend"];

interface Version {
  readonly kind: string;
  readonly namespace: string;
  readonly key: string;
  readonly bytes: number;
}

/** Objects of the API server, with those of them that are kept. */
class Cluster {
  readonly exist = new Map<string, Version>();
  readonly kept = new Map<string, Version>();
  readonly total = new TotalRoom(max);
  /** The objects that had no room when they arrived, or lost it. */
  readonly losses: Version[] = [];
  readonly #order = new Map(kinds.map((kind) => [kind, new ReadOrder<Version>()]));
  readonly #rooms = new Map(kinds.map((kind) => [kind, this.#roomOf(kind)]));

  #roomOf(kind: string): NamespaceRoom {
    const { total } = this;
    const room: NamespaceRoom = new NamespaceRoom({
      ...{ kinds: [kind], maxBytes: Number.POSITIVE_INFINITY, total },
      onCut: (namespace, bytes) => {
        const isTooMuch = () => room.usedBy(namespace) > bytes;
        this.#order.get(kind)?.leaveOutLast(namespace, isTooMuch, (last) => {
          this.losses.push(last);
          room.reject(kind, namespace, last.bytes);
          room.leaveOut(kind, namespace);
          this.#forget(last);
        });
      },
    });
    return room;
  }

  put(kind: string, namespace: string, name: number, bytes: number): void {
    const key = `${kind} ${namespace} ${name}`;
    const version = { kind, namespace, key, bytes };
    this.exist.set(key, version);
    this.#read(version);
  }

  #read(version: Version, isAgain = false): void {
    const { kind, namespace, key, bytes } = version;
    const before = this.kept.get(key);
    const room = this.#rooms.get(kind);
    if (room?.has(namespace, bytes, before?.bytes, isAgain) !== true) {
      room?.reject(kind, namespace, bytes);
      room?.leaveOut(kind, namespace);
      if (!isAgain) this.losses.push(version);
      if (before !== undefined) this.#forget(before);
      return;
    }
    this.kept.set(key, version);
    this.#order.get(kind)?.replace(namespace, before, version);
    room.count(namespace, bytes - (before?.bytes ?? 0));
  }

  remove(kind: string, namespace: string, name: number): void {
    const key = `${kind} ${namespace} ${name}`;
    this.exist.delete(key);
    const before = this.kept.get(key);
    if (before !== undefined) this.#forget(before);
  }

  #forget(version: Version): void {
    const { kind, namespace, key, bytes } = version;
    this.kept.delete(key);
    this.#order.get(kind)?.replace(namespace, version, undefined);
    this.#rooms.get(kind)?.count(namespace, -bytes);
  }

  /** Lists what is freed once. Returns whether there was anything. */
  listFreed(): boolean {
    const places = [...this.#rooms.values()].flatMap((room) => room.takeFreed());
    for (const { kind, namespace } of places) {
      this.#rooms.get(kind)?.beginList(kind, namespace);
      for (const [key, version] of this.exist) {
        const isThere = version.kind === kind && version.namespace === namespace;
        if (isThere && !this.kept.has(key)) this.#read(version, true);
      }
    }
    return places.length > 0;
  }

  /** What the objects of a namespace take, if all have room. */
  demand(namespace: string, kind?: string): number {
    return [...this.exist.values()].reduce(
      (sum, each) => sum + (each.namespace === namespace && (kind ?? each.kind) === each.kind ? each.bytes : 0),
      0,
    );
  }

  keptBytes(namespace: string, kind?: string): number {
    return [...this.kept.values()].reduce(
      (sum, each) => sum + (each.namespace === namespace && (kind ?? each.kind) === each.kind ? each.bytes : 0),
      0,
    );
  }
}

const at = { namespace: fc.constantFrom(...namespaces), kind: fc.constantFrom(...kinds), name: fc.nat(7) };
const change = fc.oneof(
  { weight: 4, arbitrary: fc.record({ ...at, bytes: fc.integer({ min: 1, max: largest }) }) },
  { weight: 1, arbitrary: fc.record({ ...at, bytes: fc.constant(0) }) },
);

function apply(
  cluster: Cluster,
  { kind, namespace, name, bytes }: { kind: string; namespace: string; name: number; bytes: number },
) {
  if (bytes === 0) cluster.remove(kind, namespace, name);
  else cluster.put(kind, namespace, name, bytes);
}

/** Lists what is freed until nothing is. */
function settle(cluster: Cluster): void {
  let lists = 0;
  while (cluster.listFreed()) expect(++lists, "lists do not end").toBeLessThan(30);
}

test("all namespaces never take more than the maximum, small ones lose nothing, and lists of what is freed end", () => {
  fc.assert(
    fc.property(fc.array(change, { maxLength: 120, size: "max" }), (changes) => {
      const cluster = new Cluster();
      for (const each of changes) {
        apply(cluster, each);
        expect(cluster.total.total).toBeLessThanOrEqual(max);
        expect(cluster.total.total).toBe([...cluster.kept.values()].reduce((sum, { bytes }) => sum + bytes, 0));
        settle(cluster);
        expect(cluster.total.total).toBeLessThanOrEqual(max);
        const demands = namespaces.map((namespace) => cluster.demand(namespace));
        const level = fairLevel(demands, max);
        for (const { namespace, kind } of cluster.losses.splice(0)) {
          const demand = cluster.demand(namespace);
          expect(demand).toBeGreaterThan(level);
          const ofKinds = kinds.map((each) => cluster.demand(namespace, each));
          expect(cluster.demand(namespace, kind)).toBeGreaterThan(fairLevel(ofKinds, level));
        }
        for (const [index, namespace] of namespaces.entries()) {
          const demand = demands[index] ?? 0;
          if (demand <= level - largest) expect(cluster.keptBytes(namespace), namespace).toBe(demand);
        }
      }
    }),
    { numRuns: 300 },
  );
});

test("what loses its room comes back when others are removed", () => {
  fc.assert(
    fc.property(fc.array(change, { maxLength: 120, size: "max" }), fc.constantFrom(...namespaces), (changes, left) => {
      const cluster = new Cluster();
      for (const each of changes) apply(cluster, each);
      for (const { kind, namespace, key } of [...cluster.exist.values()]) {
        if (namespace !== left) cluster.remove(kind, namespace, Number(key.split(" ")[2]));
      }
      settle(cluster);
      expect(cluster.keptBytes(left)).toBe(Math.min(cluster.demand(left), cluster.keptBytes(left)));
      if (cluster.demand(left) <= max) expect(cluster.keptBytes(left)).toBe(cluster.demand(left));
    }),
  );
});

test("the sizes of namespaces depend on the order of arrival by some objects at most", () => {
  fc.assert(
    fc.property(fc.array(change, { maxLength: 100, size: "max" }), fc.nat(), (changes, seed) => {
      const last = new Map(changes.map((each) => [`${each.kind} ${each.namespace} ${each.name}`, each]));
      const objects = [...last.values()].filter(({ bytes }) => bytes > 0);
      const shuffled = objects.toSorted((a, b) => order(a, seed) - order(b, seed));
      const kept = [objects, shuffled].map((all) => {
        const cluster = new Cluster();
        for (const each of all) apply(cluster, each);
        settle(cluster);
        return namespaces.map((namespace) => cluster.keptBytes(namespace));
      });
      const level = fairLevel(
        namespaces.map((namespace) =>
          objects.reduce((sum, each) => sum + (each.namespace === namespace ? each.bytes : 0), 0),
        ),
        max,
      );
      for (const sizes of kept) {
        for (const [index, size] of sizes.entries()) {
          const demand = objects.reduce(
            (sum, each) => sum + (each.namespace === namespaces[index] ? each.bytes : 0),
            0,
          );
          expect(size).toBeGreaterThanOrEqual(Math.min(demand, level) - kinds.length * largest);
        }
      }
    }),
  );
});

function order({ kind, namespace, name }: { kind: string; namespace: string; name: number }, seed: number): number {
  let hash = seed;
  for (const char of `${kind} ${namespace} ${name}`) hash = (hash * 31 + char.charCodeAt(0)) % 1_000_003;
  return hash;
}
