/**
 * The contract of the stores that count groups (`CounterStore.applyGroups`), as tests beside those of `contract.ts`.
 * The time of a step is its sub-window, so no test waits.
 */
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type CounterChange,
  type GroupCount,
  type GroupCounter,
  type GroupStep,
  maxCount,
} from "../../model/counter-store.ts";
import { subWindowAt } from "@gatewayproxy/runtime/sliding-window";
import type { StoreFixture } from "./contract.ts";

const run = randomUUID();
let serial = 0;

/** Limits of one test: `aligned` and `sliding` return counters below one hash tag. */
interface Makers {
  readonly aligned: (limit: number, name?: string) => GroupCounter;
  /** `subWindow` is relative to the time of the test. */
  readonly sliding: (limit: number, subWindow?: number, name?: string) => GroupCounter;
}

const windowSeconds = 3_600;

function step(hits: number, counters: readonly GroupCounter[], countsDenied = false): GroupStep {
  return { counters, hits, countsDenied };
}

function befores(counts: readonly (readonly GroupCount[])[]): readonly (readonly number[])[] {
  return counts.map((group) => group.map(({ before }) => before));
}

/** A sliding window as a plain list of hits, counted by its definition. */
class PlainWindow {
  #hits: readonly { readonly at: number; readonly count: number }[] = [];

