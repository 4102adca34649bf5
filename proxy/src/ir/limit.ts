/** A local rate limit entry as it applies to one place (ProxyPolicy `spec.traffic.rateLimit.local[]`). */
import type { UsageChunk } from "./usage.ts";

export interface LocalLimit {
  /**
   * Identity of the counter: policy, target, what is counted and how much (`default/chat HTTPRoute/default/chat
   * requests 10/Minutes+5`). Equal in every place that shares the counter, and unchanged by an edit elsewhere, so the
   * counter survives it.
   */
  readonly counter: string;
  /** `namespace/name` of the ProxyPolicy. */
  readonly policy: string;
  /** The entry's place in the policy's list, from 0. */
  readonly entry: number;
  /** `HTTPRoute/namespace/name` or `Gateway/namespace/name`, with `#section` where the policy names one. */
  readonly target: string;
  readonly counts: "requests" | "tokens";
  /** Given back at each window end; at least 1. */
  readonly amount: number;
  /** On top of `amount`, full at start; 0 for tokens. */
  readonly burst: number;
  readonly unit: LimitUnit;
  /** Length of the window in units; absent: 1. */
  readonly unitCount?: number;
  /** What one request counts, from 0 (which counts nothing, and passes while nothing is over); absent: 1. */
  readonly units?: number;
  /** CEL source; one counter per value. Absent: one counter for all. */
  readonly key?: string;
  /** `Shadow` counts, logs and shows, and never refuses. */
  readonly mode: "Enforce" | "Shadow";
  /** Failures that give a request's unit back; absent: `defaultRefundOn`. */
  readonly refundOn?: readonly RefundCause[];
  /** Of its policy: what clients see of the usage event of streams; absent: another policy or the Backend says. */
  readonly usageChunk?: UsageChunk;
}

/** A failure for which a policy may give a request's unit back (ProxyPolicy `spec.traffic.rateLimit.refundOn`). */
export type RefundCause =
  /** No endpoint got the request: there is none, or no connection to it, or it closed before it looked at the request. */
  | "ConnectFailure"
  /** No connection became free, so no endpoint got the request. */
  | "Overload"
  /** The endpoint got the request and broke off before its answer. */
  | "Reset"
  /** A timeout of the rule ended, or the endpoint kept silent. */
  | "Timeout"
  /** The backend answered with a 5xx. */
  | "BackendError";

/** Those in which no backend has seen the request: a client cannot spend a backend's work without its own budget. */
export const defaultRefundOn: readonly RefundCause[] = ["ConnectFailure", "Overload"];

/** How one limit entry saw a request. */
export interface LimitDecision {
  readonly limit: LocalLimit;
  /** `shadowDenied`: would have been denied, but the entry's mode is Shadow. */
  readonly outcome: "allowed" | "denied" | "shadowDenied";
}

export type LimitUnit = "Seconds" | "Minutes" | "Hours";

/** Length of a window in milliseconds. */
export const unitMs: Readonly<Record<LimitUnit, number>> = { Seconds: 1_000, Minutes: 60_000, Hours: 3_600_000 };
