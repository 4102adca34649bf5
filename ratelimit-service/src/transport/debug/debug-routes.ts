/**
 * The routes of the debug port, for operators. All are read-only, except DELETE and POST of /counters.
 *
 * /                     this list
 * /rlconfig             the limits in use
 * /config_status        the result of the last load, file by file
 * /match                the rule that a descriptor matches, and why
 * /counters             the counters of running windows; DELETE deletes some, POST sets those of a descriptor
 * /stats, /metrics      the counts, as names with values and for Prometheus
 * /debug/pprof/profile  CPU profile
 * /debug/pprof/heap     heap profile
 */

import type { MetricsPage } from "@gatewayproxy/runtime/metrics-page";
import type { ThreadProfile } from "@gatewayproxy/runtime/pprof";
import type { Profiler } from "@gatewayproxy/runtime/profiler";
import { renderConfigProblem } from "../../config/config-problem.ts";
import type { ConfigStatus } from "../../config/live-config.ts";
import {
  type HttpResponse,
  type HttpRequest,
  type HttpRoute,
  jsonResponse,
  textResponse,
} from "../http/http-server.ts";
import { configDump, renderConfigText } from "./config-dump.ts";
import { type CounterAccess, countersRoute, readNumber } from "./counter-routes.ts";
import { explainMatch } from "./explain-match.ts";

/** The data that the debug port can show. */
export interface DebugView {
  readonly configStatus: () => ConfigStatus;
  readonly counters: CounterAccess;
  /** Renders lines of `name: value`. */
  readonly stats: () => Promise<string>;
  /** Renders the metrics for the field `accept` of a request. */
  readonly metrics: (accept: string | undefined) => Promise<MetricsPage>;
  readonly profiler: Profiler;
  /** Samples the live heap of each thread. */
  readonly heapSamples: () => Promise<readonly ThreadProfile[]>;
}

interface DebugEndpoint {
  readonly path: string;
  readonly help: string;
  readonly route: HttpRoute;
}

/** Returns all routes, by path. */
export function debugRoutes(view: DebugView): [path: string, route: HttpRoute][] {
  const endpoints: DebugEndpoint[] = [
    {
      path: "/rlconfig",
      help: "limits in force; JSON with Accept: application/json",
      route: (request) => configResponse(view, request),
    },
    {
      path: "/config_status",
      help: "the result of the last load, file by file",
      route: () => statusResponse(view.configStatus()),
    },
    {
      path: "/match",
      help: "the rule that a descriptor matches, and why: /match?domain=D&key1=value1&key2=value2",
      route: (request) => matchResponse(view, request),
    },
    {
      path: "/counters",
      help:
        "counters of running windows: ?prefix=TEXT&limit=1000; " +
        "DELETE: ?domain=D&key1=value1, ?domain=D or ?all=true; POST {count: 10}: ?domain=D&key1=value1",
      route: (request) => countersRoute(view.counters, request),
    },
    { path: "/stats", help: "counters of the service", route: async () => textResponse(200, await view.stats()) },
    {
      path: "/metrics",
      help: "the same for Prometheus",
      route: (request) => metricsResponse(view.metrics, request),
    },
    {
      path: "/debug/pprof/profile",
      help: "CPU profile of all threads for go tool pprof: ?seconds=10",
      route: (request) => cpuProfileResponse(view, request),
    },
    {
      path: "/debug/pprof/heap",
      help: "live objects in the heaps of all threads by allocation site; their changes with ?seconds=10",
      route: (request) => heapProfileResponse(view, request),
    },
  ];
  const index = endpoints.map(({ path, help }) => `${path}: ${help}\n`).join("");
  return [
    ["/", () => textResponse(200, index)],
    ...endpoints.map(({ path, route }) => [path, route] as [string, HttpRoute]),
  ];
}

/** Returns a response with metrics, in the format that the scraper prefers. */
export async function metricsResponse(render: DebugView["metrics"], { headers }: HttpRequest): Promise<HttpResponse> {
  return { status: 200, ...(await render(headers.accept)) };
}

function configResponse(view: DebugView, { headers }: HttpRequest): HttpResponse {
  const { config } = view.configStatus().update;
  const wantsJson = headers.accept?.includes("application/json") === true;
  return wantsJson ? jsonResponse(200, configDump(config)) : textResponse(200, renderConfigText(config));
}

function statusResponse({ update, loadedAtMs, lastSuccessAtMs }: ConfigStatus): HttpResponse {
  const isoTime = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString());
  return jsonResponse(200, {
    isLoaded: update.config !== undefined,
    loadedAt: isoTime(loadedAtMs),
    lastSuccessAt: isoTime(lastSuccessAtMs),
    parts: update.parts,
    problems: update.problems.map((problem) => renderConfigProblem(problem)),
    warnings: update.warnings.map((warning) => renderConfigProblem(warning)),
  });
}

function matchResponse(view: DebugView, { query }: HttpRequest): HttpResponse {
  const [first, ...rest] = query;
  if (first?.[0] !== "domain") {
    return textResponse(400, "the first parameter is domain, the others are the entries: /match?domain=D&key=value\n");
  }
  const entries = rest.map(([key, value]) => ({ key, value }));
  return jsonResponse(200, explainMatch(view.configStatus().update.config, first[1], entries));
}

async function cpuProfileResponse(view: DebugView, request: HttpRequest): Promise<HttpResponse> {
  const seconds = readNumber(request.query, "seconds", 10, 1, 300);
  if (seconds === undefined) return textResponse(400, "seconds must be a whole number from 1 to 300\n");
  const outcome = await view.profiler.take(seconds * 1_000, request.signal);
  if (outcome.kind === "busy") return textResponse(429, "another profile is being taken\n");
  return profileResponse("cpu", outcome.bytes);
}

async function heapProfileResponse({ profiler, heapSamples }: DebugView, request: HttpRequest): Promise<HttpResponse> {
  const seconds = readNumber(request.query, "seconds", 1, 1, 300);
  if (seconds === undefined) return textResponse(400, "seconds must be a whole number from 1 to 300\n");
  const durationMs = request.query.has("seconds") ? seconds * 1_000 : undefined;
  return profileResponse("heap", await profiler.takeHeap(heapSamples, durationMs, request.signal));
}

function profileResponse(kind: "cpu" | "heap", body: Buffer): HttpResponse {
  return {
    status: 200,
    contentType: "application/octet-stream",
    headers: { "content-disposition": `attachment; filename="${kind}.pb.gz"` },
    body,
  };
}
