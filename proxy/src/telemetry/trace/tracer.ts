/**
 * Assigns requests to waiting trace subscriptions. A request goes to every subscription whose condition it meets, and a
 * subscription takes one request, from whichever worker is first. The log takes every request while its filter shows
 * lines of requests. Each request costs one check of `isWatching`.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { RequestView } from "../../cel/request-view.ts";
import type { LoggedRequest, RequestLog } from "../request-log.ts";
import { RequestTrace, type TraceSink } from "./request-trace.ts";

/** A trace subscription. */
export interface TraceSubscription {
  readonly id: number;
  /** Shared by all workers: 0, or the number of the worker that found the request. */
  readonly claim: Int32Array;
  /** The trace of the request; absent: any, or none. */
  readonly traceId?: string | undefined;
  /** The condition; undefined: any request. */
  readonly matches: ((view: RequestView) => boolean) | undefined;
  readonly sink: TraceSink;
}

/** The trace subscriptions of one worker. */
export class Tracer {
  readonly #clock: Clock;
  readonly #worker: number;
  readonly #log: RequestLog | undefined;
  #subscriptions: readonly TraceSubscription[] = [];
  /** Whether requests are logged in detail. */
  #isLogging = false;
  /** Whether a request must be passed to `claim`; normally false. */
  isWatching = false;

  /**
   * Creates a tracer.
   *
   * @param worker the number of the worker, from 1.
   * @param log logs single requests; absent: they are not logged.
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
    this.#set(this.#subscriptions);
  }

  get worker(): number {
    return this.#worker;
  }

  add(subscription: TraceSubscription): void {
    this.#set([...this.#subscriptions, subscription]);
  }

  /** Removes a subscription; does nothing where it has its request already, or is unknown. */
  remove(id: number): void {
    this.#set(this.#subscriptions.filter((subscription) => subscription.id !== id));
  }

  /**
   * Assigns a request to the subscriptions that wait for it, and to the log; undefined where there is neither.
   *
   * @param record of the request, whose id and route are in each log line.
   * @param view called only where there is a subscription. Returns undefined where the head was not accepted, so that
   *   no condition can be evaluated or met.
   * @param startMs monotonic time at which the request began.
   */
  claim(record: LoggedRequest, view: () => RequestView | undefined, startMs: number): RequestTrace | undefined {
    const sinks = this.#subscriptions.length === 0 ? [] : this.#claim(record, view());
    const log = this.#isLogging ? this.#log?.linesOf(record) : undefined;
    if (sinks.length === 0 && log === undefined) return undefined;
    return new RequestTrace(this.#clock, startMs, sinks, log);
  }

  #claim(record: LoggedRequest, view: RequestView | undefined): readonly TraceSink[] {
    const matching = this.#subscriptions.filter(({ traceId, matches }) => {
      if (traceId !== undefined && record.traceId !== traceId) return false;
      return matches === undefined || (view !== undefined && matches(view));
    });
    this.#set(this.#subscriptions.filter((subscription) => !matching.includes(subscription)));
    // Another worker may have been first, and its message may not have arrived yet.
    const claimed = matching.filter(({ claim }) => Atomics.compareExchange(claim, 0, 0, this.#worker) === 0);
    return claimed.map(({ sink }) => sink);
  }

  #set(subscriptions: readonly TraceSubscription[]): void {
    this.#subscriptions = subscriptions;
    this.isWatching = this.#isLogging || subscriptions.length > 0;
  }
}
