/**
 * Who waits for a request to watch. Watches are in line: a request goes to the first whose condition it meets, and each
 * takes one request only, of whichever worker is first. What costs every request, is one look at `isWatching`.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { RequestView } from "../../cel/request-view.ts";
import { RequestTrace, type TraceSink } from "./request-trace.ts";

export interface TraceWatch {
  readonly id: number;
  /** One for all workers: 0, or the worker that has found the request. */
  readonly claim: Int32Array;
  /** Absent: any request. */
  readonly matches: ((view: RequestView) => boolean) | undefined;
  readonly sink: TraceSink;
}

/** One worker's line of watches. */
export class Tracer {
  readonly #clock: Clock;
  readonly #worker: number;
  #watches: readonly TraceWatch[] = [];
  /** False nearly always. */
  isWatching = false;

  /** @param worker its number, from 1. */
  constructor(clock: Clock, worker: number) {
    this.#clock = clock;
    this.#worker = worker;
  }

  get worker(): number {
    return this.#worker;
  }

  add(watch: TraceWatch): void {
    this.#set([...this.#watches, watch]);
  }

  /** Does nothing where the watch has its request, or was never there. */
  remove(id: number): void {
    this.#set(this.#watches.filter((watch) => watch.id !== id));
  }

  /**
   * Gives a request to the watch that waits for it longest.
   *
   * @param view undefined where the head could not be accepted: nothing can be asked of it, so no condition is met.
   * @param startMs when it began; monotonic.
   */
  claim(view: RequestView | undefined, startMs: number): RequestTrace | undefined {
    for (const { id, claim, matches, sink } of this.#watches) {
      if (matches !== undefined && (view === undefined || !matches(view))) continue;
      this.remove(id);
      // Another worker may have been first; it has not told us yet.
      if (Atomics.compareExchange(claim, 0, 0, this.#worker) !== 0) continue;
      return new RequestTrace(this.#clock, startMs, sink);
    }
    return undefined;
  }

  #set(watches: readonly TraceWatch[]): void {
    this.#watches = watches;
    this.isWatching = watches.length > 0;
  }
}
