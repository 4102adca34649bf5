/**
 * What the client is told of a service's answer. Headers of the service win; where it sends none of the `x-ratelimit-*`
 * family, they are made of the statuses in the format of Envoy's filter (`10, 10;w=60`), which clients of Envoy know.
 */
import type { DescriptorStatus, HeaderValue, RateLimitAnswer } from "./messages.ts";

/** What an answer says of the limits, for headers and for comparing limits with each other. */
export interface LimitView {
  /** `x-ratelimit-*`, flat. */
  readonly limitHeaders: readonly string[];
  /** Everything else that the service wants the client to see, flat. */
  readonly otherHeaders: readonly string[];
  /** Remaining ÷ limit of the limit that the headers tell of; undefined where they tell of none. */
  readonly share: number | undefined;
}

/** A refusal by a service, to be answered now or again while it lasts. */
export interface Refusal {
  readonly answer: RateLimitAnswer;
  /** When it came; monotonic. */
  readonly atMs: number;
}

/** Of an answer that lets the request pass. */
export function viewOfPass({ statuses, responseHeaders }: RateLimitAnswer): LimitView {
  const own = pickLowest(statuses);
  const split = splitHeaders(responseHeaders, isDroppedFromPass);
  if (split.limitHeaders.length > 0) {
    return { ...split, share: own === undefined ? shareOfHeaders(split.limitHeaders) : shareOf(own) };
  }
  if (own === undefined) return { ...split, share: undefined };
  return { ...split, limitHeaders: statusHeaders(own, statuses, own.resetMs), share: shareOf(own) };
}

/**
 * The headers of a refusal, flat: content type and `retry-after` included.
 *
 * @param nowMs monotonic; a refusal that is remembered shows what is left of its reset.
 * @param isMarked says `x-envoy-ratelimited` where the service does not.
 */
export function refusalHeaders({ answer, atMs }: Refusal, nowMs: number, isMarked: boolean): string[] {
  const { statuses, responseHeaders } = answer;
  const passedMs = nowMs - atMs;
  const own = pickRefusing(statuses);
  const leftMs = own?.resetMs === undefined ? undefined : Math.max(0, own.resetMs - passedMs);
  const { limitHeaders, otherHeaders } = splitHeaders(responseHeaders, isFraming);
  const headers: string[] = [];
  if (limitHeaders.length > 0) headers.push(...withReset(limitHeaders, leftMs));
  else if (own?.limit === undefined) headers.push("x-ratelimit-remaining", "0");
  else headers.push(...statusHeaders(own, statuses, leftMs));
  headers.push(...withRetryAfter(otherHeaders, passedMs));
  if (isMarked && !has(headers, "x-envoy-ratelimited")) headers.push("x-envoy-ratelimited", "true");
  if (leftMs !== undefined && !has(headers, "retry-after"))
    headers.push("retry-after", String(wholeSeconds(leftMs, 1)));
  if (!has(headers, "content-type")) headers.push("content-type", "text/plain");
  return headers;
}

/**
 * How long a refusal holds in any case: to the first reset of a limit that refuses, when the answer may be another. Most
 * services round resets up to whole seconds, so up to one may be missing of those. 0 where nobody knows.
 */
export function certainMs(statuses: readonly DescriptorStatus[]): number {
  let earliest: number | undefined;
  for (const { code, resetMs } of statuses) {
    if (code !== "OVER_LIMIT") continue;
    if (resetMs === undefined) return 0;
    const leastMs = resetMs % 1_000 === 0 ? resetMs - 1_000 : resetMs;
    if (earliest === undefined || leastMs < earliest) earliest = leastMs;
  }
  return Math.max(0, earliest ?? 0);
}

/** As Envoy does: the first with the least remaining, of those that have a limit. */
function pickLowest(statuses: readonly DescriptorStatus[]): DescriptorStatus | undefined {
  let lowest: DescriptorStatus | undefined;
  for (const status of statuses) {
    if (status.limit === undefined) continue;
    if (lowest === undefined || status.remaining < lowest.remaining) lowest = status;
  }
  return lowest;
}

/** The one that refuses longest; of those without a reset the first. */
function pickRefusing(statuses: readonly DescriptorStatus[]): DescriptorStatus | undefined {
  let picked: DescriptorStatus | undefined;
  for (const status of statuses) {
    if (status.code !== "OVER_LIMIT") continue;
    if (picked === undefined || (status.resetMs ?? -1) > (picked.resetMs ?? -1)) picked = status;
  }
  return picked;
}

