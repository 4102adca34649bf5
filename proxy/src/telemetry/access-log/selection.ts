/** Chooses the requests that are logged by their outcome, before any expression is evaluated. */
import type { RequestRecord } from "../request-record.ts";
import { hasEndedWell, type StreamRecord } from "../stream-record.ts";

/**
 * `denied-and-failed` leaves out requests with a response below 500 from a backend that no limit denied, not even one
 * in mode Shadow.
 */
export const accessLogModes = ["on", "off", "denied-and-failed"] as const;
/** The requests that are logged. */
export type AccessLogMode = (typeof accessLogModes)[number];

/** The settings of the choice. */
export interface Selection {
  readonly mode: AccessLogMode;
  /** The share of successes that is logged, from 0 to 1. */
  readonly successRatio: number;
  /** The duration from which on a request is logged, whatever the ratio; 0: no duration. */
  readonly slowMs: number;
}

/**
 * Whether a limit denied the request, or would have in mode Shadow, the proxy itself responded, or the response has a
 * status of 500 or more.
 */
export function isDeniedOrFailed({ reason, status, decisions, globalDecisions }: RequestRecord): boolean {
  if (reason !== undefined || status >= 500) return true;
  return [...decisions, ...globalDecisions].some(({ outcome }) => outcome === "denied" || outcome === "shadowDenied");
}

/** Returns the choice of a relayed connection or session by its end. @param random 0 ≤ random() < 1 */
export function streamSelectionOf(
  { mode, successRatio, slowMs }: Selection,
  random: () => number,
): (record: StreamRecord) => boolean {
  if (mode === "off") return () => false;
  const isSuccess = (record: StreamRecord): boolean =>
    hasEndedWell(record) && !record.decisions.some(({ outcome }) => outcome === "shadowDenied");
  if (mode === "denied-and-failed") return (record) => !isSuccess(record);
  const isSlow = ({ durationMs }: StreamRecord): boolean => slowMs > 0 && durationMs >= slowMs;
  return (record) => !isSuccess(record) || isSlow(record) || random() < successRatio;
}

/** Whether a request has succeeded: no error for its client, of HTTP or gRPC, and no denial in mode Shadow. */
function isSuccess(record: RequestRecord): boolean {
  return record.status < 400 && (record.grpcStatus ?? 0) === 0 && !isDeniedOrFailed(record);
}

/** Returns the choice of a request by its outcome. @param random 0 ≤ random() < 1 */
export function selectionOf(
  { mode, successRatio, slowMs }: Selection,
  random: () => number,
): (record: RequestRecord) => boolean {
  if (mode === "off") return () => false;
  if (mode === "denied-and-failed") return isDeniedOrFailed;
  if (successRatio >= 1) return () => true;
  const isSlow = ({ durationMs }: RequestRecord): boolean => slowMs > 0 && durationMs >= slowMs;
  return (record) => !isSuccess(record) || isSlow(record) || random() < successRatio;
}
