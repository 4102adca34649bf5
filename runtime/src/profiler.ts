/** Takes profiles of all threads of the process for a while; one at a time, since two would measure each other. */
import { startCpuProfile, startHeapProfile } from "node:v8";
import type { Worker } from "node:worker_threads";
import type { Clock } from "./clock.ts";
import { encodeCpuProfile, encodeHeapProfile, type ThreadProfile } from "./pprof.ts";

export type ProfileKind = "cpu" | "heap";

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
  #running: { readonly kind: ProfileKind; readonly sinceMs: number } | undefined;

  /** Belongs to the main thread; `workers` tells the threads that run now. */
  constructor(clock: Clock, workers: () => readonly Worker[]) {
    this.#clock = clock;
    this.#workers = workers;
  }

  /** What is being taken, and since when; wall time, ms. */
  get running(): { readonly kind: ProfileKind; readonly sinceMs: number } | undefined {
    return this.#running;
  }

  /** Takes a profile for `durationMs`, or until `signal` aborts, whichever is first. */
  async take(kind: ProfileKind, durationMs: number, signal: AbortSignal): Promise<ProfileOutcome> {
    if (this.#running !== undefined) return { kind: "busy" };
    this.#running = { kind, sinceMs: this.#clock.nowMs() };
    try {
      const running = await this.#start(kind);
      await this.#wait(durationMs, signal);
      const profiles = await Promise.all(
        running.map(async ({ thread, stop }): Promise<ThreadProfile> => ({ thread, json: await stop() })),
      );
      const encode = kind === "cpu" ? encodeCpuProfile : encodeHeapProfile;
      return { kind: "profile", bytes: encode(profiles, durationMs) };
    } finally {
      this.#running = undefined;
    }
  }

  async #start(kind: ProfileKind): Promise<readonly RunningProfile[]> {
    const main = kind === "cpu" ? startCpuProfile() : startHeapProfile();
    const workers = this.#workers().map(async (worker, index): Promise<RunningProfile> => {
      const handle = await (kind === "cpu" ? worker.startCpuProfile() : worker.startHeapProfile());
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
