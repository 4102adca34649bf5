/**
 * The headers that a rate limit service's response adds for the client and the backend. Headers that the service sends
 * take precedence. If it sends none of the `x-ratelimit-*` family, they are computed from the statuses in the format of
 * Envoy's filter (`10, 10;w=60`).
 */
import type { ShownLimit } from "../shown-limit.ts";
import type { GlobalDescriptor } from "../../../ir/global-limit.ts";
import type { DescriptorStatus, HeaderValue, RateLimitResponse } from "./messages.ts";

/** The limits that a response reports, for headers and for comparison with other limits. */
export interface LimitView {
  /** The `x-ratelimit-*` fields, as alternating names and values. */
  readonly limitHeaders: readonly string[];
  /** All other fields that the service sends to the client, as alternating names and values. */
  readonly otherHeaders: readonly string[];
  /** Remaining ÷ limit of the limit in the headers; undefined if they report none. */
  readonly share: number | undefined;
  /** For header families that list limits; undefined if the policy sends none of them. */
  readonly listed: readonly ShownLimit[] | undefined;
}

/** A denial by a service. It applies to its request, and to later ones until its reset. */
export interface ServiceDenial {
  readonly response: RateLimitResponse;
  /** When it was received; monotonic. */
  readonly atMs: number;
  /** Of the call, in the order of the statuses; without values, which a cached denial would keep in memory. */
  readonly descriptors: readonly GlobalDescriptor[];
}

/** Returns the headers of a response that allows the request. */
export function viewOfAllowed({ statuses, responseHeaders }: RateLimitResponse): LimitView {
  const nearestStatus = pickLowest(statuses);
  const split = splitHeaders(responseHeaders, isLeftOutOfAllowed);
  if (split.limitHeaders.length > 0) {
    return {
      ...split,
      share: nearestStatus === undefined ? shareOfHeaders(split.limitHeaders) : shareOf(nearestStatus),
      listed: undefined,
    };
  }
  if (nearestStatus === undefined) return { ...split, share: undefined, listed: undefined };
  return {
    ...split,
    limitHeaders: statusHeaders(nearestStatus, statuses, nearestStatus.resetMs),
    share: shareOf(nearestStatus),
    listed: undefined,
  };
}

/**
 * Returns the headers of a denial, as alternating names and values, with content type and `retry-after`.
 *
 * @param nowMs Monotonic; a cached denial shows the rest of the time until its reset.
 * @param addsRatelimited Whether to add `x-envoy-ratelimited` if the service does not send it.
 * @param hasLimit Whether to include `x-ratelimit-limit`, `-remaining` and `-reset`.
 */
export function denialHeaders(
  { response, atMs }: Omit<ServiceDenial, "descriptors">,
  nowMs: number,
  addsRatelimited: boolean,
  hasLimit = true,
): string[] {
  const { statuses, responseHeaders } = response;
  const passedMs = nowMs - atMs;
  const overLimit = pickOverLimit(statuses);
  const remainingMs = overLimit?.resetMs === undefined ? undefined : Math.max(0, overLimit.resetMs - passedMs);
  const { limitHeaders, otherHeaders } = splitHeaders(responseHeaders, isFraming);
  const headers: string[] = [];
  if (!hasLimit) headers.length = 0;
  else if (limitHeaders.length > 0) headers.push(...withReset(limitHeaders, remainingMs));
  else if (overLimit?.limit === undefined) headers.push("x-ratelimit-remaining", "0");
  else headers.push(...statusHeaders(overLimit, statuses, remainingMs));
  headers.push(...withRetryAfter(otherHeaders, passedMs));
  if (addsRatelimited && !has(headers, "x-envoy-ratelimited")) headers.push("x-envoy-ratelimited", "true");
  if (remainingMs !== undefined && !has(headers, "retry-after")) {
    headers.push("retry-after", String(wholeSeconds(remainingMs, 1)));
  }
  if (!has(headers, "content-type")) headers.push("content-type", "text/plain");
  return headers;
}

/**
 * Returns the time for which a denial certainly lasts: until the first reset of a limit that is over. Most services
 * round resets up to whole seconds, so a whole number of seconds is shortened by one. 0 if unknown.
 */
