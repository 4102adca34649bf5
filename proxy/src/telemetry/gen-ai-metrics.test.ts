import { renderFamilies } from "@gatewayproxy/runtime/exposition";
import { familiesOf } from "@gatewayproxy/runtime/metric-families";
import { SeriesBound } from "@gatewayproxy/runtime/metrics";
import { describe, expect, test } from "vitest";
import { metricTableOf } from "./metric-table.ts";
import { RequestMetrics } from "./request-metrics.ts";
import type { ProviderCall, RequestRecord } from "./request-record.ts";
import { recordOf } from "./testing/records.ts";

const bind = "0.0.0.0:80";

function callOf(call: Partial<ProviderCall> = {}): ProviderCall {
  const times = { requestMs: 1_000, startMs: 1_100, firstTokenMs: undefined, endMs: 3_000, failure: undefined };
  return { provider: "azure", path: "/openai/deployments/d/chat/completions?api-version=1", ...times, ...call };
}

const chat: Partial<RequestRecord> = {
  backend: "Backend/default/llm",
  durationMs: 2_050,
  clientModel: "fast",
  requestModel: "gpt-5",
  providerCall: callOf({ firstTokenMs: 1_500 }),
  usage: { input: 20, output: 11, total: 31, model: "gpt-5-2026", estimated: false },
};

async function linesOf(records: readonly Partial<RequestRecord>[], isLatest = false, bound = 5_000) {
  const metrics = new RequestMetrics(isLatest);
  for (const record of records) metrics.requestEnded(bind, recordOf(record));
  const families = familiesOf(metricTableOf(isLatest), [metrics.snapshot()], new SeriesBound(bound));
  const lines = (await renderFamilies(families, "openmetrics")).split("\n");
  return lines.filter((line) => line.startsWith("gen_ai_"));
}

const labels =
  'gen_ai_operation_name="chat",gen_ai_provider_name="azure.ai.openai",gen_ai_request_model="gpt-5",gen_ai_response_model="gpt-5-2026",gatewayproxy_backend="Backend/default/llm"';

