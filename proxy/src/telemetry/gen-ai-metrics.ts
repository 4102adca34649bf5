/** Counts the calls of LLM providers in one worker, by the semantic conventions of OpenTelemetry. */
import {
  createFamilies,
  keepNative,
  type MetricsSnapshot,
  type MetricTable,
  type ObservedSpan,
  takeSnapshot,
  type Families,
} from "@gatewayproxy/runtime/metrics";
import type { TokenUsage } from "../ir/usage.ts";
import { genAiMetrics, latestGenAiMetrics, modelLabels } from "./gen-ai-table.ts";
import { ModelLabel } from "./model-label.ts";
import type { ProviderCall, RequestRecord } from "./request-record.ts";
import { shownText } from "./shown-text.ts";
import { genAiOperation, genAiProvider } from "./spans/gen-ai-attributes.ts";

/** Models with series of their own. Requests and responses name at most as many each. */
const maxModels = 100;

/** A finished call, with the values of its labels. */
interface FinishedCall {
  readonly call: ProviderCall;
  /** Monotonic. */
  readonly endMs: number;
  readonly operation: string;
  readonly provider: string;
  readonly system: string;
  readonly requestModel: string;
  readonly responseModel: string;
  readonly backend: string;
  /** Empty for a success. */
  readonly error: string;
  /** As the provider reports it; undefined if it does not. */
  readonly usage: TokenUsage | undefined;
}

/** Counts under the names of one of the conventions. */
interface Convention {
  readonly families: Families<MetricTable>;
  count(call: FinishedCall, requestMs: number, span: ObservedSpan | undefined): void;
}

/** Counts in one worker. */
export class GenAiMetrics {
  readonly #convention: Convention;
  readonly #requestModels: ModelLabel;
  readonly #responseModels: ModelLabel;

