/**
 * The calls to an endpoint that wait for an available connection. Clients take turns, and the calls of a client are
 * served in order, so that a client with many calls does not delay the few of another one.
 *
 * The waiting time is bounded, since a client that gets an early error can use another server, and a response after its
 * timeout is useless.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { BackendLoad } from "./backend-load.ts";
import type { UpstreamCall, UpstreamRequest } from "./call.ts";
import type { ConnectionCall } from "./connection.ts";

/** A call that waits, and its request. */
export interface PendingCall {
  readonly call: UpstreamCall;
  readonly request: UpstreamRequest;
}

/** The maximum waiting time, and the count of waiting calls. */
export interface PendingQueueOptions {
  /** Times the deadline of the first call. */
  readonly clock: Clock;
  /** Time in milliseconds after which a call fails as `overloaded`. */
  readonly maxWaitMs: number;
  /** Counts the pending calls of the backend, including those to its other endpoints. */
  readonly load: Pick<BackendLoad, "startWaiting" | "endWaiting">;
  /** The message of the failure of a call that waited too long. */
  readonly failure: string;
  /** Called with the calls that have waited for a fifth of the time, and again after each further fifth. */
  readonly onOverdue?: ((calls: readonly PendingCall[]) => void) | undefined;
}

/** The part of the maximum waiting time after which a call is overdue. */
const overduePart = 1 / 5;

interface Place extends PendingCall {
  readonly untilMs: number;
}

/** The pending queue of one endpoint. */
export class PendingQueue {
  readonly #options: PendingQueueOptions;
  /** In the order of their arrival, which is that of their deadlines. */
  readonly #places = new Map<ConnectionCall, Place>();
  /** By client, in the order of their turns. None is empty. */
  readonly #clients = new Map<string | undefined, Map<UpstreamCall, Place>>();
  /** For the first call; the deadlines of all others are later. */
  #timer: Timer | undefined;
  /** For the next call that becomes overdue. */
  #overdueTimer: Timer | undefined;

  constructor(options: PendingQueueOptions) {
    this.#options = options;
  }

  join(call: UpstreamCall, request: UpstreamRequest): void {
    const { clock, maxWaitMs, load } = this.#options;
    const place = { call, request, untilMs: clock.monotonicMs() + maxWaitMs };
    this.#places.set(call, place);
    const own = this.#clients.get(request.client);
    if (own === undefined) this.#clients.set(request.client, new Map([[call, place]]));
    else own.set(call, place);
    load.startWaiting();
    this.#timer ??= clock.setTimer(maxWaitMs, () => this.#expire());
    this.#awaitOverdue(this.#overdueMs);
  }

  get #overdueMs(): number {
    return this.#options.maxWaitMs * overduePart;
  }

  #awaitOverdue(ms: number): void {
    const { clock, onOverdue } = this.#options;
    if (onOverdue === undefined) return;
    this.#overdueTimer ??= clock.setTimer(ms, () => {
      this.#overdueTimer = undefined;
      const sinceMs = clock.monotonicMs() - this.#overdueMs;
      const isOverdue = ({ untilMs }: Place): boolean => untilMs - this.#options.maxWaitMs <= sinceMs;
      onOverdue([...this.#places.values()].filter(isOverdue));
      if (this.#places.size === 0) return;
      const next = this.#places.values().find((place) => !isOverdue(place));
      this.#awaitOverdue(next === undefined ? this.#overdueMs : next.untilMs - this.#options.maxWaitMs - sinceMs);
    });
  }

  /** The next call, which stays in the queue. */
  get first(): PendingCall | undefined {
    return this.#clients.values().next().value?.values().next().value;
  }

  /** Returns a call that waits, with its request; undefined if it does not wait. */
  placeOf(call: ConnectionCall): PendingCall | undefined {
    return this.#places.get(call);
  }

  /** The first call of each client, in the order of their turns. */
  get firstOfEach(): Iterable<PendingCall> {
    return this.#clients.values().flatMap((own) => own.values().take(1));
  }

  /** Removes a call that has its connection. The next turn of its client comes after those of the others. */
  leave(call: UpstreamCall): void {
    const place = this.#places.get(call);
    if (place === undefined) return;
    this.#places.delete(call);
    const { client } = place.request;
    const own = this.#clients.get(client);
    own?.delete(call);
    this.#clients.delete(client);
    if (own !== undefined && own.size > 0) this.#clients.set(client, own);
    this.#options.load.endWaiting();
    if (this.#places.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#overdueTimer?.cancel();
    this.#overdueTimer = undefined;
  }

  /** As `EndpointPool.makeRoomFor`. */
  makeRoomFor(client: string | undefined): boolean {
    let longest: ReadonlyMap<UpstreamCall, Place> | undefined;
    for (const calls of this.#clients.values()) if (calls.size > (longest?.size ?? 0)) longest = calls;
    if (longest === undefined || longest.size <= (this.#clients.get(client)?.size ?? 0) + 1) return false;
    const last = [...longest.keys()].at(-1);
    last?.fail({ kind: "overloaded", message: "a call of a client with fewer calls waits instead" });
    return true;
  }

  /** Fails expired calls, which removes them, and waits for the next deadline. */
  #expire(): void {
    const { clock, failure } = this.#options;
    this.#timer = undefined;
    const nowMs = clock.monotonicMs();
    for (const { call, untilMs } of this.#places.values()) {
      if (untilMs > nowMs) {
        this.#timer = clock.setTimer(untilMs - nowMs, () => this.#expire());
        return;
      }
      call.fail({ kind: "overloaded", message: failure });
    }
  }
}
