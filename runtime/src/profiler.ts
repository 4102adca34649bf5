/**
 * Takes profiles of all threads of the process: CPU for a while, one at a time, since two would measure each other, and
 * heaps as they are or as they change.
 */
import { startCpuProfile } from "node:v8";
import type { Worker } from "node:worker_threads";
import type { Clock } from "./clock.ts";
import { encodeCpuProfile, encodeHeapChange, encodeHeapProfile, type ThreadProfile } from "./pprof.ts";

export type ProfileOutcome =
  /** gzip'd pprof. */
  | { readonly kind: "profile"; readonly bytes: Buffer }
  /** Somebody else's profile is being taken. */
  | { readonly kind: "busy" };

/** Of one thread, that is being taken. */
interface RunningProfile {
  readonly thread: string;
  /** V8's JSON text; undefined of a thread that has ended meanwhile, and its samples with it. */
  readonly stop: () => string | Promise<string | undefined>;
}

export class Profiler {
  readonly #clock: Clock;
  readonly #workers: () => readonly Worker[];
  #runningSinceMs: number | undefined;

  /** Belongs to the main thread; `workers` tells the threads that run now. */
  constructor(clock: Clock, workers: () => readonly Worker[]) {
    this.#clock = clock;
    this.#workers = workers;
  }

  /** Since when one is being taken; wall time, ms. */
  get runningSinceMs(): number | undefined {
    return this.#runningSinceMs;
  }

  /** Takes a profile for `durationMs`, or until `signal` aborts, whichever is first. */
  async take(durationMs: number, signal: AbortSignal): Promise<ProfileOutcome> {
    if (this.#runningSinceMs !== undefined) return { kind: "busy" };
    this.#runningSinceMs = this.#clock.nowMs();
    try {
      const running = await this.#start();
      await this.#wait(durationMs, signal);
      const profiles = await Promise.all(running.map(stopOne));
      return { kind: "profile", bytes: encodeCpuProfile(profiles.flat(), durationMs) };
    } finally {
      this.#runningSinceMs = undefined;
    }
  }

  /**
   * What is alive in the heaps; with a duration, how that changes over it. Ends early when `signal` aborts.
   *
   * @param collect reads the samples of all threads.
   */
  async takeHeap(
    collect: () => Promise<readonly ThreadProfile[]>,
    durationMs: number | undefined,
    signal: AbortSignal,
  ): Promise<Buffer> {
    if (durationMs === undefined) return encodeHeapProfile(await collect());
    const before = await collect();
    await this.#wait(durationMs, signal);
    return encodeHeapChange(before, await collect(), durationMs);
  }

  async #start(): Promise<readonly RunningProfile[]> {
    const workers = await Promise.all(
      this.#workers().map(async (worker, index): Promise<RunningProfile> => {
        const handle = await unlessEnded(worker.startCpuProfile());
        return { thread: `worker ${index + 1}`, stop: async () => handle && unlessEnded(handle.stop()) };
      }),
    );
    const main = startCpuProfile();
    return [{ thread: "main", stop: () => main.stop() }, ...workers];
  }

  #wait(durationMs: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#clock.setTimer(durationMs, resolve);
      const stop = (): void => {
        timer.cancel();
        resolve();
      };
      if (signal.aborted) stop();
      else signal.addEventListener("abort", stop, { once: true });
    });
  }
}

async function stopOne({ thread, stop }: RunningProfile): Promise<readonly ThreadProfile[]> {
  const json = await stop();
  return json === undefined ? [] : [{ thread, json }];
}

/** What is asked of a worker is undefined where the worker has ended. */
async function unlessEnded<Answer>(asked: Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ERR_WORKER_NOT_RUNNING") return undefined;
    throw error;
  }
}
