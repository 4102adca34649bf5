import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { longestTurnMs, type Meter, StepTimes, threadMeter } from "./longest-turn.ts";

/** A thread of which the test sets how long it has computed, and how slow it is. */
function testMeter() {
  const state = { cpuMs: 0, slowness: 1 };
  const meter: Meter = { cpuMs: () => state.cpuMs, slowness: () => state.slowness };
  return { state, meter };
}

test("a step has the time that it computes, in that of an idle core", async () => {
  const { state, meter } = testMeter();
  const times = new StepTimes(10, meter);
  for (const [cpuMs, slowness] of [
    [60, 2],
    [40, 1],
    [90, 3],
  ] as const) {
    const endStep = times.begin();
    state.cpuMs += cpuMs;
    state.slowness = slowness;
    endStep();
  }
  expect(await times.takeLongestMs()).toBe(40);
  times.begin()();
  expect(await times.longestMs()).toBe(0);
});

test("the longest of several turns counts", async () => {
  const { state, meter } = testMeter();
  const work = async (): Promise<void> => {
    for (const cpuMs of [20, 60, 30]) {
      await new Promise(setImmediate);
      state.cpuMs += cpuMs;
    }
    await new Promise(setImmediate);
  };
  expect(await longestTurnMs(work, 40, meter)).toBe(60);
});

test("garbage collections do not count", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const live = Array.from({ length: 300_000 }, (_, at) => ({ at }));
  const times = new StepTimes(10, { ...threadMeter, slowness: () => 1 });
  const before = threadMeter.cpuMs();
  const endStep = times.begin();
  for (let time = 0; time < 10; time++) collect();
  endStep();
  const cpuMs = threadMeter.cpuMs() - before;
  expect(live).toHaveLength(300_000);
  expect(await times.longestMs()).toBeLessThan(cpuMs / 2);
});
