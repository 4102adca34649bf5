/**
 * The calls to one endpoint that wait for a connection with room, in the order in which they came. None waits longer than
 * is allowed: a client that is told at once can go elsewhere, and one that is served after its patience ended was served
 * for nothing.
 */
import { Readable } from "node:stream";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { UpstreamCall, UpstreamRequest } from "./call.ts";

export interface WaitingCall {
  readonly call: UpstreamCall;
  readonly request: UpstreamRequest;
}

export interface WaitingLineOptions {
  readonly clock: Clock;
  readonly maxWaitMs: number;
  /** Counts the calls that wait, those of the backend's other endpoints too. */
  readonly load: { waiting: number };
}

interface Place extends WaitingCall {
  readonly untilMs: number;
}

export class WaitingLine {
  readonly #options: WaitingLineOptions;
  readonly #places = new Map<UpstreamCall, Place>();
  /** For the first in line; every other one's time ends later. */
  #timer: Timer | undefined;

  constructor(options: WaitingLineOptions) {
    this.#options = options;
  }

  join(call: UpstreamCall, request: UpstreamRequest): void {
    const { clock, maxWaitMs, load } = this.#options;
    this.#places.set(call, { call, request, untilMs: clock.monotonicMs() + maxWaitMs });
    load.waiting++;
    this.#timer ??= clock.setTimer(maxWaitMs, () => this.#expire());
  }

  /** The one that has waited longest; it stays in line. */
  get first(): WaitingCall | undefined {
    return this.#places.values().next().value;
  }

  /** The call has its connection. Harmless for one that is not in line. */
  leave(call: UpstreamCall): void {
    if (!this.#places.delete(call)) return;
    this.#options.load.waiting--;
    if (this.#places.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** The call is over before it was sent. */
  forget(call: UpstreamCall): void {
    const body = this.#places.get(call)?.request.body;
    if (body instanceof Readable) body.destroy();
    this.leave(call);
  }

  /** Ends those whose time is over, which takes them out of line, and waits for the next. */
  #expire(): void {
    const { clock, maxWaitMs } = this.#options;
    this.#timer = undefined;
    const nowMs = clock.monotonicMs();
    for (const { call, untilMs } of this.#places.values()) {
      if (untilMs > nowMs) {
        this.#timer = clock.setTimer(untilMs - nowMs, () => this.#expire());
        return;
      }
      call.fail({ kind: "overloaded", message: `no connection has become free within ${maxWaitMs} ms` });
    }
  }
}