  /** @param isLatest whether OTEL_SEMCONV_STABILITY_OPT_IN asks for the latest conventions. */
  constructor(isLatest: boolean) {
    this.#convention = isLatest ? new LatestConvention() : new DefaultConvention();
    const labelOf = (label: (typeof modelLabels)[number]): ModelLabel =>
      new ModelLabel(maxModels, (model) => {
        for (const family of Object.values(this.#convention.families)) family.removeSeries(label, model);
      });
    [this.#requestModels, this.#responseModels] = [labelOf(modelLabels[0]), labelOf(modelLabels[1])];
  }

  /**
   * Counts the last attempt of a request, if it was at a provider and of a known operation.
   *
   * @param span if it is exported.
   */
  requestEnded(record: RequestRecord, span: ObservedSpan | undefined): void {
    const { providerCall: call, provider: key, backend = "", durationMs, usage, startMs } = record;
    const operation = call === undefined ? undefined : genAiOperation(call.path);
    if (call === undefined || operation === undefined) return;
    const { name: provider, system } = genAiProvider(call.provider);
    const error = errorOf(record, call);
    const finished: FinishedCall = {
      ...{ call, operation, provider, system, error },
      endMs: call.endMs ?? call.requestMs + durationMs,
      requestModel: this.#requestModelOf(record, error === ""),
      responseModel: usage?.model === undefined ? "" : this.#responseModels.of(shownText(usage.model), startMs),
      backend: key ?? backend,
      usage: usage?.estimated === false ? usage : undefined,
    };
    this.#convention.count(finished, durationMs, span);
  }

  /** Whatever names clients try, those that no provider has get no series. */
  #requestModelOf({ requestModel, clientModel, startMs }: RequestRecord, isSuccess: boolean): string {
    const model = requestModel ?? clientModel;
    if (model === undefined) return "";
    const shown = shownText(model);
    return isSuccess ? this.#requestModels.of(shown, startMs) : this.#requestModels.known(shown);
  }

  /** Lets histograms have exponential buckets from now on. */
  keepNative(): void {
    keepNative(this.#convention.families);
  }

  snapshot(): MetricsSnapshot {
    return takeSnapshot(this.#convention.families);
  }
}

function errorOf({ status, reason }: RequestRecord, { failure }: ProviderCall): string {
  return failure ?? (status >= 400 ? String(status) : (reason ?? ""));
}

class DefaultConvention implements Convention {
  readonly families = createFamilies(genAiMetrics);

  count(finished: FinishedCall, requestMs: number, span: ObservedSpan | undefined): void {
    const { call, endMs, operation, provider, system, requestModel, responseModel, backend, error, usage } = finished;
    const labels = [operation, provider, requestModel, responseModel, backend, system] as const;
    const { operationDuration, tokenUsage } = this.families;
    operationDuration.cell(...labels, error).observe((endMs - call.startMs) / 1_000, span);
    const { serverDuration, timeToFirstToken, timePerOutputToken } = this.families;
    serverDuration.cell(...labels, error).observe(requestMs / 1_000, span);
    const { toFirstToken, perToken } = streamTimes(finished) ?? {};
    if (toFirstToken !== undefined) timeToFirstToken.cell(...labels).observe(toFirstToken, span);
    if (perToken !== undefined) timePerOutputToken.cell(...labels).observe(perToken, span);
    if (usage?.input !== undefined) tokenUsage.cell(...labels, "input").observe(usage.input, span);
    if (usage?.output !== undefined) tokenUsage.cell(...labels, "output").observe(usage.output, span);
  }
}

class LatestConvention implements Convention {
  readonly families = createFamilies(latestGenAiMetrics);

  count(finished: FinishedCall, requestMs: number, span: ObservedSpan | undefined): void {
    const { call, endMs, operation, provider, requestModel, responseModel, backend, error, usage } = finished;
    const labels = [operation, provider, requestModel, responseModel, backend] as const;
    const { inferenceDuration, embeddingsDuration } = this.families;
    const isEmbeddings = operation === "embeddings";
    const duration = isEmbeddings ? embeddingsDuration : inferenceDuration;
    duration.cell(...labels, error).observe((endMs - call.startMs) / 1_000, span);
    const { serverDuration, timeToFirstToken, timePerOutputToken } = this.families;
    serverDuration.cell(...labels, error).observe(requestMs / 1_000, span);
    const { toFirstToken, perToken } = streamTimes(finished) ?? {};
    if (toFirstToken !== undefined) timeToFirstToken.cell(...labels).observe(toFirstToken, span);
    if (perToken !== undefined) timePerOutputToken.cell(...labels).observe(perToken, span);
    if (usage === undefined) return;
    if (isEmbeddings) this.families.embeddingsInput.cell(...labels).observe(usage.input ?? usage.total, span);
    else this.#countTokens(labels, usage, span);
  }

  #countTokens(labels: LatestLabels, usage: TokenUsage, span: ObservedSpan | undefined): void {
    const { inferenceInput, inferenceOutput, ...used } = this.families;
    const { input, output, cachedInputTokens = 0, cacheCreationTokens = 0, reasoningTokens = 0 } = usage;
    if (input !== undefined) inferenceInput.cell(...labels).observe(input, span);
    if (output !== undefined) inferenceOutput.cell(...labels).observe(output, span);
    used.usedInput.cell(...labels, unknown).value += input ?? 0;
    used.usedOutput.cell(...labels, unknown).value += output ?? 0;
    if (cachedInputTokens > 0) used.usedCacheRead.cell(...labels, unknown).value += cachedInputTokens;
    if (cacheCreationTokens > 0) used.usedCacheWrite.cell(...labels, unknown).value += cacheCreationTokens;
    if (reasoningTokens > 0) used.usedReasoning.cell(...labels, unknown).value += reasoningTokens;
  }
}

/** The modality of tokens: providers do not report it for all of them. */
const unknown = "unknown";

type LatestLabels = readonly [string, string, string, string, string];

/** The times of a stream, in seconds; undefined if the response is none, or has failed. */
function streamTimes({ call, endMs, error, usage }: FinishedCall) {
  const { firstTokenMs, requestMs } = call;
  if (firstTokenMs === undefined || error !== "") return undefined;
  const further = (usage?.output ?? 0) - 1;
  return {
    toFirstToken: (firstTokenMs - requestMs) / 1_000,
    perToken: further > 0 ? (endMs - firstTokenMs) / further / 1_000 : undefined,
  };
}
