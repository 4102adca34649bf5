/**
 * The metrics of the semantic conventions for generative AI (Development), as Prometheus exporters of OpenTelemetry
 * name them. By default they have the names of v1.37 of the conventions, which other gateways have, and the earlier
 * name of the provider beside the present one. OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental selects those
 * of v0.1.0 of open-telemetry/semantic-conventions-genai.
 *
 * The buckets are those that the conventions prescribe.
 */
import type { Instrument, MetricDeclaration, MetricTable } from "@gatewayproxy/runtime/metrics";

/** The value of OTEL_SEMCONV_STABILITY_OPT_IN for the latest conventions. */
export const latestGenAi = "gen_ai_latest_experimental";

const seconds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const tokens = [1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864];
const secondsToFirstToken = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const secondsPerToken = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5];

const attributes = {
  gen_ai_operation_name: "gen_ai.operation.name",
  gen_ai_provider_name: "gen_ai.provider.name",
  gen_ai_system: "gen_ai.system",
  gen_ai_request_model: "gen_ai.request.model",
  gen_ai_response_model: "gen_ai.response.model",
  gatewayproxy_backend: "gatewayproxy.backend",
  gen_ai_token_type: "gen_ai.token.type",
  gen_ai_token_modality: "gen_ai.token.modality",
  error_type: "error.type",
} as const;

/** The labels of models, whose values come from clients and backends. */
export const modelLabels = ["gen_ai_request_model", "gen_ai_response_model"] as const;

const latestLabels = ["gen_ai_operation_name", "gen_ai_provider_name", ...modelLabels, "gatewayproxy_backend"] as const;
const labels = [...latestLabels, "gen_ai_system"] as const;

const instrument = (name: string, unit: string): Instrument => ({ name, unit, attributes });

/** Metrics that both conventions have. */
const ofServer = <const L extends readonly string[]>(ownLabels: L) =>
  ({
    serverDuration: {
      name: "gen_ai_server_request_duration_seconds",
      type: "histogram",
      help: "Duration of requests that were sent to an LLM provider: from their head to the last byte of the response, with limits and retries. `error_type` is the status, the kind of the failure, or the `reason` of the access log; it is empty for a success.",
      labels: [...ownLabels, "error_type"],
      buckets: seconds,
      instrument: instrument("gen_ai.server.request.duration", "s"),
    },
    timeToFirstToken: {
      name: "gen_ai_server_time_to_first_token_seconds",
      type: "histogram",
      help: "From the head of a request to the first event with text of the model, which may be reasoning or a call of a tool. Streams only.",
      labels: ownLabels,
      buckets: secondsToFirstToken,
      instrument: instrument("gen_ai.server.time_to_first_token", "s"),
    },
    timePerOutputToken: {
      name: "gen_ai_server_time_per_output_token_seconds",
      type: "histogram",
      help: "Time of each output token after the first one: the rest of the stream, divided by the further tokens that it reports. Complete streams only. Reasoning that is reported but not streamed makes it shorter.",
      labels: ownLabels,
      buckets: secondsPerToken,
      instrument: instrument("gen_ai.server.time_per_output_token", "s"),
    },
  }) as const satisfies MetricTable;

const durationHelp =
  "Duration of the last attempt at an LLM provider, to the end of its response. `error_type` is as for `gen_ai_server_request_duration_seconds`.";

/** The metrics without an opt-in. */
export const genAiMetrics = {
  ...ofServer(labels),
  operationDuration: {
    name: "gen_ai_client_operation_duration_seconds",
    type: "histogram",
    help: durationHelp,
    labels: [...labels, "error_type"],
    buckets: seconds,
    instrument: instrument("gen_ai.client.operation.duration", "s"),
  },
  tokenUsage: {
    name: "gen_ai_client_token_usage",
    type: "histogram",
    help: "Tokens of a response, as the provider reports them: `gen_ai_token_type` is `input` or `output`. Estimates are not included.",
    labels: [...labels, "gen_ai_token_type"],
    buckets: tokens,
    instrument: instrument("gen_ai.client.token.usage", "{token}"),
  },
} as const satisfies MetricTable;

function tokensOfOperation(kind: "inference" | "embeddings", direction: "input" | "output") {
  const of = kind === "embeddings" ? "an operation `embeddings`" : "any other operation";
  return {
    name: `gen_ai_client_${kind}_operation_${direction}_tokens`,
    type: "histogram",
    help: `Tokens of the ${direction} of ${of}, as the provider reports them. Estimates are not included.`,
    labels: latestLabels,
    buckets: tokens,
    instrument: instrument(`gen_ai.client.${kind}.operation.${direction}_tokens`, "{token}"),
  } as const satisfies MetricDeclaration;
}

function durationOf(kind: "inference" | "embeddings") {
  return {
    name: `gen_ai_client_${kind}_duration_seconds`,
    type: "histogram",
    help: `${durationHelp} ${kind === "embeddings" ? "Of operations `embeddings`." : "Of all other operations."}`,
    labels: [...latestLabels, "error_type"],
    buckets: seconds,
    instrument: instrument(`gen_ai.client.${kind}.duration`, "s"),
  } as const satisfies MetricDeclaration;
}

function usageOf(part: string, help: string) {
  return {
    name: `gen_ai_client_inference_usage_${part.replace(".", "_")}_total`,
    type: "counter",
    help: `${help} Estimates are not included. \`gen_ai_token_modality\` is always \`unknown\`.`,
    labels: [...latestLabels, "gen_ai_token_modality"],
    instrument: instrument(`gen_ai.client.inference.usage.${part}`, "{token}"),
  } as const satisfies MetricDeclaration;
}

/** The metrics with the opt-in. */
export const latestGenAiMetrics = {
  ...ofServer(latestLabels),
  inferenceDuration: durationOf("inference"),
  inferenceInput: tokensOfOperation("inference", "input"),
  inferenceOutput: tokensOfOperation("inference", "output"),
  embeddingsDuration: durationOf("embeddings"),
  embeddingsInput: tokensOfOperation("embeddings", "input"),
  usedInput: usageOf("input_tokens", "Tokens of inputs, with what a cache of the provider had."),
  usedOutput: usageOf("output_tokens", "Tokens of outputs, with the reasoning."),
  usedCacheRead: usageOf("cache_read.input_tokens", "Tokens of inputs that were read from a cache of the provider."),
  usedCacheWrite: usageOf("cache_write.input_tokens", "Tokens of inputs that were written to a cache of the provider."),
  usedReasoning: usageOf("reasoning.output_tokens", "Tokens of outputs that are reasoning."),
} as const satisfies MetricTable;
