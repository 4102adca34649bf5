/**
 * Response headers that tell a client where it stands. `envoy` is the form that Envoy's own filter writes, so a proxy
 * that adds none shows the same; `ratelimit` is the reference's three plain numbers under configurable names.
 */
import type { CurrentLimit, DescriptorStatus, HeaderValue } from "./rate-limit.ts";

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

/** A descriptor's status with what the headers need beside it. */
export interface HeaderSubject {
  readonly status: DescriptorStatus;
  /** `, 10;w=60`; empty where there is no limit. */
  readonly headerPolicy: string;
  /** A quota alone refuses no call. */
  readonly isQuota: boolean;
}

const limitedHeader: HeaderValue = { key: "x-envoy-ratelimited", value: "true" };
const none: readonly HeaderValue[] = [];

/** The headers of an answer. `subjects` are those descriptors that have a limit, in order. */
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

/** `10, 10;w=60, 500;w=3600;name="per-team"`: the limit in question, then every limit of the call. */
function envoyLimit(limit: CurrentLimit, subjects: readonly HeaderSubject[]): string {
  let text = String(limit.requestsPerUnit);
  for (const { headerPolicy } of subjects) text += headerPolicy;
  return text;
}

/** The limit nearest to its end; for a refusal the one that refuses, and of several the one that takes longest. */
function pickForEnvoy(subjects: readonly HeaderSubject[], isOverLimit: boolean): HeaderSubject | undefined {
  let shown: HeaderSubject | undefined;
  for (const subject of subjects) {
    const refuses = subject.status.code === "OVER_LIMIT";
    if (isOverLimit && !refuses) continue;
    if (shown === undefined || isNearer(subject.status, shown.status)) shown = subject;
  }
  return shown;
}

function isNearer(a: DescriptorStatus, b: DescriptorStatus): boolean {
  if (a.limitRemaining !== b.limitRemaining) return a.limitRemaining < b.limitRemaining;
  if (a.code !== "OVER_LIMIT" || b.code !== "OVER_LIMIT") return false;
  return (a.durationUntilResetSeconds ?? 0) > (b.durationUntilResetSeconds ?? 0);
}

/** The first with the least remaining; but the last that is over its limit, if any is, quotas aside. */
function pickForReference(subjects: readonly HeaderSubject[]): HeaderSubject | undefined {
  let shown: HeaderSubject | undefined;
  let isDecided = false;
  for (const subject of subjects) {
    const refuses = subject.status.code === "OVER_LIMIT" && !subject.isQuota;
    const isNearest = shown === undefined || subject.status.limitRemaining < shown.status.limitRemaining;
    if (refuses || (!isDecided && isNearest)) shown = subject;
    isDecided ||= refuses;
  }
  return shown;
}