export function minDenialMs(statuses: readonly DescriptorStatus[]): number {
  let earliest: number | undefined;
  for (const { code, resetMs } of statuses) {
    if (code !== "OVER_LIMIT") continue;
    if (resetMs === undefined) return 0;
    const leastMs = resetMs % 1_000 === 0 ? resetMs - 1_000 : resetMs;
    if (earliest === undefined || leastMs < earliest) earliest = leastMs;
  }
  return Math.max(0, earliest ?? 0);
}

/** Returns the first status with the least remaining, of those with a limit, as Envoy does. */
function pickLowest(statuses: readonly DescriptorStatus[]): DescriptorStatus | undefined {
  let lowest: DescriptorStatus | undefined;
  for (const status of statuses) {
    if (status.limit === undefined) continue;
    if (lowest === undefined || status.remaining < lowest.remaining) lowest = status;
  }
  return lowest;
}

/** Returns the status over limit with the latest reset; of those without a reset the first. */
function pickOverLimit(statuses: readonly DescriptorStatus[]): DescriptorStatus | undefined {
  let picked: DescriptorStatus | undefined;
  for (const status of statuses) {
    if (status.code !== "OVER_LIMIT") continue;
    if (picked === undefined || (status.resetMs ?? -1) > (picked.resetMs ?? -1)) picked = status;
  }
  return picked;
}

/**
 * Returns the fields of a status, such as `10, 10;w=60, 1000;w=3600;name="team"`: the picked limit, then every limit
 * with a known window.
 */
function statusHeaders(
  picked: DescriptorStatus,
  statuses: readonly DescriptorStatus[],
  resetMs: number | undefined,
): readonly string[] {
  let limit = String(picked.limit?.requestsPerUnit ?? 0);
  for (const { limit: statusLimit } of statuses) {
    if (statusLimit?.windowSeconds === undefined) continue;
    let entry = `, ${statusLimit.requestsPerUnit};w=${statusLimit.windowSeconds}`;
    if (statusLimit.name !== "") entry += `;name="${statusLimit.name.replaceAll(/[^\x20-\x7e]|["\\]/g, "")}"`;
    if (limit.length + entry.length > maxLimitLength) break;
    limit += entry;
  }
  const headers = ["x-ratelimit-limit", limit, "x-ratelimit-remaining", String(picked.remaining)];
  if (resetMs !== undefined) headers.push("x-ratelimit-reset", String(wholeSeconds(resetMs, 0)));
  return headers;
}

/** Maximum characters of `x-ratelimit-limit`; the picked limit is always included. */
const maxLimitLength = 1_024;
/**
 * Maximum characters of all fields that a service adds to a request or a response; clients and backends reject long
 * header sections.
 */
const maxAddedLength = 8 * 1_024;
/** Maximum number of these fields; many servers and clients accept a hundred in a message. */
const maxAddedFields = 64;

function shareOf({ remaining, limit }: DescriptorStatus): number {
  return remaining / Math.max(1, limit?.requestsPerUnit ?? 1);
}

/**
 * Returns the share from the service's own headers, 0 if they are not numbers, for a service that sends no statuses.
 */
function shareOfHeaders(headers: readonly string[]): number {
  const figure = (name: string): number => Number.parseInt(headers[headers.indexOf(name) + 1] ?? "", 10);
  const share = figure("x-ratelimit-remaining") / figure("x-ratelimit-limit");
  return Number.isFinite(share) ? share : 0;
}

function withReset(headers: readonly string[], remainingMs: number | undefined): readonly string[] {
  const at = headers.indexOf("x-ratelimit-reset") + 1;
  return at === 0 || remainingMs === undefined ? headers : headers.with(at, String(wholeSeconds(remainingMs, 0)));
}

/** Returns the headers with `retry-after` reduced by `passedMs`, at most ten years. A date is left unchanged. */
function withRetryAfter(headers: readonly string[], passedMs: number): readonly string[] {
  const at = headers.indexOf("retry-after") + 1;
  const seconds = at === 0 ? Number.NaN : Math.min(Number(headers[at]), maxRetryAfterSeconds);
  return Number.isFinite(seconds) ? headers.with(at, String(wholeSeconds(seconds * 1_000 - passedMs, 1))) : headers;
}

