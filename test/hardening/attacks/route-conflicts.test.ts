/**
 * Routes of one tenant that conflict with each other at all listeners of a Gateway: they use hardly more of the
 * controller's memory than routes without conflicts, and the conflicts of another tenant are still found.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import { hardeningSeconds } from "../support/fuzz.ts";
import type { Planned, World } from "../support/plan-conflicts.ts";

/** Routes with 128 matches each, which is 4.7 MB of JSON. Headers make them larger. */
const routeCounts = { distinct: 450, same: 450, apart: 450, halves: 450, over: 100 } as const;

/**
 * The heap of the worker for `distinct`, and 64 MiB. Losing matches that are stored for each listener would take 300
 * MiB more.
 */
const heapMib = 128;

const maxStepMs = 50;

async function plan(world: World): Promise<Planned> {
  const worker = new Worker(new URL("../support/plan-conflicts.ts", import.meta.url), {
    workerData: { world, count: routeCounts[world] },
    resourceLimits: { maxOldGenerationSizeMb: heapMib },
  });
  // Rejects with ERR_WORKER_OUT_OF_MEMORY if the heap is too small.
  const [planned] = (await once(worker, "message")) as [Planned];
  await worker.terminate();
  return planned;
}

/** Each takes a second or two. */
const isLong = hardeningSeconds !== undefined;
const worlds = [
  ["same", 0],
  ["apart", 1],
  ["over", 0],
  ["halves", 1],
  ["distinct", 0],
] as const;

test.each(isLong ? worlds : worlds.slice(0, 2))(
  "routes at 64 listeners (%s) fit the heap, and the conflict of another tenant is reported",
  async (world, leastUnexamined) => {
    const { otherTenant, unexamined, longestStepMs } = await plan(world);
    expect(otherTenant).toEqual(["Accepted=True", "ResolvedRefs=True", "Shadowed=True"]);
    expect(Math.min(unexamined, 1)).toBe(leastUnexamined);
    if (isLong) {
      console.log(`${unexamined} unexamined, longest step ${Math.round(longestStepMs)} ms`);
      expect(longestStepMs).toBeLessThan(maxStepMs);
    }
  },
  300_000,
);
