/**
 * Response headers with the limits and the remaining requests. `envoy` is the form of Envoy's own filter, so a client
 * gets the same headers from a proxy that adds none itself; `ratelimit` is envoyproxy/ratelimit's three plain numbers
 * under configurable names.
 */
import type { CurrentLimit, DescriptorStatus, HeaderValue } from "../model/rate-limit.ts";

/** The headers of responses; `off` sends none. */
export type HeaderStyle =
  | { readonly kind: "off" }
  | { readonly kind: "envoy" }
  | {
      readonly kind: "ratelimit";
      /** Header names (LIMIT_LIMIT_HEADER, LIMIT_REMAINING_HEADER, LIMIT_RESET_HEADER). */
      readonly limit: string;
      readonly remaining: string;
      readonly reset: string;
    };

/** A descriptor's status, with the data that the headers need. */
export interface HeaderSubject {
  readonly status: DescriptorStatus;
  /** For example `, 10;w=60`; empty where there is no limit. */
  readonly headerPolicy: string;
  /** A quota alone denies no call. */
  readonly isQuota: boolean;
}

const limitedHeader: HeaderValue = { key: "x-envoy-ratelimited", value: "true" };
const none: readonly HeaderValue[] = [];

/** Returns the headers of a response. `subjects` are the descriptors that have a limit, in order. */
export function responseHeaders(
  style: HeaderStyle,
  subjects: readonly HeaderSubject[],
  isOverLimit: boolean,
): readonly HeaderValue[] {
  if (style.kind === "off") return none;
  const isEnvoy = style.kind === "envoy";
  const shown = isEnvoy ? pickForEnvoy(subjects, isOverLimit) : pickForReference(subjects);
  const limit = shown?.status.currentLimit;
  if (shown === undefined || limit === undefined) return isEnvoy && isOverLimit ? [limitedHeader] : none;
  const remaining = String(shown.status.limitRemaining);
  const reset = String(shown.status.durationUntilResetSeconds ?? 0);
  if (!isEnvoy) {
    return [
      { key: style.limit, value: String(limit.requestsPerUnit) },
      { key: style.remaining, value: remaining },
      { key: style.reset, value: reset },
    ];
  }
  const headers = [
    { key: "x-ratelimit-limit", value: envoyLimit(limit, subjects) },
    { key: "x-ratelimit-remaining", value: remaining },
    { key: "x-ratelimit-reset", value: reset },
  ];
  return isOverLimit ? [limitedHeader, ...headers] : headers;
}

/** Renders `10, 10;w=60, 500;w=3600;name="per-team"`: the selected limit, then every limit of the call. */
function envoyLimit(limit: CurrentLimit, subjects: readonly HeaderSubject[]): string {
  let text = String(limit.requestsPerUnit);
  for (const { headerPolicy } of subjects) text += headerPolicy;
  return text;
}

/**
 * Selects the limit with the least remaining. For a denied call it is the one that denies; of several, the one that
 * resets last.
 */
function pickForEnvoy(subjects: readonly HeaderSubject[], isOverLimit: boolean): HeaderSubject | undefined {
  let shown: HeaderSubject | undefined;
  for (const subject of subjects) {
    const denies = subject.status.code === "OVER_LIMIT";
    if (isOverLimit && !denies) continue;
    if (shown === undefined || isNearer(subject.status, shown.status)) shown = subject;
  }
  return shown;
}

function isNearer(a: DescriptorStatus, b: DescriptorStatus): boolean {
  if (a.limitRemaining !== b.limitRemaining) return a.limitRemaining < b.limitRemaining;
  if (a.code !== "OVER_LIMIT" || b.code !== "OVER_LIMIT") return false;
  return (a.durationUntilResetSeconds ?? 0) > (b.durationUntilResetSeconds ?? 0);
}

/**
 * Selects the last limit that denies the call, quotas excluded; if none denies it, the first limit with the least
 * remaining.
 */
function pickForReference(subjects: readonly HeaderSubject[]): HeaderSubject | undefined {
  let shown: HeaderSubject | undefined;
  let isDecided = false;
  for (const subject of subjects) {
    const denies = subject.status.code === "OVER_LIMIT" && !subject.isQuota;
    const isNearest = shown === undefined || subject.status.limitRemaining < shown.status.limitRemaining;
    if (denies || (!isDecided && isNearest)) shown = subject;
    isDecided ||= denies;
  }
  return shown;
}
