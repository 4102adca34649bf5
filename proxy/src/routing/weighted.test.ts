import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compileWeighted, type Picker, Rotations } from "./weighted.ts";

interface Ref {
  readonly name: string;
  readonly weight: number;
}

function refs(...weights: readonly number[]): Ref[] {
  return weights.map((weight, place) => ({ name: String(place), weight }));
}

function count(pick: Picker<Ref>, times: number): Record<string, number> {
  const counts: Record<string, number> = {};
  for (let n = 0; n < times; n++) {
    const name = pick()?.name ?? "none";
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

describe("compileWeighted", () => {
  test("splits any 1,000 requests exactly by weights that add up to 1,000", () => {
    const pick = compileWeighted(refs(900, 90, 10));
    count(pick, 137);
    expect(count(pick, 1_000)).toEqual({ 0: 900, 1: 90, 2: 10 });
  });

  test("spreads the smaller share evenly instead of in runs", () => {
    const pick = compileWeighted(refs(90, 10));
    for (let ten = 0; ten < 100; ten++) expect(count(pick, 10)).toEqual({ 0: 9, 1: 1 });
  });

  test("never picks a ref of weight 0", () => {
    expect(count(compileWeighted(refs(0, 1, 0, 2)), 300)).toEqual({ 1: 100, 3: 200 });
  });

  test.each([
    ["there is no ref", refs()],
    ["every weight is 0", refs(0, 0)],
  ])("picks none when %s", (_, all) => {
    expect(compileWeighted(all)()).toBeUndefined();
  });

  test("always picks the only ref with a weight", () => {
    expect(count(compileWeighted(refs(0, 7)), 50)).toEqual({ 1: 50 });
  });

  test("gives each ref its exact share of every whole cycle, from any start", () => {
    const weights = fc.array(fc.integer({ min: 0, max: 50 }), { minLength: 2, maxLength: 6 });
    fc.assert(
      fc.property(weights, fc.integer({ min: 1, max: 400 }), (all, times) => {
        const total = all.reduce((sum, weight) => sum + weight, 0);
        fc.pre(total > 0);
        const counts = count(compileWeighted(refs(...all)), times);
        const cycles = Math.floor(times / total);
        for (const [place, weight] of all.entries()) {
          expect(counts[String(place)] ?? 0).toBeGreaterThanOrEqual(cycles * weight);
          expect(counts[String(place)] ?? 0).toBeLessThanOrEqual((cycles + 1) * weight);
        }
      }),
    );
  });
});

describe("Rotations", () => {
  test("continue from the previous snapshot", () => {
    const rotations = new Rotations();
    const names = Array.from({ length: 10 }, () => {
      rotations.beginSnapshot();
      return compileWeighted(refs(9, 1), rotations.of("default/r/0", [9, 1]))()?.name;
    });
    expect(names.filter((name) => name === "1")).toHaveLength(1);
  });

  test("start again for other weights, and for another owner", () => {
    const rotations = new Rotations();
    const first = rotations.of("default/r/0", [1, 1]);
    compileWeighted(refs(1, 1), first)();
    expect(rotations.of("default/r/0", [1, 1])).toBe(first);
    expect(rotations.of("default/r/0", [1, 2])).toEqual([0, 0]);
    expect(rotations.of("default/r/1", [1, 1])).toEqual([0, 0]);
  });

  test("are dropped when a whole snapshot has not used them", () => {
    const rotations = new Rotations();
    const first = rotations.of("default/r/0", [1, 1]);
    rotations.beginSnapshot();
    rotations.beginSnapshot();
    expect(rotations.of("default/r/0", [1, 1])).not.toBe(first);
  });
});
