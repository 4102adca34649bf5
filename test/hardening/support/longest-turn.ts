/** Measures how long work that is done in steps blocks its thread. */
import { type PerformanceEntry, PerformanceObserver } from "node:perf_hooks";
import { setImmediate as nextTurn } from "node:timers/promises";

/** A step of work, in milliseconds. */
interface Step {
  readonly startMs: number;
  readonly endMs: number;
  readonly cpuMs: number;
}

/** Shorter steps are not kept. */
const longStepMs = 5;

/**
 * The durations of steps of work in this thread, in milliseconds of the processor. Garbage collections do not count: any
 * allocation may start one, and its length follows from the whole heap.
 */
export class StepTimes {
  readonly #collections: PerformanceEntry[] = [];
  readonly #observer = new PerformanceObserver((list) => this.#collections.push(...list.getEntries()));
  readonly #longSteps: Step[] = [];

  constructor() {
    this.#observer.observe({ entryTypes: ["gc"] });
  }

  /** Begins a step; the returned function ends it. */
  begin(): () => void {
    const [before, startMs] = [process.threadCpuUsage(), performance.now()];
    return () => {
      const { user, system } = process.threadCpuUsage(before);
      const cpuMs = (user + system) / 1_000;
      if (cpuMs >= longStepMs) this.#longSteps.push({ startMs, endMs: performance.now(), cpuMs });
    };
  }

  /** The longest of all steps; 0 if none took 5 ms. Ends the measurement. */
  async longestMs(): Promise<number> {
    // Collections are reported in the next turn.
    await nextTurn();
    this.#collections.push(...this.#observer.takeRecords());
    this.#observer.disconnect();
    return Math.max(0, ...this.#longSteps.map((step) => step.cpuMs - this.#collectedMs(step)));
  }

  #collectedMs({ startMs, endMs }: Step): number {
    const within = this.#collections.filter(({ startTime }) => startTime >= startMs && startTime <= endMs);
    return within.reduce((sum, { duration }) => sum + duration, 0);
  }
}

/** A compilation makes a turn of one run long; it does not occur at the same step every time. */
const maxRuns = 6;

/**
 * The longest turn of the event loop during `work`, in milliseconds as in `StepTimes`: the minimum of several runs. Ends
 * early at a value below `enough`.
 */
export async function longestTurnMs(work: () => Promise<unknown>, enough: number): Promise<number> {
  let leastMs = Number.POSITIVE_INFINITY;
  for (let run = 0; run < maxRuns && leastMs >= enough; run++) leastMs = Math.min(leastMs, await longestTurnOf(work));
  return leastMs;
}

async function longestTurnOf(work: () => Promise<unknown>): Promise<number> {
  const times = new StepTimes();
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
