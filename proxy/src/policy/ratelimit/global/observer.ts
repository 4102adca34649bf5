/** Who hears of what happens between us and rate limit services: metrics and the log. `service` is a service's key. */
import type { FailureCause } from "./grpc/unary-client.ts";

export interface GlobalLimitObserver {
  /** One call ended after `durationMs`. */
  called(service: string, outcome: "ok" | "overLimit" | FailureCause, durationMs: number): void;
  /** The breaker of this worker opened or closed; `cause` says why it opened. */
  breakerChanged(service: string, isOpen: boolean, cause: string): void;
  /** The service refuses calls as such, or answers nonsense; told once until it answers a call well. */
  misbehaved(service: string, message: string): void;
  /** How many charges of this worker wait for the service now. */
  chargesBuffered(service: string, count: number): void;
  chargeDropped(service: string, reason: DropReason): void;
  /** No limit of this worker has named the service for a while: its breaker and its charges are no more. */
  retired(service: string): void;
}

/** Why a charge never reached its service. */
export type DropReason =
  /** Too many were waiting. */
  | "overflow"
  /** It waited too long to still mean anything. */
  | "expired"
  /** The service refused it. */
  | "rejected"
  /** The service failed to count it, time after time. */
  | "failed"
  /** No limit names the service any more. */
  | "retired";

/** For whoever does not care. */
export const silentObserver: GlobalLimitObserver = {
  called: () => undefined,
  breakerChanged: () => undefined,
  misbehaved: () => undefined,
  chargesBuffered: () => undefined,
  chargeDropped: () => undefined,
  retired: () => undefined,
};
