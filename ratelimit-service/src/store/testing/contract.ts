/**
 * The contract of every `CounterStore`, as tests. A store's test file calls `describeCounterStore` with a function that
 * opens one; several stores from one `open` share their counters, as replicas or threads do.
 */
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type CounterChange, type CounterStep, type CounterStore, maxCount } from "../../model/counter-store.ts";

/** The environment of one test: stores over the same counters, on a clock that is fixed at `nowSeconds`. */
export interface StoreFixture {
  readonly store: CounterStore;
  /** Another store over the same counters. */
  readonly sibling: CounterStore;
  /** Seconds since the epoch, on the clock that the stores read. */
  readonly nowSeconds: number;
  readonly close: () => Promise<void>;
}

const run = randomUUID();
let serial = 0;

/** Runs the contract against a store. */
export function describeCounterStore(name: string, open: () => Promise<StoreFixture>): void {
  describe(`${name} as a counter store`, () => {
    /** Runs a test with a fresh fixture and a key that no other test uses. */
    async function withStore(use: (fixture: StoreFixture, step: StepMaker) => Promise<void>): Promise<void> {
      const fixture = await open();
      const stem = `contract_${process.pid}_${run}_${serial++}`;
      try {
        await use(fixture, (hits, key = "a", windowSeconds = 3600) => ({
          key: `${stem}_${key}`,
          hits,
          windowSeconds,
          windowEndSeconds: fixture.nowSeconds + windowSeconds,
        }));
      } finally {
        await fixture.close();
      }
    }

    test("counts from 0 and returns the value after each step", () =>
      withStore(async ({ store }, step) => {
        expect(await store.apply([step(1)])).toEqual([1]);
        expect(await store.apply([step(4)])).toEqual([5]);
      }));

    test("takes the steps of one call in order, also several of one counter", () =>
      withStore(async ({ store }, step) => {
        expect(await store.apply([step(1), step(2, "b"), step(3), step(-1, "b"), step(0)])).toEqual([1, 2, 4, 1, 4]);
      }));

    test("handles a call without steps", () =>
      withStore(async ({ store }) => {
        expect(await store.apply([])).toEqual([]);
      }));

    test("reads without counting, and reads a counter that does not exist as 0", () =>
      withStore(async ({ store }, step) => {
        expect(await store.apply([step(0)])).toEqual([0]);
        await store.apply([step(7)]);
        expect(await store.apply([step(0)])).toEqual([7]);
        expect(await store.apply([step(0)])).toEqual([7]);
      }));

    test("refunds, but never below 0", () =>
      withStore(async ({ store }, step) => {
        await store.apply([step(5)]);
        expect(await store.apply([step(-2)])).toEqual([3]);
        expect(await store.apply([step(-9)])).toEqual([0]);
        expect(await store.apply([step(1)])).toEqual([1]);
      }));

    test("gives nothing back to a counter that does not exist", () =>
      withStore(async ({ store }, step) => {
        expect(await store.apply([step(-2)])).toEqual([0]);
        expect(await store.apply([step(1)])).toEqual([1]);
      }));

    test("counts beyond 32 bits", () =>
      withStore(async ({ store }, step) => {
        expect(await store.apply([step(5_000_000_000), step(5_000_000_000)])).toEqual([5_000_000_000, 10_000_000_000]);
      }));

    test("counts up to its ceiling and stays there, and refunds from there", () =>
      withStore(async ({ store }, step) => {
        const below = maxCount - 4_294_967_295;
        expect(await store.apply([step(below), step(4_294_967_294), step(1), step(1)])).toEqual([
          below,
          maxCount - 1,
          maxCount,
          maxCount,
        ]);
        for (let times = 0; times < 3; times++) {
          const huge = Array.from({ length: 1_000 }, () => step(maxCount));
          expect(new Set(await store.apply(huge))).toEqual(new Set([maxCount]));
        }
        expect(await store.apply([step(4_294_967_295), step(0), step(-1), step(-maxCount), step(2)])).toEqual([
          maxCount,
          maxCount,
          maxCount - 1,
          0,
          2,
        ]);
      }));

    test("keeps counters apart that differ in one character, in length or in script", () =>
      withStore(async ({ store }, step) => {
        const keys = ["x", "y", "x_", "x_x", "ü", "ű", "日本", "", " ", "\n", "a".repeat(100_000), "a".repeat(100_001)];
        await store.apply(keys.map((key, i) => step(i + 1, key)));
        expect(await store.apply(keys.map((key) => step(0, key)))).toEqual(keys.map((_, i) => i + 1));
      }));

    test("shares its counters with its siblings", () =>
      withStore(async ({ store, sibling }, step) => {
        await store.apply([step(3)]);
        expect(await sibling.apply([step(1)])).toEqual([4]);
        expect(await store.apply([step(0)])).toEqual([4]);
      }));

    test("loses no count among calls in progress together", () =>
      withStore(async ({ store, sibling }, step) => {
        const calls = Array.from({ length: 400 }, (_, i) =>
          Promise.resolve((i % 2 === 0 ? store : sibling).apply([step(1), step(2, "b")])),
        );
        const values = await Promise.all(calls);
        expect(new Set(values.map(([a]) => a)).size).toBe(400);
        expect(await store.apply([step(0), step(0, "b")])).toEqual([400, 800]);
      }));

    test("handles a call of ten thousand steps", () =>
      withStore(async ({ store }, step) => {
        const steps = Array.from({ length: 10_000 }, (_, i) => step(1, String(i % 5_000)));
        const values = await store.apply(steps);
        expect(values.slice(0, 5_000)).toEqual(Array(5_000).fill(1));
        expect(values.slice(5_000)).toEqual(Array(5_000).fill(2));
      }));

    test("counts like a plain table, whatever the steps", () =>
      withStore(async ({ store }, step) => {
        const small = fc.integer({ min: -5, max: 9 });
        const huge = fc.oneof(
          fc.integer({ min: -maxCount, max: maxCount }),
          fc.constantFrom(maxCount, -maxCount, 2 ** 32, 2 ** 32 - 1, 2 ** 31),
        );
        const someStep = fc.tuple(fc.constantFrom("p", "q", "r"), fc.oneof({ arbitrary: small, weight: 3 }, huge));
        let round = 0;
        await fc.assert(
          fc.asyncProperty(
            fc.array(fc.array(someStep, { maxLength: 6 }), { maxLength: 8 }),
            fc.boolean(),
            async (calls, areTogether) => {
              const plain = new Map<string, number>();
              const stem = `round${round++}`;
              const expected = calls.map((call) =>
                call.map(([key, hits]) => {
                  const value = Math.min(maxCount, Math.max(0, (plain.get(key) ?? 0) + hits));
                  if (hits > 0 || plain.has(key)) plain.set(key, value);
                  return value;
                }),
              );
              const apply = async (call: (typeof calls)[number]) =>
                store.apply(call.map(([key, hits]) => step(hits, stem + key)));
              const values: (readonly number[])[] = [];
              if (areTogether) values.push(...(await Promise.all(calls.map(apply))));
              else for (const call of calls) values.push(await apply(call));
              expect(values).toEqual(expected);
            },
          ),
          { numRuns: 100 },
        );
      }));

    test("sets and deletes counters, and counts on from there", () =>
      withStore(async ({ store, sibling }, step) => {
        const change = (key: string, count?: number): CounterChange => ({
          kind: "plain",
          ...step(0, key),
          ...{ keepSeconds: 3_600, subWindow: 0 },
          ...(count !== undefined && { count }),
        });
        await store.apply([step(3), step(4, "b")]);
        expect(await sibling.change([change("a"), change("never"), change("b", 40)])).toBe(2);
        expect(await store.apply([step(1), step(2, "b")])).toEqual([1, 42]);
        expect(await store.change([change("new", 7)])).toBe(1);
        expect(await sibling.apply([step(0, "new"), step(-2, "new")])).toEqual([7, 5]);
        expect(await store.change([])).toBe(0);
      }));

    test("says that it is well", () =>
      withStore(async ({ store }, step) => {
        await store.apply([step(1)]);
        expect(store.isHealthy()).toBe(true);
      }));
  });
}

type StepMaker = (hits: number, key?: string, windowSeconds?: number) => CounterStep;
