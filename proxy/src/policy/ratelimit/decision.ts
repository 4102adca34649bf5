/**
 * The decision of limits on one request, in one form for local limits, for global limits, and for both together. A
 * request that all limits allow has a reservation: it charges the response, or refunds the request.
 */
import type { RefundCause } from "../../ir/limit.ts";
import type { TokenUsage } from "../../ir/usage.ts";
import type { GlobalDenial, LocalDenial, ServiceUnavailable } from "./denial.ts";

/**
 * The decision of limits on one request.
 *
 * @typeParam Held the reservation of an allowed request.
 * @typeParam Report what each limit decided, for logs and metrics.
 */
export type Decision<Held extends Reservation, Report> = Allowed<Held, Report> | Denied<Report> | Unavailable<Report>;

/** All enforced limits allow the request, and it is counted. */
export interface Allowed<Held extends Reservation, Report> {
  readonly kind: "allowed";
  readonly reservation: Held;
  readonly report: Report;
}

/** An enforced limit denies the request, and none has counted it. */
export interface Denied<Report, By = LocalDenial | GlobalDenial> {
  readonly kind: "denied";
  /** The limit that denied, with what its response needs. */
  readonly by: By;
  readonly report: Report;
}

/** An enforced limit cannot decide, and the request must not be allowed without its decision. */
export interface Unavailable<Report> {
  readonly kind: "unavailable";
  /** `namespace/name` of the ProxyPolicy. */
  readonly policy: string;
  readonly cause: UnavailableCause;
  readonly report: Report;
}

/** Why a limit cannot decide. */
export type UnavailableCause =
  /** The service is unavailable, and the failure mode is `Closed`. */
  | ServiceUnavailable
  /** The request has longer values than a call of the service may have. */
  | "valueTooLong"
  /** The backend has no price for the model of the request, and an entry counts what responses cost. */
  | "unpriced"
  /** The cost or the limit of the request takes too much work to compute. */
  | "costTooCostly";

/** The units that an allowed request holds. It stays valid after the limits are replaced. */
export interface Reservation {
  /** Charges the tokens of the response. `nowMs` is monotonic. */
  charge(usage: TokenUsage, nowMs: number): void;
  /**
   * Refunds the units of the request, where counters are in this process. Later calls refund nothing.
   *
   * @param cause Refunds only where `refundOn` contains it; absent: everywhere, since the request was not allowed
   *   after all.
   */
  refund(nowMs: number, cause?: RefundCause): void;
  /**
   * Whether a limit of requests in progress counts the request, or an entry holds an estimate of its cost, so that
   * `release` has an effect.
   */
  readonly holdsPlace: boolean;
  /**
   * Ends the request for limits of requests in progress, and refunds what it still holds. Must be called once the
   * request has ended, in whatever way, and after its charge.
   */
  release(nowMs: number): void;
}
