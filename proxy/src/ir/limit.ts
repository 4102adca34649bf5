/** Local limits as they apply to one rule (ProxyPolicy `spec.traffic.rateLimit.local[]`). */
import type { LimitResponses } from "./limit-response.ts";
import type { UsageChunk } from "./usage.ts";

/** An entry of a policy at one target. */
export interface LocalLimit extends LimitResponses {
  /**
   * Identity of the counter: policy, target, unit and amount (`default/chat HTTPRoute/default/chat requests
   * 10/Minutes+5`), long parts as digests. It is equal in every rule that shares the counter, and unaffected by edits
   * elsewhere, so the counter survives them.
   */
  readonly counter: string;
  /** `namespace/name` of the ProxyPolicy. */
  readonly policy: string;
  /** The index of the entry in the policy's list, from 0. */
  readonly entry: number;
  /** The name of the entry for logs, metrics and headers; absent: its index is its name. */
  readonly name?: string;
  /** `HTTPRoute/namespace/name` or `Gateway/namespace/name`, with `#section` where the policy names one. */
  readonly target: string;
  /**
   * `concurrent`: the requests in progress. `connections`: the open connections, or UDP sessions, of stream routes.
   * Their numbers have no window. `spend`: the cost of responses in micro-units.
   */
  readonly counts: "requests" | "tokens" | "concurrent" | "connections" | "spend";
  /** Only for `spend`: requests for models without a price are allowed, and cost nothing. Absent: they are denied. */
  readonly allowsUnpriced?: true;
  /**
   * Only for `tokens` and `spend`: a request holds an estimate of its cost until its response is charged. Absent: it
   * holds nothing.
   */
  readonly reserves?: true;
  /** The amount per window, or at once for `concurrent` and `connections`; at least 1. */
  readonly amount: number;
  /** Allowed in addition to `amount`; full at the start, and 0 for tokens and spend. */
  readonly burst: number;
  /** The end of a window restores the whole counter, since requests with other amounts may be counted in it. */
  readonly restoresAll?: true;
  /** Absent for `concurrent` and `connections`. */
  readonly unit?: LimitUnit;
  /** Length of the window in units; absent: 1. */
  readonly unitCount?: number;
  /** How windows follow one another; absent: a window starts with the first request that is counted (`Fixed`). */
  readonly window?: LimitWindow;
  /**
   * The units that one request counts; absent: 1. With 0 it counts nothing, and is allowed while nothing is over the
   * limit.
   */
  readonly units?: number;
  /** CEL source; one counter per value. Absent: one counter for all. */
  readonly key?: string;
  /** CEL source of a condition; the entry applies to a request unless its value is false. Absent: to every request. */
  readonly when?: string;
  /** CEL source of the amount, instead of `amount`, which applies where it gives none. `burst` is 0 with it. */
  readonly amountFrom?: string;
  /**
   * CEL source of the units that a request costs, or that a response costs where tokens are counted. Absent: `units`,
   * or all tokens.
   */
  readonly cost?: string;
  /**
   * The name of the counter that all entries of this bucket in the namespace share, also with other amounts and keys;
   * one counter per value of the key. Absent: the counter is the entry's own. `burst` is 0 with it.
   */
  readonly bucket?: string;
  /**
   * The replicas that share the limit, at least 1: `amount` is the share of one, and an amount by `amountFrom` is
   * divided. Absent: each replica has the whole limit.
   */
  readonly replicas?: number;
  /** `Shadow` counts and reports, but denies nothing. */
  readonly mode: "Enforce" | "Shadow";
  /** Failures that refund the units of a request; absent: `defaultRefundOn`. */
  readonly refundOn?: readonly RefundCause[];
  /** `usageChunk` of its policy; absent: another policy or the Backend decides. */
  readonly usageChunk?: UsageChunk;
}

/**
 * Returns the largest amount of spend in micro-units: 15 digits, the most that an integer of a structured field has
 * (RFC 9651 §3.3.1), and a ninth of what a counter adds up exactly. The parts of sliding windows are counted by 32
 * bits.
 */
export function maxSpend(window: "Fixed" | LimitWindow["kind"] = "Fixed"): number {
  return window === "Sliding" ? 2 ** 32 - 1 : 999_999_999_999_999;
}

/** Whether responses are charged by what they cost, and requests count nothing themselves. */
export function isChargedLater(counts: LocalLimit["counts"]): boolean {
  return counts === "tokens" || counts === "spend";
}

/** A failure for which a policy may refund a request (ProxyPolicy `spec.traffic.rateLimit.refundOn`). */
export type RefundCause =
  /**
   * No endpoint received the request: there is none, no connection to it, or it closed before it processed the request.
   */
  | "ConnectFailure"
  /** No connection became free, so no endpoint received the request. */
  | "Overload"
  /** The endpoint received the request and reset the stream or connection before its response. */
  | "Reset"
  /** A timeout of the rule, or the idle timeout of the endpoint, expired. */
  | "Timeout"
  /** The backend sent a 5xx response. */
  | "BackendError";

/**
 * The failures in which no backend has received the request, so that no client can use a backend without using its own
 * limit.
 */
export const defaultRefundOn: readonly RefundCause[] = ["ConnectFailure", "Overload"];

/** The decision of one entry on a request. */
export interface LimitDecision {
  readonly limit: LocalLimit;
  /**
   * `shadowDenied`: would have been denied, but the entry's mode is Shadow. `notApplied`: the entry's `when` is false
   * for the request.
   */
  readonly outcome: "allowed" | "denied" | "shadowDenied" | "notApplied";
}

/** How the windows of a limit follow one another, if not one by one from the first request. */
export type LimitWindow =
  /** Each unit counts for one window from its request on. */
  | { readonly kind: "Sliding" }
  /** Windows begin with the days, weeks or months of a time zone of the IANA database. */
  | { readonly kind: "Calendar"; readonly timeZone: string };

/** The unit of a window. Months are units of the calendar only. */
export type LimitUnit = "Seconds" | "Minutes" | "Hours" | "Days" | "Weeks" | "Months";

/** Length of a window in milliseconds. A month has the mean of the calendar's; nothing is counted by it. */
export const unitMs: Readonly<Record<LimitUnit, number>> = {
  Seconds: 1_000,
  Minutes: 60_000,
  Hours: 3_600_000,
  Days: 86_400_000,
  Weeks: 604_800_000,
  Months: 2_629_746_000,
};
