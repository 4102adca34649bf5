/**
 * The traffic of the last minutes, made of answers of `/traffic` that came one after the other. The server only counts;
 * rates, percentiles and plots are differences of two counts. Pure.
 */
import type { Traffic } from "@gatewayproxy/admin-api/traffic";

/** How far back the plots go. */
const keptSeconds = 300;

/** Oldest first; all of one run of the proxy. */
export type TrafficHistory = readonly Traffic[];

/** Adds the newest answer and forgets those that are too old. A restarted proxy begins a new history. */
export function remember(history: TrafficHistory, newest: Traffic): TrafficHistory {
  const last = history.at(-1);
  if (last?.startedAt !== newest.startedAt) return [newest];
  if (newest.uptimeSeconds <= last.uptimeSeconds) return history;
  const oldest = newest.uptimeSeconds - keptSeconds;
  return [...history.filter(({ uptimeSeconds }) => uptimeSeconds >= oldest), newest];
}

/** Two answers and the time between them. */
export interface Span {
  readonly from: Traffic;
  readonly to: Traffic;
  /** Above 0. */
  readonly seconds: number;
}

/** The last `seconds` before the answer at `at`, or as much of them as was seen; undefined where that is nothing. */
export function spanBefore(history: TrafficHistory, seconds: number, at = history.length - 1): Span | undefined {
  const to = history[at];
  if (to === undefined) return undefined;
  // Answers come a little later than they are asked for.
  const earliest = to.uptimeSeconds - seconds * 1.05;
  const from = history.find(({ uptimeSeconds }) => uptimeSeconds >= earliest);
  if (from === undefined || from === to) return undefined;
  return { from, to, seconds: to.uptimeSeconds - from.uptimeSeconds };
}

/** How much a figure has grown; never below 0. */
export function growth({ from, to }: Span, read: (traffic: Traffic) => number): number {
  return Math.max(0, read(to) - read(from));
}

export const statusClasses = ["2xx", "3xx", "4xx", "5xx", "1xx", "none"] as const;
/** `none`: the client left before an answer began. */
export type StatusClass = (typeof statusClasses)[number];

/** Requests of a class since the start. */
export function requestsOf(wanted: StatusClass): (traffic: Traffic) => number {
  return ({ statuses }) =>
    statuses.reduce((sum, { status, requests }) => (classOf(status) === wanted ? sum + requests : sum), 0);
}

export function classOf(status: number): StatusClass {
  const name = `${Math.floor(status / 100)}xx`;
  return statusClasses.find((each) => each === name) ?? "none";
}

/** Requests that some limit refused, since the start. */
export function deniedOf({ reasons }: Traffic): number {
  return reasons.find(({ reason }) => reason === "RateLimited")?.requests ?? 0;
}

/**
 * How long the given share of requests took at most, in milliseconds: 0.99 is the 99th percentile. Within a bucket
 * requests are taken to be spread evenly, beyond the last bound to take just that. Undefined without a request.
 */
export function percentileMs(span: Span, share: number): number | undefined {
  const { boundsSeconds } = span.to.durations;
  const requests = span.to.durations.requests.map((count, at) => count - (span.from.durations.requests[at] ?? 0));
  const wanted = share * requests.reduce((sum, count) => sum + count, 0);
  if (wanted <= 0) return undefined;
  let below = 0;
  for (const [at, count] of requests.entries()) {
    if (below + count < wanted) {
      below += count;
      continue;
    }
    const lower = boundsSeconds[at - 1] ?? 0;
    const upper = boundsSeconds[at] ?? lower;
    return 1_000 * (lower + ((wanted - below) / count) * (upper - lower));
  }
  return undefined;
}
