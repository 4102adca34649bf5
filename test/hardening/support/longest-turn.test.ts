import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { longestTurnMs, StepTimes } from "./longest-turn.ts";
import { slowness } from "./relative-cost.ts";

const busyMs = 60;

/** Computes for more than `busyMs` of `StepTimes`, and hardly allocates. */
function compute(): number {
  const enoughMs = 2 * busyMs * slowness();
  const before = process.threadCpuUsage();
  for (let sum = 1; ; ) {
    for (let at = 0; at < 1_000_000; at++) sum = Math.imul(sum, at | 1);
    const { user, system } = process.threadCpuUsage(before);
    if ((user + system) / 1_000 > enoughMs) return sum;
  }
}

test("a step has the time that it computes", async () => {
  const times = new StepTimes(10);
  const endStep = times.begin();
  compute();
  endStep();
  times.begin()();
  expect(await times.longestMs()).toBeGreaterThanOrEqual(busyMs);
});

test("the longest of several turns counts", async () => {
  const work = async (): Promise<void> => {
    await new Promise(setImmediate);
    compute();
    await new Promise(setImmediate);
  };
  expect(await longestTurnMs(work, busyMs)).toBeGreaterThanOrEqual(busyMs);
});

test("garbage collections do not count", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const live = Array.from({ length: 300_000 }, (_, at) => ({ at }));
  const times = new StepTimes(10);
  const before = process.threadCpuUsage();
  const endStep = times.begin();
  for (let time = 0; time < 10; time++) collect();
  endStep();
  const { user, system } = process.threadCpuUsage(before);
  expect(live).toHaveLength(300_000);
  expect(await times.longestMs()).toBeLessThan((user + system) / 2_000);
});
