/** Takes CPU profiles of all threads of the process for a while; one at a time, since two would measure each other. */
import { startCpuProfile } from "node:v8";
import type { Worker } from "node:worker_threads";
import type { Clock } from "./clock.ts";
import { encodeCpuProfile, type ThreadProfile } from "./pprof.ts";

export type ProfileOutcome =
  /** gzip'd pprof. */
  | { readonly kind: "profile"; readonly bytes: Buffer }
  /** Somebody else's profile is being taken. */
  | { readonly kind: "busy" };

/** A profile that is being taken of one thread. */
interface RunningProfile {
  readonly thread: string;
  readonly stop: () => string | Promise<string>;
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
      const profiles = await Promise.all(
        running.map(async ({ thread, stop }): Promise<ThreadProfile> => ({ thread, json: await stop() })),
      );
      return { kind: "profile", bytes: encodeCpuProfile(profiles, durationMs) };
    } finally {
      this.#runningSinceMs = undefined;
    }
  }

  async #start(): Promise<readonly RunningProfile[]> {
    const main = startCpuProfile();
    const workers = this.#workers().map(async (worker, index): Promise<RunningProfile> => {
      const handle = await worker.startCpuProfile();
      return { thread: `worker ${index + 1}`, stop: () => handle.stop() };
    });
    return [{ thread: "main", stop: () => main.stop() }, ...(await Promise.all(workers))];
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
