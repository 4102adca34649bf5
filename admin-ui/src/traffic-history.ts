/**
 * The traffic of the last minutes, computed from successive responses of `/traffic`. The server only counts; rates,
 * percentiles and plots are differences of two responses. Pure functions.
 */
import type { Traffic } from "@gatewayproxy/admin-api/traffic";

/** The time span of the plots, in seconds. */
const keptSeconds = 300;

/** Responses, oldest first, all since the same start of the proxy. */
export type TrafficHistory = readonly Traffic[];

/** Adds the newest response and removes those that are too old. A restarted proxy begins a new history. */
export function remember(history: TrafficHistory, newest: Traffic): TrafficHistory {
  const last = history.at(-1);
  if (last?.startedAt !== newest.startedAt) return [newest];
  if (newest.uptimeSeconds <= last.uptimeSeconds) return history;
  const oldest = newest.uptimeSeconds - keptSeconds;
  return [...history.filter(({ uptimeSeconds }) => uptimeSeconds >= oldest), newest];
}

/** Two responses and the time between them. */
export interface Span {
  readonly from: Traffic;
  readonly to: Traffic;
  /** Always greater than 0. */
  readonly seconds: number;
}

/** Returns the `seconds` before the response at index `at`, or as much as there is; undefined if there is nothing. */
export function spanBefore(history: TrafficHistory, seconds: number, at = history.length - 1): Span | undefined {
  const to = history[at];
  if (to === undefined) return undefined;
  // Responses arrive a little later than their period.
  const earliest = to.uptimeSeconds - seconds * 1.05;
  const from = history.find(({ uptimeSeconds }) => uptimeSeconds >= earliest);
  if (from === undefined || from === to) return undefined;
  return { from, to, seconds: to.uptimeSeconds - from.uptimeSeconds };
}

/** Returns how much a figure has grown, at least 0. */
export function growth({ from, to }: Span, read: (traffic: Traffic) => number): number {
  return Math.max(0, read(to) - read(from));
}

/** Classes of response statuses; `none` if the client closed the connection before a response began. */
export const statusClasses = ["2xx", "3xx", "4xx", "5xx", "1xx", "none"] as const;
/** A class of response statuses. */
export type StatusClass = (typeof statusClasses)[number];

/** Returns a function that reads the requests of a class since the start. */
export function requestsOf(wanted: StatusClass): (traffic: Traffic) => number {
  return ({ statuses }) =>
    statuses.reduce((sum, { status, requests }) => (classOf(status) === wanted ? sum + requests : sum), 0);
}

/** Returns the class of a response status. */
export function classOf(status: number): StatusClass {
  const name = `${Math.floor(status / 100)}xx`;
  return statusClasses.find((each) => each === name) ?? "none";
}

/** Returns the requests that limits denied since the start. */
export function deniedOf({ reasons }: Traffic): number {
  return reasons.find(({ reason }) => reason === "RateLimited")?.requests ?? 0;
}

/**
 * Returns the percentile of request durations in milliseconds; a `share` of 0.99 is the 99th percentile. Requests are
 * taken to be spread evenly within a bucket; above the last bound the result is that bound. Undefined without requests.
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
