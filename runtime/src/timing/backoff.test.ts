import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Backoff } from "./backoff.ts";

const waits = (backoff: Backoff, count: number): number[] => Array.from({ length: count }, () => backoff.next());

describe("Backoff", () => {
  test("doubles from 200 ms to 10 s by default, with a random second half", () => {
    expect(waits(new Backoff({ random: () => 0 }), 8)).toEqual([100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
    const [first = 0] = waits(new Backoff({ random: () => 0.999 }), 1);
    expect(first).toBeCloseTo(200, 0);
  });

  test("starts again after a reset", () => {
    const backoff = new Backoff({ firstMs: 10, maxMs: 40, jitter: 0, random: () => 0.5 });
    expect(waits(backoff, 4)).toEqual([10, 20, 40, 40]);
    expect(backoff.failures).toBe(4);
    backoff.reset();
    expect([backoff.failures, ...waits(backoff, 2)]).toEqual([0, 10, 20]);
  });

  test("waits between the fixed share and the bound, after any number of failures", () => {
    const options = fc.record({
      firstMs: fc.integer({ min: 0, max: 10_000 }),
      maxMs: fc.integer({ min: 0, max: 100_000 }),
      jitter: fc.constantFrom(0, 0.25, 0.5, 1),
    });
    const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(options, random, fc.integer({ min: 0, max: 2_000 }), (settings, drawn, failures) => {
        const backoff = new Backoff({ ...settings, random: () => drawn });
        waits(backoff, failures);
        const boundMs = Math.min(settings.maxMs, settings.firstMs * 2 ** Math.min(failures, 64));
        const waitMs = backoff.next();
        expect(waitMs).toBeLessThanOrEqual(boundMs);
        expect(waitMs).toBeGreaterThanOrEqual(boundMs * (1 - settings.jitter));
      }),
      { numRuns: 100 },
    );
  });
});
