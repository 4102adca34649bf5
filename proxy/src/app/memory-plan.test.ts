import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bytesPerWorker, mainBytes, memoryPlan } from "./memory-plan.ts";

const mib = 1024 * 1024;

describe("workers and body memory", () => {
  test.each([
    // The limit of a proxy that the controller makes.
    [64, 1_024 * mib, 3, 256],
    [2, 1_024 * mib, 2, 256],
    [64, 512 * mib, 1, 128],
    [64, 384 * mib, 1, 64],
    [64, 2_048 * mib, 8, 256],
    [64, mib, 1, 32],
    [64, 0, 64, 256],
    [64, 2 ** 64, 64, 256],
  ])("of %d CPUs with %d bytes are %d, and %d MiB", (cpus, limit, workers, bodies) => {
    expect(memoryPlan(cpus, limit)).toEqual({ workers, bodyBytes: bodies * mib });
  });

  test("fit into every limit that is enough for one worker", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 256 }), fc.integer({ min: 352, max: 65_536 }), (cpus, limit) => {
        const { workers, bodyBytes } = memoryPlan(cpus, limit * mib);
        expect(mainBytes + workers * bytesPerWorker + bodyBytes).toBeLessThanOrEqual(limit * mib);
        expect(workers).toBeGreaterThanOrEqual(1);
        expect(bodyBytes % mib).toBe(0);
      }),
    );
  });
});
