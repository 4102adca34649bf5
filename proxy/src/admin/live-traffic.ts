/** Summarises the traffic of all workers from their metrics. Pure functions. */
import { localCounts } from "@gatewayproxy/admin-api/limits";
import type { Denial, Traffic, TrafficRoute } from "@gatewayproxy/admin-api/traffic";
import type { MetricDeclaration, MetricsSnapshot } from "@gatewayproxy/runtime/metrics";
import { requestMetrics } from "../telemetry/metric-table.ts";

/** Maximum number of routes in the summary. */
const maxRoutes = 50;

/**
 * Returns the traffic since the start.
 *
 * @param snapshot The sum of all threads.
 */
export function readTraffic(snapshot: MetricsSnapshot): Omit<Traffic, "at" | "startedAt" | "uptimeSeconds"> {
  const requests = rowsOf(snapshot, requestMetrics.requests);
  const routes = readRoutes(snapshot);
  return {
    requests: sumOf(requests),
    requestsInProgress: sumOf(rowsOf(snapshot, requestMetrics.activeRequests)),
    openConnections: sumOf(rowsOf(snapshot, requestMetrics.activeConnections)),
    statuses: countBy(requests, "code")
      .map(([code, count]) => ({ status: readNumber(code), requests: count }))
      .sort((a, b) => a.status - b.status),
    reasons: countBy(requests, "reason")
      .filter(([reason]) => reason !== "")
      .map(([reason, count]) => ({ reason, requests: count }))
      .sort((a, b) => b.requests - a.requests),
    durations: readDurations(snapshot),
    denials: readDenials(snapshot),
    tokens: readTokens(snapshot),
    routes: routes.slice(0, maxRoutes),
    routesLeftOut: Math.max(0, routes.length - maxRoutes),
  };
}

/** A series of a counter or a gauge, with its labels by name. */
interface Row {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

function rowsOf(snapshot: MetricsSnapshot, { name, labels }: MetricDeclaration): readonly Row[] {
  const series = snapshot.find((family) => family.name === name)?.series ?? [];
  return series.map(({ labels: values, data }) => ({
    labels: Object.fromEntries(labels.map((label, at) => [label, values[at] ?? ""])),
    value: data[0] ?? 0,
  }));
}

function sumOf(rows: readonly Row[]): number {
  return rows.reduce((sum, { value }) => sum + value, 0);
}

function countBy(rows: readonly Row[], label: string): readonly (readonly [string, number])[] {
  const groups = Map.groupBy(rows, ({ labels }) => labels[label] ?? "");
  return Array.from(groups, ([value, group]) => [value, sumOf(group)] as const);
}

/** Parses a number. Returns 0 for the label `other`, to which metrics add label sets beyond 10,000. */
function readNumber(code: string): number {
  return Number.isNaN(Number(code)) ? 0 : Number(code);
}

function readDurations(snapshot: MetricsSnapshot): Traffic["durations"] {
  const { name, buckets } = requestMetrics.requestDuration;
  const series = snapshot.find((family) => family.name === name)?.series ?? [];
  const requests = [...buckets, Infinity].map((_, at) => series.reduce((sum, { data }) => sum + (data[at] ?? 0), 0));
  return { boundsSeconds: [...buckets], requests };
}

function readTokens(snapshot: MetricsSnapshot): Traffic["tokens"] {
  const byType = new Map(countBy(rowsOf(snapshot, requestMetrics.tokens), "type"));
  return {
    input: byType.get("input") ?? 0,
    output: byType.get("output") ?? 0,
    other: byType.get("other") ?? 0,
    estimatedResponses: sumOf(rowsOf(snapshot, requestMetrics.estimatedUsage)),
  };
}

function readDenials(snapshot: MetricsSnapshot): readonly Denial[] {
  const local = rowsOf(snapshot, requestMetrics.limitDecisions);
  const global = rowsOf(snapshot, requestMetrics.globalLimitDecisions);
  const groups = Map.groupBy([...local, ...global], ({ labels: { policy, target, entry, counts } }) =>
    JSON.stringify([policy, target, entry, counts]),
  );
  return [...groups.values()]
    .map(readDenial)
    .filter(({ denied, shadowDenied, notApplied }) => denied + shadowDenied + notApplied > 0)
    .sort((a, b) => b.denied - a.denied || b.shadowDenied - a.shadowDenied);
}

/** @param rows The series of one limit, by decision. */
function readDenial(rows: readonly Row[]): Denial {
  const { policy = "", target = "", entry, counts } = rows[0]?.labels ?? {};
  const byDecision = new Map(countBy(rows, "decision"));
  return {
    policy,
    target,
    ...(entry !== undefined && entryOf(entry)),
    ...(counts !== undefined && { counts: countsOf(counts) }),
    denied: byDecision.get("denied") ?? 0,
    shadowDenied: byDecision.get("shadow_denied") ?? 0,
    notApplied: byDecision.get("not_applied") ?? 0,
  };
}

function countsOf(label: string): Denial["counts"] {
  const found = localCounts.safeParse(label);
  return found.success ? found.data : "requests";
}

/** The label of an entry is its name, or its index if it has none. A name begins with a letter. */
function entryOf(label: string): Pick<Denial, "entry" | "name"> {
  return /^\d+$/.test(label) ? { entry: Number(label) } : { name: label };
}

function readRoutes(snapshot: MetricsSnapshot): readonly TrafficRoute[] {
  const tokens = new Map(countBy(rowsOf(snapshot, requestMetrics.tokens), "route"));
  const byRoute = Map.groupBy(rowsOf(snapshot, requestMetrics.requests), ({ labels }) => labels["route"] ?? "");
  const routes = Array.from(byRoute, ([route, rows]) => ({
    route,
    requests: sumOf(rows),
    clientErrors: sumOf(rows.filter(({ labels }) => labels["code"]?.startsWith("4"))),
    serverErrors: sumOf(rows.filter(({ labels }) => labels["code"]?.startsWith("5"))),
    denied: sumOf(rows.filter(({ labels }) => labels["reason"] === "RateLimited")),
    tokens: tokens.get(route) ?? 0,
  }));
  return routes.sort((a, b) => b.requests - a.requests);
}
