/**
 * Counts the requests, connections and limit decisions of one worker, at the cost of a few map look-ups per request.
 */
import { knownMethods } from "@gatewayproxy/runtime/known-methods";
import {
  createFamilies,
  keepNative,
  takeSnapshot,
  type Cell,
  type Families,
  type MetricsSnapshot,
  type ObservedSpan,
} from "@gatewayproxy/runtime/metrics";
import type { GlobalDecision } from "../ir/global-limit.ts";
import type { LimitDecision, LocalLimit } from "../ir/limit.ts";
import type { TokenUsage } from "../ir/usage.ts";
import { BoundedLabel } from "./bounded-label.ts";
import { GenAiMetrics } from "./gen-ai-metrics.ts";
import { ModelLabel } from "./model-label.ts";
import { requestMetrics } from "./metric-table.ts";
import type { RequestRecord } from "./request-record.ts";
import type { DropReason, StreamObserver, StreamRecord } from "./stream-record.ts";

/** Models with series of their own; backends may report any model name. */
const maxModels = 100;

/** Counts in one worker. */
export class RequestMetrics implements StreamObserver {
  readonly #families: Families<typeof requestMetrics> = createFamilies(requestMetrics);
  readonly #methods = new BoundedLabel(knownMethods.length, knownMethods);
  readonly #models = new ModelLabel(maxModels, (model) => {
    this.#families.tokens.removeSeries("model", model);
    this.#families.tokenDetails.removeSeries("model", model);
    this.#families.cost.removeSeries("model", model);
  });
  readonly #genAi: GenAiMetrics;
  /** Cells by entry, so that five labels cost one look-up. They are dropped with the snapshot of the entry. */
  readonly #decisions = new WeakMap<LocalLimit, Readonly<Record<LimitDecision["outcome"], Cell>>>();

  /** @param isLatestGenAi whether metrics of LLM providers have the names of the latest conventions. */
  constructor(isLatestGenAi = false) {
    this.#genAi = new GenAiMetrics(isLatestGenAi);
  }

  /** `bind` as `address:port`. */
  connectionOpened(bind: string): void {
    this.#families.connections.cell(bind).value++;
    this.#families.activeConnections.cell(bind).value++;
  }

  connectionClosed(bind: string): void {
    this.#families.activeConnections.cell(bind).value--;
  }

  /** Counts a connection that was closed to save memory. */
  connectionShed(reason: string): void {
    this.#families.shedConnections.cell(reason).value++;
  }

  /** As `StreamObserver.streamOpened`. */
  streamOpened({ listener = "" }: StreamRecord): void {
    this.#families.activeStreams.cell(listener).value++;
  }

  /** As `StreamObserver.bytesRelayed`. */
  bytesRelayed({ listener = "", backend = "" }: StreamRecord, receivedBytes: number, sentBytes: number): void {
    this.#families.streamBytes.cell(listener, backend, "received").value += receivedBytes;
    this.#families.streamBytes.cell(listener, backend, "sent").value += sentBytes;
  }

  /** As `StreamObserver.streamEnded`. */
  streamEnded({ listener = "", route = "", backend = "", reason, decisions }: StreamRecord): void {
    this.#families.activeStreams.cell(listener).value--;
    this.#families.streams.cell(listener, route, backend, reason ?? "").value++;
    for (const decision of decisions) this.#countDecision(decision);
  }

  /** As `StreamObserver.datagramDropped`. */
  datagramDropped(listener: string, reason: DropReason): void {
    this.#families.droppedDatagrams.cell(listener, reason).value++;
  }

  requestStarted(bind: string): void {
    this.#families.activeRequests.cell(bind).value++;
  }

  /** Counts a finished request; called once per started request, when its record is complete. */
  requestEnded(bind: string, record: RequestRecord): void {
    const families = this.#families;
    const { listener = "", route = "", backend = "", reason = "" } = record;
    families.activeRequests.cell(bind).value--;
    families.requests.cell(listener, route, backend, this.#methods.of(record.method), record.status, reason).value++;
    const span = record.isExported ? spanOf(record) : undefined;
    families.requestDuration.cell(listener, route).observe(record.durationMs / 1_000, span);
    if (record.authentication !== undefined) families.authentications.cell(route, record.authentication).value++;
    for (const { provider, cause } of record.failovers) families.failovers.cell(backend, provider, cause).value++;
    // Of several providers, the one that has responded.
    const { provider = backend } = record;
    if (record.endpoint !== undefined) this.#countUpstream(provider, record.endpoint, record, span);
    for (const decision of record.decisions) this.#countDecision(decision);
    for (const decision of record.globalDecisions) this.#countGlobalDecision(decision);
    if (record.isListedModel) {
      const { clientModel = "", requestModel = "" } = record;
      families.modelRequests.cell(route, backend, clientModel, requestModel).value++;
    }
    if (record.usage !== undefined) this.#countUsage(route, provider, record.usage, record.startMs);
    if (record.providerCall !== undefined) this.#genAi.requestEnded(record, span);
    if (record.isUnpriced) families.unpricedUsage.cell(route, provider).value++;
    if (record.usageUnread !== undefined) families.uncountedUsage.cell(route, provider, record.usageUnread).value++;
  }

  /** Counts the end of a mirrored copy of a request to `backend`. */
  mirrored(backend: string, outcome: "sent" | "failed" | "skipped"): void {
    this.#families.mirroredRequests.cell(backend, outcome).value++;
  }

  /** Counts a read of a key set from its URL. */
  keySetFetched(outcome: "read" | "failed"): void {
    this.#families.keySetFetches.cell(outcome).value++;
  }

  /** Counts an internal error. `place` names the only work that it ended, such as a `request`. */
  internalError(place: string): void {
    this.#families.faults.cell(place).value++;
  }

  /** Counts spans that were exported, or were not. */
  spansEnded(outcome: "exported" | "failed" | "dropped", count: number): void {
    this.#families.spans.cell(outcome).value += count;
  }

  /** Counts lines of the access log that were not written. */
  logLinesDropped(count: number): void {
    this.#families.droppedLogLines.cell().value += count;
  }

  /** Counts records of the access log that were exported, or were not. */
  logRecordsEnded(outcome: "exported" | "failed" | "dropped", count: number): void {
    this.#families.logRecords.cell(outcome).value += count;
  }

  /** Counts lines of the log, other than those of the access log, that were exported, or were not. */
  linesExported(outcome: "exported" | "failed" | "dropped", count: number): void {
    this.#families.exportedLines.cell(outcome).value += count;
  }

  /** Lets histograms have exponential buckets from now on. */
  keepNative(): void {
    keepNative(this.#families);
    this.#genAi.keepNative();
  }

  snapshot(): MetricsSnapshot {
    return [...takeSnapshot(this.#families), ...this.#genAi.snapshot()];
  }

  #countUpstream(backend: string, endpoint: string, record: RequestRecord, span: ObservedSpan | undefined): void {
    const families = this.#families;
    const { upstreamMs, status, reason, attempts, failovers } = record;
    const retries = attempts - 1 - failovers.length;
    if (retries > 0) families.upstreamRetries.cell(backend).value += retries;
    families.upstreamRequests.cell(backend, endpoint, upstreamMs === undefined ? "none" : status).value++;
    if (upstreamMs !== undefined) families.upstreamDuration.cell(backend).observe(upstreamMs / 1_000, span);
    if (reason === "UpstreamConnectFailure") families.upstreamConnectFailures.cell(backend, endpoint).value++;
  }

  #countDecision({ limit, outcome }: LimitDecision): void {
    let cells = this.#decisions.get(limit);
    if (cells === undefined) {
      const { policy, entry, name = entry, target, counts } = limit;
      const cell = (decision: string) => this.#families.limitDecisions.cell(policy, name, target, counts, decision);
      // The cells are created at once, so that an alert on denials sees the 0 before the first one.
      const decided = { allowed: cell("allowed"), denied: cell("denied"), shadowDenied: cell("shadow_denied") };
      // An entry without a condition applies to every request.
      const notApplied = limit.when === undefined ? decided.allowed : cell("not_applied");
      cells = { ...decided, notApplied };
      this.#decisions.set(limit, cells);
    }
    cells[outcome].value++;
  }

  #countGlobalDecision({ limit, outcome, by }: GlobalDecision): void {
    const decision = outcome === "shadowDenied" ? "shadow_denied" : outcome;
    this.#families.globalLimitDecisions.cell(limit.policy, limit.target, decision, by).value++;
  }

  #countUsage(route: string, backend: string, usage: TokenUsage, nowMs: number): void {
    const { input = 0, output = 0, total, model = "", estimated, cost, currency = "" } = usage;
    const { tokens, estimatedUsage } = this.#families;
    const name = this.#models.of(model, nowMs);
    const other = total - input - output;
    if (input > 0) tokens.cell(route, backend, name, "input").value += input;
    if (output > 0) tokens.cell(route, backend, name, "output").value += output;
    if (other > 0) tokens.cell(route, backend, name, "other").value += other;
    if (cost !== undefined) this.#families.cost.cell(route, backend, name, currency).value += cost;
    if (estimated) estimatedUsage.cell(route, backend).value++;
    this.#countDetail(route, backend, name, "cached_input", usage.cachedInputTokens);
    this.#countDetail(route, backend, name, "cache_creation", usage.cacheCreationTokens);
    this.#countDetail(route, backend, name, "reasoning", usage.reasoningTokens);
  }

  #countDetail(route: string, backend: string, model: string, detail: string, tokens = 0): void {
    if (tokens > 0) this.#families.tokenDetails.cell(route, backend, model, detail).value += tokens;
  }
}

/** The span of a request that is exported. */
function spanOf({ traceId = "", spanId = "", startMs, durationMs }: RequestRecord): ObservedSpan {
  return { traceId, spanId, atMs: startMs + durationMs };
}
