/** Measures how long work that is done in steps blocks its thread. */
import { type PerformanceEntry, PerformanceObserver } from "node:perf_hooks";
import { setImmediate as nextTurn } from "node:timers/promises";
import { slowness } from "./relative-cost.ts";

/** What the times of a thread are measured with. */
export interface Meter {
  /** The CPU time of this thread, in milliseconds. */
  readonly cpuMs: () => number;
  /** As `slowness`. */
  readonly slowness: () => number;
}

/** The meter of this thread. */
export const threadMeter: Meter = {
  cpuMs() {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1_000;
  },
  slowness,
};

/** A step of work, in milliseconds. */
interface Step {
  readonly startMs: number;
  readonly endMs: number;
  readonly cpuMs: number;
  /** As `slowness`, just after the step. */
  readonly slownessAfter: number;
}

/**
 * The durations of steps of work in this thread, in milliseconds of the CPU of an idle core of 2026 (`slowness`).
 * Garbage collections do not count: any allocation may start one, and its length follows from the whole heap.
 */
export class StepTimes {
  #collections: PerformanceEntry[] = [];
  readonly #observer = new PerformanceObserver((list) => this.#collections.push(...list.getEntries()));
  readonly #minMs: number;
  readonly #meter: Meter;
  #longSteps: Step[] = [];

  /** @param minMs shorter steps are not kept; the speed is measured after each of the others, which takes 20 ms */
  constructor(minMs: number, meter = threadMeter) {
    this.#minMs = minMs;
    this.#meter = meter;
    // The first call compiles its loop, which would block a step.
    meter.slowness();
    this.#observer.observe({ entryTypes: ["gc"] });
  }

  /** Begins a step; the returned function ends it. */
  begin(): () => void {
    const meter = this.#meter;
    const [before, startMs] = [meter.cpuMs(), performance.now()];
    return () => {
      const cpuMs = meter.cpuMs() - before;
      const endMs = performance.now();
      if (cpuMs >= this.#minMs) this.#longSteps.push({ startMs, endMs, cpuMs, slownessAfter: meter.slowness() });
    };
  }

  /** The longest of the steps that have ended since the last call; 0 if none took `minMs`. */
  async takeLongestMs(): Promise<number> {
    // Collections are reported in the next turn.
    if (this.#longSteps.length > 0) await nextTurn();
    const collections = [...this.#collections, ...this.#observer.takeRecords()];
    const steps = this.#longSteps;
    const takenMs = steps.at(-1)?.endMs ?? performance.now();
    [this.#collections, this.#longSteps] = [collections.filter(({ startTime }) => startTime > takenMs), []];
    const durations = steps.map(({ startMs, endMs, cpuMs, slownessAfter }) => {
      const within = collections.filter(({ startTime }) => startTime >= startMs && startTime <= endMs);
      return (cpuMs - within.reduce((sum, { duration }) => sum + duration, 0)) / slownessAfter;
    });
    return Math.max(0, ...durations);
  }

  /** As `takeLongestMs`. Ends the measurement. */
  async longestMs(): Promise<number> {
    const longestMs = await this.takeLongestMs();
    this.#observer.disconnect();
    return longestMs;
  }
}

/** A compilation makes a turn of one run long; it does not occur at the same step every time. */
const maxRuns = 6;

/**
 * The longest turn of the event loop during `work`, in milliseconds as in `StepTimes`: the minimum of several runs.
 * Ends early at a value below `enough`; turns below a quarter of it count as 0.
 */
export async function longestTurnMs(
  work: () => Promise<unknown>,
  enough: number,
  meter = threadMeter,
): Promise<number> {
  let leastMs = Number.POSITIVE_INFINITY;
  for (let run = 0; run < maxRuns && leastMs >= enough; run++) {
    leastMs = Math.min(leastMs, await longestTurnOf(work, enough / 4, meter));
  }
  return leastMs;
}

async function longestTurnOf(work: () => Promise<unknown>, minMs: number, meter: Meter): Promise<number> {
  const times = new StepTimes(minMs, meter);
  let endTurn = times.begin();
  let isDone = false;
  const turn = (): void => {
    endTurn();
    endTurn = times.begin();
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  await work();
  isDone = true;
  endTurn();
  return await times.longestMs();
}
