import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bytesPerWorker, mainBytes, memoryPlan, plannedCpus, workerHeapMib } from "./memory-plan.ts";

const mib = 1024 * 1024;

describe("workers and body memory", () => {
  test.each([
    // The limit of a proxy that the controller makes.
    [64, 1_024 * mib, 3, 256, 351],
    [2, 1_024 * mib, 2, 256, 384],
    [64, 512 * mib, 1, 128, 160],
    [64, 384 * mib, 1, 64, 96],
    [64, 2_048 * mib, 8, 256, 896],
    [64, mib, 1, 32, 96],
    [64, 0, 64, 256, 64 * 192],
    [64, 2 ** 64, 64, 256, 64 * 192],
  ])("of %d CPUs with %d bytes are %d, %d MiB, and %d MiB for clients", (cpus, limit, workers, bodies, clients) => {
    expect(memoryPlan(cpus, limit)).toEqual({ workers, bodyBytes: bodies * mib, clientBytes: clients * mib });
  });

  test("fit into every limit that is enough for one worker", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 256 }), fc.integer({ min: 352, max: 65_536 }), (cpus, limit) => {
        const { workers, bodyBytes, clientBytes } = memoryPlan(cpus, limit * mib);
        const clientsBeyond = Math.max(0, clientBytes - workers * 96 * mib);
        expect(mainBytes + workers * bytesPerWorker + clientsBeyond + bodyBytes).toBeLessThanOrEqual(limit * mib);
        expect(workers).toBeGreaterThanOrEqual(1);
        expect(bodyBytes % mib).toBe(0);
      }),
    );
  });
});

test.each([
  // The limit of a proxy that the controller makes.
  [3, 1_024 * mib, 256, 213],
  [1, 384 * mib, 64, 192],
  [8, 512 * mib, 128, 128],
  [2, 0, 256, undefined],
  [2, 2 ** 63, 256, undefined],
])(
  "the heap of each of %d workers with %d bytes, %d MiB of them for bodies, has %s MiB",
  (workers, limit, bodies, heap) => {
    expect(workerHeapMib(workers, limit, bodies * mib)).toBe(heap);
  },
);

test.each([
  [32, 0, true, 2],
  [32, 2 ** 60, true, 2],
  [1, 0, true, 1],
  [32, 1024 ** 3, true, 32],
  [32, 0, false, 32],
])(
  "of %i CPUs under a limit of %d bytes, in a pod: %s, workers are planned for %i",
  (cpus, limit, isInPod, planned) => {
    expect(plannedCpus(cpus, limit, isInPod)).toBe(planned);
  },
);
