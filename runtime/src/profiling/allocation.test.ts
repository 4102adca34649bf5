import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";

/**
 * Allocates long-lived objects at one site, in several rounds, and prints in which generation the next object lies. It
 * runs in a worker thread, as the code that serves requests does.
 */
const lastingObjects = `
  const inYoungGeneration = new Function("object", "return %InYoungGeneration(object)");
  const make = (i) => [i, i + 1, i + 2, i + 3];
  let kept = [];
  for (let round = 0; round < 120; round++) {
    for (let i = 0; i < 50_000; i++) kept.push(make(i));
    if (round % 20 === 19) kept = [];
  }
  console.log(inYoungGeneration(make(1)) ? "young" : "old");`;

const startThread = `
  const { Worker } = await import("node:worker_threads");
  new Worker(${JSON.stringify(lastingObjects)}, { eval: true });`;

test("long-lived objects do not move later allocations to the old generation", () => {
  const script = `
    const { disablePretenuring } = await import("./allocation.ts");
    disablePretenuring();
    ${startThread}`;
  const args = ["--allow-natives-syntax", "--input-type", "module", "--eval", script];
  expect(execFileSync(process.execPath, args, { cwd: import.meta.dirname, encoding: "utf8" })).toBe("young\n");
});

/** Allocates 1 GiB of buffers, none of which stays in use, and prints how many full collections that took. */
const passingBuffers = `
  const { PerformanceObserver, constants } = await import("node:perf_hooks");
  const { setTimeout: wait } = await import("node:timers/promises");
  let full = 0;
  new PerformanceObserver((list) => {
    for (const { detail } of list.getEntries()) if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) full++;
  }).observe({ entryTypes: ["gc"] });
  for (let i = 0; i < 16_384; i++) {
    new ArrayBuffer(65_536);
    // Another thread frees the buffers meanwhile.
    if (i % 64 === 0) await wait(2);
  }
  await wait(2);
  console.log(full);`;

function fullCollections(setup: string): number {
  const args = ["--input-type", "module", "--eval", `${setup}; ${passingBuffers}`];
  return Number(execFileSync(process.execPath, args, { cwd: import.meta.dirname, encoding: "utf8" }));
}

test("buffers that are garbage at once do not cause full collections", () => {
  const before = fullCollections("");
  const setting = `(await import("./allocation.ts")).countBuffersInHeapLimit()`;
  // On a busy machine, the other thread may free them too late, which causes collections: the best run counts.
  const after = Math.min(...Array.from({ length: 3 }, () => fullCollections(setting)));
  expect(after, `${before} without the setting`).toBeLessThan(before);
});

/**
 * Keeps objects of some size, replaces each of them several times, and prints how many times the heap becomes as large
 * as it is at first.
 */
const replacedObjects = (mebibytes: number): string => `
  const { getHeapStatistics } = await import("node:v8");
  const { setImmediate: nextTurn } = await import("node:timers/promises");
  const make = () => Array.from({ length: 1_000 }, (_, i) => ({ i }));
  const kept = Array.from({ length: ${mebibytes} * 32 }, make);
  SETUP;
  globalThis.gc();
  const first = getHeapStatistics().used_heap_size;
  let most = 0;
  for (let round = 0; round < 5 * kept.length; round++) {
    kept[round % kept.length] = make();
    if (round % 32 !== 0) continue;
    most = Math.max(most, getHeapStatistics().used_heap_size);
    await nextTurn();
  }
  console.log(most / first);`;

/** @param setup runs when the heap has its size */
function growthOf(mebibytes: number, setup: string): number {
  const script = replacedObjects(mebibytes).replace("SETUP", setup);
  const args = ["--expose-gc", "--max-semi-space-size=4", "--input-type", "module", "--eval", script];
  return Number(execFileSync(process.execPath, args, { cwd: import.meta.dirname, encoding: "utf8" }));
}

test("a large heap is collected when it has grown by half, and a small one later", () => {
  const setting = `(await import("./allocation.ts")).boundHeapGrowth()`;
  expect(growthOf(110, setting)).toBeLessThan(2.2);
  expect(growthOf(16, setting)).toBeGreaterThan(2.5);
});