/** The longest reset of a status, too. */
const maxRetryAfterSeconds = 10 * 31_536_000;

function wholeSeconds(ms: number, least: number): number {
  return Math.max(least, Math.ceil(ms / 1_000));
}

const limitFamily: ReadonlySet<string> = new Set(["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]);
/** Fields that may occur only once. */
const uniqueFields: ReadonlySet<string> = new Set([
  ...limitFamily,
  "x-envoy-ratelimited",
  "retry-after",
  "content-type",
]);
/**
 * Fields of the message framing and the connection, which the gateway sets itself, and those that change how a request
 * is read.
 */
const framing: ReadonlySet<string> = new Set([
  ...["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te", "trailer"],
  ...["expect", "http2-settings"],
  ...["content-length", "content-encoding", "host", "date"],
]);

function isFraming(name: string): boolean {
  return framing.has(name);
}

/**
 * Returns whether a field is left out of the response to an allowed request: fields about a denial do not apply to the
 * backend's response.
 */
function isLeftOutOfAllowed(name: string): boolean {
  return isFraming(name) || name === "content-type" || name === "retry-after" || name === "x-envoy-ratelimited";
}

/**
 * Returns the fields that the service adds to the request for the backend, as alternating names and values, without
 * framing.
 */
export function backendHeaders({ requestHeaders }: RateLimitResponse): readonly string[] {
  if (requestHeaders.length === 0) return none;
  return splitHeaders(requestHeaders, isFraming).otherHeaders;
}

const none: readonly string[] = [];
const noFields = { limitHeaders: none, otherHeaders: none };

/**
 * Splits the fields by family. Names are in lower case. Leaves out fields that are invalid, repeated, dropped by
 * `isDropped`, or beyond `maxAddedLength` or `maxAddedFields`.
 */
function splitHeaders(
  headers: readonly HeaderValue[],
  isDropped: (name: string) => boolean,
): Pick<LimitView, "limitHeaders" | "otherHeaders"> {
  if (headers.length === 0) return noFields;
  const limitHeaders: string[] = [];
  const otherHeaders: string[] = [];
  let remainingLength = maxAddedLength;
  for (const { name, value } of headers) {
    if (isDropped(name) || !tokenPattern.test(name) || !valuePattern.test(value)) continue;
    if (numericFields.get(name)?.test(value.trim()) === false) continue;
    const list = limitFamily.has(name) ? limitHeaders : otherHeaders;
    if (remainingLength < name.length + value.length || isRepeated(list, name, value)) continue;
    if (limitHeaders.length + otherHeaders.length === 2 * maxAddedFields) break;
    remainingLength -= name.length + value.length;
    list.push(name, value);
  }
  return { limitHeaders, otherHeaders };
}

/** RFC 9110 §5.6.2 and §5.5; values are sent in latin1. */
const tokenPattern = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
const valuePattern = /^[\t\x20-\x7e\x80-\xff]*$/;

/**
 * The forms of fields that clients read as numbers. A value of another form is left out, since clients would wait for
 * ever, or not at all.
 */
const numericFields: ReadonlyMap<string, RegExp> = new Map([
  // Seconds, also with decimals, which are rounded up; or a date (RFC 9110 §5.6.7).
  ["retry-after", /^(?:\d{1,15}(?:\.\d{1,9})?|[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT)$/],
  // The limit, and in the format of Envoy more limits and their windows.
  ["x-ratelimit-limit", /^\d{1,15}(?:$| *[,;])/],
  ["x-ratelimit-remaining", /^\d{1,15}$/],
  ["x-ratelimit-reset", /^\d{1,15}(?:\.\d{1,9})?$/],
]);

function isRepeated(list: readonly string[], name: string, value: string): boolean {
  for (let at = 0; at < list.length; at += 2) {
    if (list[at] === name && (uniqueFields.has(name) || list[at + 1] === value)) return true;
  }
  return false;
}

function has(list: readonly string[], name: string): boolean {
  for (let at = 0; at < list.length; at += 2) if (list[at] === name) return true;
  return false;
}
