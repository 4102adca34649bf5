/** What an admitted request holds of the limits that it is under, and what they tell the client. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { replaceFields } from "../filters/header-edits.ts";
import type { RefundCause } from "../ir/limit.ts";
import type { TokenUsage } from "../ir/usage.ts";
import type { GlobalReservation } from "../policy/ratelimit/global/global-limiter.ts";
import { isLimitHeader, limitHeaders } from "../policy/ratelimit/headers.ts";
import type { Allowed } from "../policy/ratelimit/local-limiter.ts";
import type { LimitState } from "../policy/ratelimit/window.ts";

export class RequestReservation {
  readonly #clock: Clock;
  readonly #local: Allowed | undefined;
  readonly #global: GlobalReservation | undefined;
  /** Of the local limits, as the client is told. */
  #state: LimitState | undefined;

  constructor(clock: Clock, local: Allowed | undefined, global: GlobalReservation | undefined) {
    this.#clock = clock;
    this.#local = local;
    this.#global = global;
    this.#state = local?.state;
  }

  /**
   * Puts the state of the limit nearest to exhaustion on an answer, in place of what the backend says of limits of its
   * own. Edits `headers` (flat) in place; without effect where nothing is enforced.
   */
  setHeaders(headers: string[]): void {
    const state = this.#state;
    const view = this.#global?.view;
    if (view !== undefined && view.otherHeaders.length > 0) headers.push(...view.otherHeaders);
    const localShare = state === undefined ? Infinity : state.remaining / state.limit;
    const isGlobalNearer = view?.share !== undefined && view.share < localShare;
    const chosen = isGlobalNearer ? view.limitHeaders : state === undefined ? undefined : limitHeaders(state);
    if (chosen === undefined) return;
    for (let i = headers.length - 2; i >= 0; i -= 2) if (isLimitHeader(headers[i] ?? "")) headers.splice(i, 2);
    headers.push(...chosen);
  }

  /** Writes what a rate limit service tells the backend onto the request, in place of what the client says by that name. */
  setBackendHeaders(headers: string[]): void {
    const told = this.#global?.backendHeaders;
    if (told !== undefined && told.length > 0) replaceFields(headers, told);
  }

  /** Has `setHeaders` tell the state of the local limits as it is now, rather than when the request was admitted. */
  readState(): void {
    this.#state = this.#local?.reservation.state(this.#clock.monotonicMs());
  }

  /** Charges the tokens of the answer. */
  charge(usage: TokenUsage): void {
    this.#local?.reservation.charge(usage.total, this.#clock.monotonicMs());
    this.#global?.charge(usage);
  }

  /**
   * Gives back what this replica has counted, headers included; what a rate limit service has counted stays counted.
   *
   * @param cause as for `Lease.refund`.
   */
  refund(cause?: RefundCause): void {
    this.#state = this.#local?.reservation.refund(this.#clock.monotonicMs(), cause);
    this.#global?.refund(cause);
  }
}
