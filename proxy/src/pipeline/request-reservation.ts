/** The units that an allowed request has reserved in its limits, and the headers of the limits on its response. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { replaceFields } from "../filters/header-edits.ts";
import type { RefundCause } from "../ir/limit.ts";
import type { TokenUsage } from "../ir/usage.ts";
import type { ShownStates } from "../policy/ratelimit/counter-reservation.ts";
import type { GlobalReservation } from "../policy/ratelimit/global/global-limiter.ts";
import { isLimitHeader, limitHeaders } from "../policy/ratelimit/headers.ts";
import type { LocalAllowed } from "../policy/ratelimit/local-limiter.ts";
import type { ShownLimit } from "../policy/ratelimit/shown-limit.ts";
import { setLimitFields } from "./limit-fields.ts";

const nothingShown: ShownStates = { state: undefined, listed: undefined };

/** The reservation of one request, local and global. */
export class RequestReservation {
  readonly #clock: Clock;
  readonly #local: LocalAllowed | undefined;
  #global: GlobalReservation | undefined;
  /** The states of the local limits that the response headers show; undefined if no local limit applies. */
  #shown: ShownStates | undefined;

  /** @param local undefined if no local limit applies. */
  constructor(clock: Clock, local: LocalAllowed | undefined) {
    this.#clock = clock;
    this.#local = local;
    this.#shown = local?.report;
  }

  /** Adds the reservation in global limits. */
  addGlobal(global: GlobalReservation): void {
    this.#global = global;
  }

  /** The states of the local limits, for header families that list limits. */
  get listed(): readonly ShownLimit[] | undefined {
    return this.#shown?.listed;
  }

  /**
   * Sets the state of the limits in the headers of a response, in the header families of their policies. It replaces
   * the limit headers of the backend. Has no effect if no limit is enforced.
   *
   * @param headers names and values alternate; edited in place.
   */
  setHeaders(headers: string[]): void {
    const { state, listed } = this.#shown ?? nothingShown;
    const view = this.#global?.view;
    if (view !== undefined && view.otherHeaders.length > 0) headers.push(...view.otherHeaders);
    const localShare = state === undefined ? Infinity : state.remaining / state.limit;
    const isGlobalNearer = view?.share !== undefined && view.share < localShare;
    const chosen = isGlobalNearer ? view.limitHeaders : state === undefined ? undefined : limitHeaders(state);
    if (chosen !== undefined && chosen.length > 0) {
      for (let i = headers.length - 2; i >= 0; i -= 2) if (isLimitHeader(headers[i] ?? "")) headers.splice(i, 2);
      headers.push(...chosen);
    }
    if (listed !== undefined || view?.listed !== undefined) {
      setLimitFields(headers, [...(listed ?? []), ...(view?.listed ?? [])]);
    }
  }

  /**
   * Sets the headers of the rate limit service on the request to the backend. They replace fields of the client.
   *
   * @param headers names and values alternate; edited in place.
   */
  setBackendHeaders(headers: string[]): void {
    const backendHeaders = this.#global?.backendHeaders;
    if (backendHeaders !== undefined && backendHeaders.length > 0) replaceFields(headers, backendHeaders);
  }

  /** Reads the current state of the local limits for `setHeaders`, which otherwise shows the state at the decision. */
  readState(): void {
    this.#shown = this.#local?.reservation.shown(this.#clock.monotonicMs());
  }

  /** Charges the tokens of the response. */
  charge(usage: TokenUsage): void {
    const nowMs = this.#clock.monotonicMs();
    this.#local?.reservation.charge(usage, nowMs);
    this.#global?.charge(usage, nowMs);
  }

  /** Frees the place of the request in limits of requests in progress. Later calls have no effect. */
  release(): void {
    if (this.#local?.reservation.holdsPlace !== true && this.#global?.holdsPlace !== true) return;
    const nowMs = this.#clock.monotonicMs();
    this.#local?.reservation.release(nowMs);
    this.#global?.release(nowMs);
  }

  /**
   * Asks whether every enforced token limit has tokens left. `done` is called once: at once for local limits, after the
   * response of the service for global ones.
   */
  recheck(done: (hasLeft: boolean) => void): void {
    const nowMs = this.#clock.monotonicMs();
    if (this.#local?.reservation.hasTokensLeft(nowMs) === false) done(false);
    else if (this.#global === undefined) done(true);
    else this.#global.recheck(nowMs, done);
  }

  /**
   * Refunds the units of local limits, including the headers. A rate limit service keeps the units of requests.
   *
   * @param cause as for `Reservation.refund`.
   */
  refund(cause?: RefundCause): void {
    const nowMs = this.#clock.monotonicMs();
    this.#shown = this.#local?.reservation.refund(nowMs, cause);
    this.#global?.refund(nowMs, cause);
  }
}