  /** The newest sub-window, and the hits in the window. */
  read(now: number): { readonly newest: number; readonly before: number } {
    const newest = Math.max(now, ...this.#hits.map(({ at }) => at));
    if (newest > now + 60) {
      this.#hits = [{ at: now, count: this.#sumFrom(newest - 60) }];
      return this.read(now);
    }
    return { newest, before: this.#sumFrom(newest - 60) };
  }

  add(now: number, hits: number): void {
    const { newest } = this.read(now);
    let left = -hits;
    this.#hits = this.#hits
      .toSorted((a, b) => a.at - b.at)
      .map(({ at, count }) => {
        const taken = at < newest - 60 ? 0 : Math.max(0, Math.min(left, count));
        left -= taken;
        return { at, count: count - taken };
      });
    if (hits > 0) this.#hits = [...this.#hits, { at: newest, count: hits }];
  }

  #sumFrom(oldest: number): number {
    return this.#hits.reduce((sum, { at, count }) => (at < oldest ? sum : sum + count), 0);
  }
}

/** Runs the contract against a store with groups. */
export function describeCounterGroups(name: string, open: () => Promise<StoreFixture>): void {
  describe(`groups of counters in ${name}`, () => {
    async function withStore(use: (fixture: StoreFixture, make: Makers) => Promise<void>): Promise<void> {
      const fixture = await open();
      const stem = `{groups_${process.pid}_${run}_${serial++}_}`;
      const now = subWindowAt(fixture.nowSeconds * 1_000, windowSeconds * 1_000);
      const windowEndSeconds = fixture.nowSeconds + windowSeconds;
      try {
        await use(fixture, {
          aligned: (limit, key = "a") => ({
            kind: "aligned",
            key: `${stem}${key}`,
            ...{ limit, windowEndSeconds, keepSeconds: windowSeconds },
          }),
          sliding: (limit, at = 0, key = "s") => ({
            kind: "sliding",
            key: `${stem}${key}`,
            ...{ limit, windowSeconds, subWindow: now + at },
          }),
        });
      } finally {
        await fixture.close();
      }
    }

    /** Applies one step and returns the counts before it. */
    async function apply({ store }: StoreFixture, groupStep: GroupStep): Promise<readonly number[]> {
      const [counts = []] = befores((await store.applyGroups?.([groupStep])) ?? []);
      return counts;
    }

    test("all counters count a call, or none does", () =>
      withStore(async (fixture, { aligned, sliding }) => {
        const counters = [aligned(10), sliding(3), aligned(5, "b")];
        expect(await apply(fixture, step(2, counters))).toEqual([0, 0, 0]);
        expect(await apply(fixture, step(2, counters))).toEqual([2, 2, 2]);
        expect(await apply(fixture, step(1, counters))).toEqual([2, 2, 2]);
        expect(await apply(fixture, step(1, counters))).toEqual([3, 3, 3]);
        expect(await apply(fixture, step(0, counters))).toEqual([3, 3, 3]);
      }));

    test("a group that counts denied hits counts them all", () =>
      withStore(async (fixture, { aligned, sliding }) => {
        const counters = [aligned(10), sliding(3)];
        await apply(fixture, step(50, counters, true));
        expect(await apply(fixture, step(0, counters, true))).toEqual([50, 50]);
      }));

    test("a check creates nothing, and a refund creates nothing", () =>
      withStore(async (fixture, { aligned, sliding }) => {
        const counters = [aligned(10), sliding(3)];
        await apply(fixture, step(0, counters));
        await apply(fixture, step(-5, counters));
        expect(await apply(fixture, step(1, counters))).toEqual([0, 0]);
        expect(await apply(fixture, step(0, counters))).toEqual([1, 1]);
      }));

    test("a refund is taken from each counter, down to 0, whatever the limits", () =>
      withStore(async (fixture, { aligned, sliding }) => {
        await apply(fixture, step(8, [aligned(10), sliding(10)]));
        await apply(fixture, step(-5, [aligned(1), sliding(1)]));
        expect(await apply(fixture, step(-9, [aligned(1), sliding(1)]))).toEqual([3, 3]);
        expect(await apply(fixture, step(0, [aligned(1), sliding(1)]))).toEqual([0, 0]);
      }));

    test("hits leave a sliding window after 61 of its 60 parts", () =>
      withStore(async (fixture, { sliding }) => {
        await apply(fixture, step(2, [sliding(10)]));
        await apply(fixture, step(3, [sliding(10, 20)]));
        expect(await apply(fixture, step(0, [sliding(10, 60)]))).toEqual([5]);
        expect(await apply(fixture, step(0, [sliding(10, 61)]))).toEqual([3]);
        expect(await apply(fixture, step(1, [sliding(10, 80)]))).toEqual([3]);
        expect(await apply(fixture, step(0, [sliding(10, 81)]))).toEqual([1]);
        expect(await apply(fixture, step(0, [sliding(10, 10_000)]))).toEqual([0]);
      }));

    test("a refund takes the oldest hits of a sliding window", () =>
      withStore(async (fixture, { sliding }) => {
        await apply(fixture, step(2, [sliding(10)]));
        await apply(fixture, step(3, [sliding(10, 20)]));
        await apply(fixture, step(-3, [sliding(10, 30)]));
        expect(await apply(fixture, step(0, [sliding(10, 60)]))).toEqual([2]);
        expect(await apply(fixture, step(0, [sliding(10, 80)]))).toEqual([2]);
        expect(await apply(fixture, step(0, [sliding(10, 81)]))).toEqual([0]);
      }));

    test("names the hits that must leave before a call is within the limit", () =>
      withStore(async ({ store, nowSeconds }, { sliding }) => {
        const now = subWindowAt(nowSeconds * 1_000, windowSeconds * 1_000);
        const freesWith = async (hits: number, limit: number) =>
          ((await store.applyGroups?.([step(hits, [sliding(limit, 50)])])) ?? [])[0]?.[0]?.freesWith;
        expect(await freesWith(0, 5)).toBeUndefined();
        await store.applyGroups?.([step(2, [sliding(5)])]);
        await store.applyGroups?.([step(3, [sliding(5, 20)])]);
        expect(await freesWith(1, 5)).toBe(now);
        expect(await freesWith(2, 5)).toBe(now);
        expect(await freesWith(3, 5)).toBe(now + 20);
        expect(await freesWith(99, 5)).toBe(now + 20);
        expect(await freesWith(0, 50)).toBe(now);
      }));

    test("a clock that is set back frees nothing, and keeps nothing for ever", () =>
      withStore(async (fixture, { sliding }) => {
        await apply(fixture, step(2, [sliding(10)]));
        expect(await apply(fixture, step(1, [sliding(10, -40)]))).toEqual([2]);
        expect(await apply(fixture, step(0, [sliding(10, 60)]))).toEqual([3]);
        expect(await apply(fixture, step(1, [sliding(10, -500)]))).toEqual([3]);
        expect(await apply(fixture, step(0, [sliding(10, -440)]))).toEqual([4]);
        expect(await apply(fixture, step(0, [sliding(10, -439)]))).toEqual([0]);
      }));

    test("replicas and calls in progress together never exceed a limit", () =>
      withStore(async ({ store, sibling }, { aligned, sliding }) => {
        const counters = [aligned(100), sliding(70)];
        const calls = Array.from({ length: 200 }, async (_, i) => {
          const [counts = []] = (await (i % 2 === 0 ? store : sibling).applyGroups?.([step(1, counters)])) ?? [];
          return (counts[1]?.before ?? 0) < 70;
        });
        expect((await Promise.all(calls)).filter(Boolean)).toHaveLength(70);
        expect(befores((await store.applyGroups?.([step(0, counters)])) ?? [])).toEqual([[70, 70]]);
      }));

    test("takes the groups of one call in order, also beside plain counters", () =>
      withStore(async ({ store, nowSeconds }, { aligned, sliding }) => {
        const plain = { key: `${run}_plain_${serial++}`, hits: 1, windowSeconds, windowEndSeconds: nowSeconds + 60 };
        const both = await Promise.all([
          store.apply([plain]),
          store.applyGroups?.([step(1, [aligned(9)]), step(2, [aligned(9), sliding(9)]), step(0, [sliding(9)])]),
        ]);
        expect(both[0]).toEqual([1]);
        expect(befores(both[1] ?? [])).toEqual([[0], [1, 0], [2]]);
        expect(await store.applyGroups?.([])).toEqual([]);
      }));

    test("counts up to its ceiling and stays there", () =>
      withStore(async (fixture, { aligned, sliding }) => {
        const counters = [aligned(9), sliding(9)];
        await apply(fixture, step(maxCount, counters, true));
        await apply(fixture, step(maxCount, counters, true));
        expect(await apply(fixture, step(0, counters))).toEqual([maxCount, maxCount]);
      }));

    test("sets and deletes counters", () =>
      withStore(async (fixture, { aligned, sliding }) => {
        const changeOf = (counter: GroupCounter, count?: number): CounterChange => ({
          kind: counter.kind,
          key: counter.key,
          windowSeconds,
          windowEndSeconds: fixture.nowSeconds + windowSeconds,
          keepSeconds: windowSeconds,
          subWindow: counter.kind === "sliding" ? counter.subWindow : 0,
          ...(count === undefined ? {} : { count }),
        });
        const { store } = fixture;
        expect(await store.change([changeOf(aligned(9)), changeOf(sliding(9))])).toBe(0);
        expect(await store.change([changeOf(aligned(9), 7), changeOf(sliding(9), 8)])).toBe(2);
        expect(await apply(fixture, step(1, [aligned(9), sliding(9)]))).toEqual([7, 8]);
        expect(await store.change([changeOf(sliding(9, 10), 3)])).toBe(1);
        expect(await apply(fixture, step(0, [aligned(9), sliding(9, 70)]))).toEqual([8, 3]);
        expect(await store.change([changeOf(aligned(9)), changeOf(sliding(9))])).toBe(2);
        expect(await apply(fixture, step(0, [aligned(9), sliding(9)]))).toEqual([0, 0]);
      }));

    test("counts like plain lists of hits, whatever the steps and the clock", () =>
      withStore(async ({ store, sibling }, { aligned, sliding }) => {
        const move = fc.record({
          by: fc.oneof({ arbitrary: fc.integer({ min: 0, max: 30 }), weight: 8 }, fc.integer({ min: -150, max: 150 })),
          hits: fc.oneof({ arbitrary: fc.integer({ min: 0, max: 6 }), weight: 3 }, fc.integer({ min: -8, max: -1 })),
          limits: fc.tuple(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: 20 })),
          always: fc.boolean(),
          isSibling: fc.boolean(),
        });
        let round = 0;
        await fc.assert(
          fc.asyncProperty(fc.array(move, { maxLength: 25 }), async (moves) => {
            const key = String(round++);
            const window = new PlainWindow();
            let [count, at] = [0, 0];
            for (const { by, hits, limits, always, isSibling } of moves) {
              at += by;
              const counters = [aligned(limits[0], `a${key}`), sliding(limits[1], at, `s${key}`)];
              const expected = [count, window.read(at).before] as const;
              const found = await (isSibling ? sibling : store).applyGroups?.([step(hits, counters, always)]);
              expect(befores(found ?? [])).toEqual([expected]);
              const passes = expected[0] + hits <= limits[0] && expected[1] + hits <= limits[1];
              if (hits > 0 && !passes && !always) continue;
              count = Math.max(0, count + hits);
              window.add(at, hits);
            }
          }),
          { numRuns: 60 },
        );
      }));
  });
}
