/**
 * The routes of the debug port, for operators. None changes anything.
 *
 *     /                     this list
 *     /rlconfig             the limits in force
 *     /config_status        how the last load went, file by file
 *     /match                which rule a descriptor hits, and why
 *     /counters             the counters of running windows
 *     /stats, /metrics      what was counted, as names with values and for Prometheus
 *     /debug/pprof/profile  CPU profile
 *     /debug/pprof/heap     heap profile
 */

import type { ThreadProfile } from "@gatewayproxy/runtime/pprof";
import type { Profiler } from "@gatewayproxy/runtime/profiler";
import { renderConfigProblem } from "../../config/config-problem.ts";
import type { ConfigStatus } from "../../config/live-config.ts";
import { shownCounterKey } from "../../limiter/keys.ts";
import { type HttpAnswer, type HttpRequest, type HttpRoute, jsonAnswer, textAnswer } from "../http/http-server.ts";
import { configDump, renderConfigText } from "./config-dump.ts";
import { explainMatch } from "./explain-match.ts";

/** A counter as the store shows it. */
export interface ShownCounter {
  readonly key: string;
  readonly count: number;
  /** Seconds since the epoch. */
  readonly windowEndSeconds: number;
}

/** What the debug port may look at. */
export interface DebugView {
  readonly configStatus: () => ConfigStatus;
  /** `undefined` when the store cannot list its counters. */
  readonly counters: () => Iterable<ShownCounter> | undefined;
  /** Lines of `name: value`. */
  readonly stats: () => Promise<string>;
  /** Prometheus text. */
  readonly metrics: () => Promise<string>;
  readonly profiler: Profiler;
  /** What is alive in the heap of each thread. */
  readonly heapSamples: () => Promise<readonly ThreadProfile[]>;
}

interface DebugEndpoint {
  readonly path: string;
  readonly help: string;
  readonly route: HttpRoute;
}

/** All routes by path. */
export function debugRoutes(view: DebugView): [path: string, route: HttpRoute][] {
  const endpoints: DebugEndpoint[] = [
    {
      path: "/rlconfig",
      help: "limits in force; JSON with Accept: application/json",
      route: (request) => answerConfig(view, request),
    },
    { path: "/config_status", help: "how the last load went", route: () => answerStatus(view.configStatus()) },
    {
      path: "/match",
      help: "which rule a descriptor hits and why: /match?domain=D&key1=value1&key2=value2",
      route: (request) => answerMatch(view, request),
    },
    {
      path: "/counters",
      help: "counters of running windows: ?prefix=TEXT&limit=1000",
      route: (request) => answerCounters(view, request),
    },
    { path: "/stats", help: "counters of the service", route: async () => textAnswer(200, await view.stats()) },
    { path: "/metrics", help: "the same for Prometheus", route: async () => metricsAnswer(await view.metrics()) },
    {
      path: "/debug/pprof/profile",
      help: "CPU profile of all threads for go tool pprof: ?seconds=10",
      route: (request) => answerCpuProfile(view, request),
    },
    {
      path: "/debug/pprof/heap",
      help: "what is alive in the heaps of all threads, by where it was allocated; how that changes: ?seconds=10",
      route: (request) => answerHeapProfile(view, request),
    },
  ];
  const index = endpoints.map(({ path, help }) => `${path}: ${help}\n`).join("");
  return [
    ["/", () => textAnswer(200, index)],
    ...endpoints.map(({ path, route }) => [path, route] as [string, HttpRoute]),
  ];
}

/** Prometheus text as an answer. */
export function metricsAnswer(text: string): HttpAnswer {
  return { status: 200, contentType: "text/plain; version=0.0.4; charset=utf-8", body: text };
}

function answerConfig(view: DebugView, { headers }: HttpRequest): HttpAnswer {
  const { config } = view.configStatus().update;
  const wantsJson = headers.accept?.includes("application/json") === true;
  return wantsJson ? jsonAnswer(200, configDump(config)) : textAnswer(200, renderConfigText(config));
}

function answerStatus({ update, loadedAtMs, lastSuccessAtMs }: ConfigStatus): HttpAnswer {
  const isoTime = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString());
  return jsonAnswer(200, {
    isLoaded: update.config !== undefined,
    loadedAt: isoTime(loadedAtMs),
    lastSuccessAt: isoTime(lastSuccessAtMs),
    parts: update.parts,
    problems: update.problems.map((problem) => renderConfigProblem(problem)),
    warnings: update.warnings.map((warning) => renderConfigProblem(warning)),
  });
}

function answerMatch(view: DebugView, { query }: HttpRequest): HttpAnswer {
  const [first, ...rest] = query;
  if (first?.[0] !== "domain") {
    return textAnswer(400, "the first parameter is domain, the others are the entries: /match?domain=D&key=value\n");
  }
  const entries = rest.map(([key, value]) => ({ key, value }));
  return jsonAnswer(200, explainMatch(view.configStatus().update.config, first[1], entries));
}

function answerCounters(view: DebugView, { query }: HttpRequest): HttpAnswer {
  const counters = view.counters();
  if (counters === undefined) {
    return textAnswer(501, "the counters are in Redis, which is not asked for all of its keys; SCAN it there\n");
  }
  const limit = readNumber(query, "limit", 1_000, 1, 100_000);
  if (limit === undefined) return textAnswer(400, "limit must be a whole number from 1 to 100000\n");
  const prefix = query.get("prefix") ?? "";
  const shown: ShownCounter[] = [];
  let total = 0;
  for (const counter of counters) {
    // What is not shown must not be found by trying prefixes either.
    const key = shownCounterKey(counter.key);
    if (!key.startsWith(prefix)) continue;
    total++;
    if (shown.length < limit) shown.push({ ...counter, key });
  }
  return jsonAnswer(200, { total, counters: shown });
}

async function answerCpuProfile(view: DebugView, request: HttpRequest): Promise<HttpAnswer> {
  const seconds = readNumber(request.query, "seconds", 10, 1, 300);
  if (seconds === undefined) return textAnswer(400, "seconds must be a whole number from 1 to 300\n");
  const outcome = await view.profiler.take(seconds * 1_000, request.signal);
  if (outcome.kind === "busy") return textAnswer(429, "another profile is being taken\n");
  return profileAnswer("cpu", outcome.bytes);
}

async function answerHeapProfile({ profiler, heapSamples }: DebugView, request: HttpRequest): Promise<HttpAnswer> {
  const seconds = readNumber(request.query, "seconds", 1, 1, 300);
  if (seconds === undefined) return textAnswer(400, "seconds must be a whole number from 1 to 300\n");
  const durationMs = request.query.has("seconds") ? seconds * 1_000 : undefined;
  return profileAnswer("heap", await profiler.takeHeap(heapSamples, durationMs, request.signal));
}

function profileAnswer(kind: "cpu" | "heap", body: Buffer): HttpAnswer {
  return {
    status: 200,
    contentType: "application/octet-stream",
    headers: { "content-disposition": `attachment; filename="${kind}.pb.gz"` },
    body,
  };
}

/** A parameter as a whole number within bounds; `undefined` when it is something else. */
function readNumber(
  query: URLSearchParams,
  name: string,
  otherwise: number,
  min: number,
  max: number,
): number | undefined {
  const text = query.get(name) ?? String(otherwise);
  const number = Number(text);
  return /^\d{1,9}$/.test(text) && number >= min && number <= max ? number : undefined;
}