describe("a call of an LLM provider", () => {
  test("is counted under the names that gateways have today", async () => {
    const all = `${labels},gen_ai_system="az.ai.openai"`;
    expect((await linesOf([chat])).filter((line) => !line.includes("_bucket"))).toEqual([
      `gen_ai_server_request_duration_seconds_sum{${all},error_type=""} 2.05`,
      `gen_ai_server_request_duration_seconds_count{${all},error_type=""} 1`,
      `gen_ai_server_time_to_first_token_seconds_sum{${all}} 0.5`,
      `gen_ai_server_time_to_first_token_seconds_count{${all}} 1`,
      `gen_ai_server_time_per_output_token_seconds_sum{${all}} 0.15`,
      `gen_ai_server_time_per_output_token_seconds_count{${all}} 1`,
      `gen_ai_client_operation_duration_seconds_sum{${all},error_type=""} 1.9`,
      `gen_ai_client_operation_duration_seconds_count{${all},error_type=""} 1`,
      `gen_ai_client_token_usage_sum{${all},gen_ai_token_type="input"} 20`,
      `gen_ai_client_token_usage_count{${all},gen_ai_token_type="input"} 1`,
      `gen_ai_client_token_usage_sum{${all},gen_ai_token_type="output"} 11`,
      `gen_ai_client_token_usage_count{${all},gen_ai_token_type="output"} 1`,
    ]);
  });

  test("is counted under the latest names with the opt-in, and under no earlier one", async () => {
    const usage = { ...chat.usage, total: 31, estimated: false, cachedInputTokens: 5, reasoningTokens: 3 };
    const lines = await linesOf([{ ...chat, usage }], true);
    expect(lines.filter((line) => /_(?:sum|total)\{/.test(line))).toEqual([
      `gen_ai_server_request_duration_seconds_sum{${labels},error_type=""} 2.05`,
      `gen_ai_server_time_to_first_token_seconds_sum{${labels}} 0.5`,
      `gen_ai_server_time_per_output_token_seconds_sum{${labels}} 0.15`,
      `gen_ai_client_inference_duration_seconds_sum{${labels},error_type=""} 1.9`,
      `gen_ai_client_inference_operation_input_tokens_sum{${labels}} 20`,
      `gen_ai_client_inference_operation_output_tokens_sum{${labels}} 11`,
      `gen_ai_client_inference_usage_input_tokens_total{${labels},gen_ai_token_modality="unknown"} 20`,
      `gen_ai_client_inference_usage_output_tokens_total{${labels},gen_ai_token_modality="unknown"} 11`,
      `gen_ai_client_inference_usage_cache_read_input_tokens_total{${labels},gen_ai_token_modality="unknown"} 5`,
      `gen_ai_client_inference_usage_reasoning_output_tokens_total{${labels},gen_ai_token_modality="unknown"} 3`,
    ]);
    const embeddings = callOf({ provider: "openai", path: "/v1/embeddings" });
    const counted = await linesOf(
      [{ ...chat, providerCall: embeddings, usage: { input: 8, total: 8, estimated: false } }],
      true,
    );
    expect(counted.join("\n")).toContain("gen_ai_client_embeddings_operation_input_tokens_sum");
    expect(counted.join("\n")).not.toContain("gen_ai_client_inference");
  });

  test("that fails has the cause as error_type, and no times of tokens", async () => {
    const failed = (record: Partial<RequestRecord>) => linesOf([{ ...chat, usage: undefined, ...record }]);
    const timedOut = await failed({
      status: 504,
      reason: "UpstreamTimeout",
      providerCall: callOf({ failure: "timeout" }),
    });
    expect(timedOut.join("\n")).toContain('error_type="timeout"} 1');
    expect((await failed({ status: 429 })).join("\n")).toContain('error_type="429"} 1');
    expect((await failed({ reason: "ClientDisconnect" })).join("\n")).toContain('error_type="ClientDisconnect"} 1');
    expect([...timedOut, ...(await failed({ status: 429 }))].join("\n")).not.toMatch(/token_seconds|token_usage/);
  });

  test("that is in progress when its client leaves lasts to the end of the request", async () => {
    const left = await linesOf([{ ...chat, providerCall: callOf({ endMs: undefined }) }]);
    expect(left.find((line) => line.startsWith("gen_ai_client_operation_duration_seconds_sum"))).toMatch(/ 1\.95$/);
  });

  test("has no tokens that were only estimated", async () => {
    const usage = { input: 20, output: 11, total: 31, estimated: true };
    const lines = await linesOf([{ ...chat, usage }]);
    expect(lines.join("\n")).not.toMatch(/token_usage|per_output_token/);
    expect(lines.join("\n")).toContain("time_to_first_token");
  });

  test("has the exported span as its exemplar", async () => {
    const traced = { ...chat, traceId: "a".repeat(32), spanId: "b".repeat(16), startMs: 5_000 };
    const exemplar = `# {trace_id="${"a".repeat(32)}",span_id="${"b".repeat(16)}"} 0.5 7.05`;
    expect((await linesOf([{ ...traced, isExported: true }])).filter((line) => line.endsWith(exemplar))).toHaveLength(
      1,
    );
    expect((await linesOf([{ ...traced, isExported: false }])).join("\n")).not.toContain("trace_id");
  });

  test("is not counted without an attempt, or for another operation", async () => {
    expect(await linesOf([{ ...chat, providerCall: undefined }])).toEqual([]);
    expect(await linesOf([{ ...chat, providerCall: callOf({ path: "/v1/models" }) }])).toEqual([]);
  });
});

describe("the names of models", () => {
  const named = (n: number, record: Partial<RequestRecord> = {}): Partial<RequestRecord> => ({
    ...chat,
    requestModel: `made-up-${n}`,
    ...record,
  });

  test("that only failed requests have get no series", async () => {
    const lines = await linesOf([
      { ...chat },
      ...Array.from({ length: 1_000 }, (_, n) => named(n, { status: 404, usage: undefined })),
      { ...chat, requestModel: "gpt-5", status: 503 },
    ]);
    const models = new Set(lines.map((line) => /gen_ai_request_model="([^"]*)"/.exec(line)?.[1]));
    expect(models).toEqual(new Set(["gpt-5", "other"]));
  });

  test("cannot exceed 100 of requests and 100 of responses, and a scrape not its bound", async () => {
    const many = Array.from({ length: 500 }, (_, n) =>
      named(n, { usage: { input: 1, total: 1, model: `reported-${n}`, estimated: false } }),
    );
    const all = await linesOf(many);
    const models = (label: string) => new Set(all.map((line) => new RegExp(`${label}="([^"]*)"`).exec(line)?.[1]));
    expect(models("gen_ai_request_model").size).toBe(101);
    expect(models("gen_ai_response_model").size).toBe(101);
    const counts = (await linesOf(many, false, 250)).filter((line) => line.includes("request_duration_seconds_count"));
    expect(counts).toHaveLength(11);
    expect(counts.at(-1)).toMatch(/gen_ai_request_model="other".* 490$/);
  });
});
