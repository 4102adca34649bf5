/**
 * Who waits for a request to watch. A request goes to every watch whose condition it meets, and a watch takes one request,
 * of whichever worker is first. What costs every request, is one look at `isWatching`.
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

/** The watches of one worker. */
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
   * Gives a request to the watches that wait for it; undefined where there are none.
   *
   * @param view undefined where the head could not be accepted: nothing can be asked of it, so no condition is met.
   * @param startMs when it began; monotonic.
   */
  claim(view: RequestView | undefined, startMs: number): RequestTrace | undefined {
    const fitting = this.#watches.filter(({ matches }) => {
      return matches === undefined || (view !== undefined && matches(view));
    });
    if (fitting.length === 0) return undefined;
    this.#set(this.#watches.filter((watch) => !fitting.includes(watch)));
    // Another worker may have been first; it has not told us yet.
    const won = fitting.filter(({ claim }) => Atomics.compareExchange(claim, 0, 0, this.#worker) === 0);
    if (won.length === 0) return undefined;
    return new RequestTrace(this.#clock, startMs, (event) => {
      for (const { sink } of won) sink(event);
    });
  }

  #set(watches: readonly TraceWatch[]): void {
    this.#watches = watches;
    this.isWatching = watches.length > 0;
  }
}
