/** Observes the calls to rate limit services, for metrics and the log. `service` is a service's key. */
import type { FailureCause } from "@gatewayproxy/grpc/client/unary-client";

/** Receives the events of the rate limit services of a worker. */
export interface GlobalLimitObserver {
  /** One call ended after `durationMs`. */
  callEnded(service: string, outcome: "ok" | "overLimit" | FailureCause, durationMs: number): void;
  /** The circuit breaker of this worker opened or closed; `cause` says why it opened. */
  breakerChanged(service: string, isOpen: boolean, cause: string): void;
  /** The service rejects calls or sends invalid responses. Called once, until it responds to a call as expected. */
  misbehaved(service: string, message: string): void;
  /** The number of charges of this worker that wait for the service. */
  chargesBuffered(service: string, count: number): void;
  /** A charge was dropped, so the service may not have counted its tokens. */
  chargeDropped(service: string, reason: DropReason): void;
  /** No limit of this worker has named the service for a minute: its circuit breaker and its charges are gone. */
  retired(service: string): void;
}

/** Why a charge never reached its service. */
export type DropReason =
  /** Too many were waiting. */
  | "overflow"
  /** It expired. */
  | "expired"
  /** The service rejected it. */
  | "rejected"
  /** The service failed to count it repeatedly. */
  | "failed"
  /** A refund failed. The service may have counted it, so it is not sent again. */
  | "uncertain"
  /** No limit names the service any more. */
  | "retired";

/** Ignores everything. */
export const silentObserver: GlobalLimitObserver = {
  callEnded: () => undefined,
  breakerChanged: () => undefined,
  misbehaved: () => undefined,
  chargesBuffered: () => undefined,
  chargeDropped: () => undefined,
  retired: () => undefined,
};