/** `10, 10;w=60, 1000;w=3600;name="team"`: the limit in question, then every limit whose window is known. */
function statusHeaders(
  picked: DescriptorStatus,
  statuses: readonly DescriptorStatus[],
  resetMs: number | undefined,
): readonly string[] {
  let limit = String(picked.limit?.requestsPerUnit ?? 0);
  for (const { limit: each } of statuses) {
    if (each?.windowSeconds === undefined) continue;
    let entry = `, ${each.requestsPerUnit};w=${each.windowSeconds}`;
    if (each.name !== "") entry += `;name="${each.name.replaceAll(/[^\x20-\x7e]|["\\]/g, "")}"`;
    if (limit.length + entry.length > maxLimitLength) break;
    limit += entry;
  }
  const headers = ["x-ratelimit-limit", limit, "x-ratelimit-remaining", String(picked.remaining)];
  if (resetMs !== undefined) headers.push("x-ratelimit-reset", String(wholeSeconds(resetMs, 0)));
  return headers;
}

/** Characters of `x-ratelimit-limit`; the limit in question is always among them. */
const maxLimitLength = 1_024;
/** Characters of all fields that a service adds to a request or a response; clients and backends refuse long heads. */
const maxAddedLength = 8 * 1_024;

function shareOf({ remaining, limit }: DescriptorStatus): number {
  return remaining / Math.max(1, limit?.requestsPerUnit ?? 1);
}

/** A service that sends headers and no statuses: its own figures, or as near as can be where they are none. */
function shareOfHeaders(headers: readonly string[]): number {
  const figure = (name: string): number => Number.parseInt(headers[headers.indexOf(name) + 1] ?? "", 10);
  const share = figure("x-ratelimit-remaining") / figure("x-ratelimit-limit");
  return Number.isFinite(share) ? share : 0;
}

function withReset(headers: readonly string[], leftMs: number | undefined): readonly string[] {
  const at = headers.indexOf("x-ratelimit-reset") + 1;
  return at === 0 || leftMs === undefined ? headers : headers.with(at, String(wholeSeconds(leftMs, 0)));
}

/** A service's `retry-after` in seconds, as of `passedMs` later; a date stays as it is. */
function withRetryAfter(headers: readonly string[], passedMs: number): readonly string[] {
  const at = headers.indexOf("retry-after") + 1;
  const seconds = at === 0 ? Number.NaN : Number(headers[at]);
  return Number.isFinite(seconds) ? headers.with(at, String(wholeSeconds(seconds * 1_000 - passedMs, 1))) : headers;
}

function wholeSeconds(ms: number, least: number): number {
  return Math.max(least, Math.ceil(ms / 1_000));
}

const limitFamily: ReadonlySet<string> = new Set(["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]);
/** Of these one value is all that makes sense. */
const singles: ReadonlySet<string> = new Set([...limitFamily, "x-envoy-ratelimited", "retry-after", "content-type"]);
/** What belongs to the message and its connection is ours to say. */
const framing: ReadonlySet<string> = new Set([
  ...["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te", "trailer"],
  ...["content-length", "content-encoding", "host", "date"],
]);

function isFraming(name: string): boolean {
  return framing.has(name);
}

/** What is for a refusal alone has no place on the backend's own answer. */
function isDroppedFromPass(name: string): boolean {
  return isFraming(name) || name === "content-type" || name === "retry-after" || name === "x-envoy-ratelimited";
}

/** Headers that the service wants the backend to see, flat; what frames the request is ours to say. */
export function backendHeaders({ requestHeaders }: RateLimitAnswer): readonly string[] {
  if (requestHeaders.length === 0) return none;
  return splitHeaders(requestHeaders, isFraming).otherHeaders;
}

const none: readonly string[] = [];
const nothing = { limitHeaders: none, otherHeaders: none };

/** Names are lower case already. What would break a message is left out, and so is what says nothing new or is too much. */
function splitHeaders(
  headers: readonly HeaderValue[],
  isDropped: (name: string) => boolean,
): Pick<LimitView, "limitHeaders" | "otherHeaders"> {
  if (headers.length === 0) return nothing;
  const limitHeaders: string[] = [];
  const otherHeaders: string[] = [];
  let left = maxAddedLength;
  for (const { name, value } of headers) {
    if (isDropped(name) || !tokenPattern.test(name) || !valuePattern.test(value)) continue;
    const list = limitFamily.has(name) ? limitHeaders : otherHeaders;
    if (left < name.length + value.length || says(list, name, value)) continue;
    left -= name.length + value.length;
    list.push(name, value);
  }
  return { limitHeaders, otherHeaders };
}

/** RFC 9110 §5.6.2 and §5.5; a value is sent in latin1. */
const tokenPattern = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
const valuePattern = /^[\t\x20-\x7e\x80-\xff]*$/;

function says(list: readonly string[], name: string, value: string): boolean {
  for (let at = 0; at < list.length; at += 2) {
    if (list[at] === name && (singles.has(name) || list[at + 1] === value)) return true;
  }
  return false;
}

function has(list: readonly string[], name: string): boolean {
  for (let at = 0; at < list.length; at += 2) if (list[at] === name) return true;
  return false;
}
