/**
 * Takes profiles of all threads of the process. CPU profiles are taken one at a time, since two would measure each
 * other; heap profiles show the heaps or their change.
 */
import { startCpuProfile } from "node:v8";
import type { Worker } from "node:worker_threads";
import type { Clock } from "../timing/clock.ts";
import type { ThreadProfile } from "./pprof.ts";

/** The result of `Profiler.take`. */
export type ProfileOutcome =
  /** A gzip'd pprof profile. */
  | { readonly kind: "profile"; readonly bytes: Buffer }
  /** Another CPU profile is in progress. */
  | { readonly kind: "busy" };

/** A CPU profile in progress in one thread. */
interface RunningProfile {
  readonly thread: string;
  /** Returns V8's JSON text; undefined if the thread has ended, since its samples are lost. */
  readonly stop: () => string | Promise<string | undefined>;
}

/** Takes profiles of the main thread and its workers. */
export class Profiler {
  readonly #clock: Clock;
  readonly #workers: () => readonly Worker[];
  #runningSinceMs: number | undefined;

  /** Create it in the main thread. @param workers returns the threads that run now. */
  constructor(clock: Clock, workers: () => readonly Worker[]) {
    this.#clock = clock;
    this.#workers = workers;
  }

  /** When the profile in progress began, in ms since the epoch; undefined if there is none. */
  get runningSinceMs(): number | undefined {
    return this.#runningSinceMs;
  }

  /** Takes a CPU profile for `durationMs`, or until `signal` aborts, whichever is first. */
  async take(durationMs: number, signal: AbortSignal): Promise<ProfileOutcome> {
    if (this.#runningSinceMs !== undefined) return { kind: "busy" };
    this.#runningSinceMs = this.#clock.nowMs();
    try {
      const running = await this.#start();
      await this.#wait(durationMs, signal);
      const profiles = await Promise.all(running.map(stopOne));
      const { encodeCpuProfile } = await loadEncoder();
      return { kind: "profile", bytes: encodeCpuProfile(profiles.flat(), durationMs) };
    } finally {
      this.#runningSinceMs = undefined;
    }
  }

  /**
   * Takes a heap profile; with a duration, the change of the heap over it. Ends early when `signal` aborts.
   *
   * @param collect reads the samples of all threads.
   */
  async takeHeap(
    collect: () => Promise<readonly ThreadProfile[]>,
    durationMs: number | undefined,
    signal: AbortSignal,
  ): Promise<Buffer> {
    const before = await collect();
    if (durationMs === undefined) return (await loadEncoder()).encodeHeapProfile(before);
    await this.#wait(durationMs, signal);
    const after = await collect();
    return (await loadEncoder()).encodeHeapChange(before, after, durationMs);
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

/** Few processes are profiled. The encoder is loaded after the samples are taken, so that it is not in them. */
function loadEncoder(): Promise<typeof import("./pprof.ts")> {
  return import("./pprof.ts");
}

async function stopOne({ thread, stop }: RunningProfile): Promise<readonly ThreadProfile[]> {
  const json = await stop();
  return json === undefined ? [] : [{ thread, json }];
}

/** Resolves as `operation` does; to undefined if the worker has ended. */
async function unlessEnded<Value>(operation: Promise<Value>): Promise<Value | undefined> {
  try {
    return await operation;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ERR_WORKER_NOT_RUNNING") return undefined;
    throw error;
  }
}
