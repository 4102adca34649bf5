/**
 * Who waits for a request to watch. A request goes to every watch whose condition it meets, and a watch takes one request,
 * of whichever worker is first. The log takes every request while its filter shows lines of requests. What costs every
 * request, is one look at `isWatching`.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { RequestView } from "../../cel/request-view.ts";
import type { RequestLog } from "../request-log.ts";
import type { RequestRecord } from "../request-record.ts";
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
  readonly #log: RequestLog | undefined;
  #watches: readonly TraceWatch[] = [];
  /** Whether requests are logged in detail. */
  #isLogging = false;
  /** False nearly always. */
  isWatching = false;

  /**
   * @param worker its number, from 1.
   * @param log of single requests; absent: there is none.
   */
  constructor(clock: Clock, worker: number, log?: RequestLog) {
    this.#clock = clock;
    this.#worker = worker;
    this.#log = log;
    this.logFilterChanged();
  }

  /** To be called after each change of the log filter. */
  logFilterChanged(): void {
    this.#isLogging = this.#log?.isOn === true;
    this.#set(this.#watches);
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
   * Gives a request to the watches that wait for it, and to the log; undefined where there is neither.
   *
   * @param record of the request, from which the log takes what each line has.
   * @param view called only where somebody watches; gives undefined where the head could not be accepted: nothing can be
   *   asked of it, so no condition is met.
   * @param startMs when it began; monotonic.
   */
  claim(
    record: Pick<RequestRecord, "requestId" | "route">,
    view: () => RequestView | undefined,
    startMs: number,
  ): RequestTrace | undefined {
    const sinks = this.#watches.length === 0 ? [] : this.#claim(view());
    const log = this.#isLogging ? this.#log?.linesOf(record) : undefined;
    if (sinks.length === 0 && log === undefined) return undefined;
    return new RequestTrace(this.#clock, startMs, sinks, log);
  }

  #claim(view: RequestView | undefined): readonly TraceSink[] {
    const fitting = this.#watches.filter(({ matches }) => {
      return matches === undefined || (view !== undefined && matches(view));
    });
    this.#set(this.#watches.filter((watch) => !fitting.includes(watch)));
    // Another worker may have been first; it has not told us yet.
    const won = fitting.filter(({ claim }) => Atomics.compareExchange(claim, 0, 0, this.#worker) === 0);
    return won.map(({ sink }) => sink);
  }

  #set(watches: readonly TraceWatch[]): void {
    this.#watches = watches;
    this.isWatching = this.#isLogging || watches.length > 0;
  }
}
