/** Bodies in each dialect, in the form that the documentation of the API shows, with the expected usage. */
import type { TokenUsage } from "../../ir/usage.ts";
import { bedrockChunk, bedrockEvent } from "./event-stream-message.ts";

export interface RecordedResponse {
  readonly name: string;
  /** The page that documents the form. */
  readonly source: string;
  readonly contentType: "application/json" | "text/event-stream";
  readonly body: string;
  readonly usage: TokenUsage;
}

const sse = "text/event-stream";
const json = "application/json";

/** One event without a name. */
export function dataEvent(data: unknown): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

/** One event with a name, as in the responses API and Anthropic's API. */
export function namedEvent(data: { readonly type: string; readonly [member: string]: unknown }): string {
  return `event: ${data.type}\n${dataEvent(data)}`;
}

const chatHead = { id: "chatcmpl-7k2", object: "chat.completion.chunk", created: 1_760_000_000, model: "gpt-mock-1" };

/** A chunk of a streamed chat completion with one choice. */
export function chatChunk(content: string, more: object = {}): string {
  return dataEvent({ ...chatHead, choices: [{ index: 0, delta: { content }, finish_reason: null }], ...more });
}

/** The last chunk of a stream whose usage was requested. */
export function chatUsageChunk(usage: unknown): string {
  return dataEvent({ ...chatHead, choices: [], usage });
}

export const done = "data: [DONE]\n\n";

const text = 'Zwölf "Boxkämpfer" – 頑張って {"usage":{"total_tokens":9}} 🙂\\';

/** A response of Gemini, or a part of a streamed one. */
function geminiPart(content: string, usageMetadata: object): object {
  return {
    candidates: [{ content: { parts: [{ text: content }], role: "model" }, index: 0 }],
    usageMetadata,
    modelVersion: "gemini-2.5-flash",
    responseId: "mNnSaIb3DsyB-8YPr6LKsQk",
  };
}

const geminiFigures = {
  promptTokenCount: 24,
  cachedContentTokenCount: 8,
  candidatesTokenCount: 7,
  toolUsePromptTokenCount: 5,
  thoughtsTokenCount: 61,
  totalTokenCount: 97,
  promptTokensDetails: [{ modality: "TEXT", tokenCount: 24 }],
};
const geminiUsage: TokenUsage = {
  ...{ input: 29, output: 68, total: 97, cachedInputTokens: 8, reasoningTokens: 61 },
  ...{ model: "gemini-2.5-flash", estimated: false },
};
const geminiParts = [
  geminiPart(text, { promptTokenCount: 24, totalTokenCount: 85, thoughtsTokenCount: 61 }),
  geminiPart(text, geminiFigures),
];
const geminiReference = "https://ai.google.dev/api/generate-content#UsageMetadata";

export const recordedResponses: readonly RecordedResponse[] = [
  {
    name: "OpenAI chat completion",
    source: "https://platform.openai.com/docs/api-reference/chat/object",
    contentType: json,
    body: JSON.stringify({
      ...chatHead,
      object: "chat.completion",
      choices: [{ index: 0, message: { role: "assistant", content: text, refusal: null }, finish_reason: "stop" }],
      usage: {
        prompt_tokens: 19,
        completion_tokens: 10,
        total_tokens: 29,
        prompt_tokens_details: { cached_tokens: 16 },
        completion_tokens_details: { reasoning_tokens: 4 },
      },
      service_tier: "default",
    }),
    usage: {
      ...{ input: 19, output: 10, total: 29, cachedInputTokens: 16, reasoningTokens: 4 },
      ...{ model: "gpt-mock-1", estimated: false },
    },
  },
  {
    name: "OpenAI chat completion, streamed with its usage",
    source: "https://platform.openai.com/docs/api-reference/chat-streaming",
    contentType: sse,
    body: [chatChunk("", { usage: null }), chatChunk(text, { usage: null })]
      .concat(chatUsageChunk({ prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 }), done)
      .join(""),
    usage: { input: 7, output: 2, total: 9, model: "gpt-mock-1", estimated: false },
  },
  {
    name: "chat completion of a server that repeats running totals and sends no [DONE]",
    source: "https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html (continuous_usage_stats)",
    contentType: sse,
    body: [1, 2, 3]
      .map((n) => chatChunk(text, { usage: { prompt_tokens: 5, completion_tokens: n, total_tokens: 5 + n } }))
      .join(""),
    usage: { input: 5, output: 3, total: 8, model: "gpt-mock-1", estimated: false },
  },
  {
    name: "OpenAI response",
    source: "https://platform.openai.com/docs/api-reference/responses/object",
    contentType: json,
    body: JSON.stringify({
      id: "resp_1",
      object: "response",
      model: "gpt-mock-2",
      output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text, annotations: [] }] }],
      tools: [{ type: "function", name: "f", parameters: { usage: { total_tokens: 1 } } }],
      usage: {
        input_tokens: 36,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: 87,
        output_tokens_details: { reasoning_tokens: 60 },
        total_tokens: 123,
      },
      user: null,
      metadata: { usage: "none" },
    }),
    usage: {
      ...{ input: 36, output: 87, total: 123, cachedInputTokens: 0, reasoningTokens: 60 },
      ...{ model: "gpt-mock-2", estimated: false },
    },
  },
  {
    name: "OpenAI response, streamed",
    source: "https://platform.openai.com/docs/api-reference/responses-streaming/response/completed",
    contentType: sse,
    body: [
      namedEvent({ type: "response.created", response: { id: "resp_2", model: "gpt-mock-2", usage: null } }),
      namedEvent({ type: "response.output_text.delta", delta: text }),
      namedEvent({
        type: "response.completed",
        response: {
          id: "resp_2",
          model: "gpt-mock-2",
          output: [{ type: "message", content: [{ type: "output_text", text }] }],
          usage: {
            input_tokens: 11,
            input_tokens_details: { cached_tokens: 8 },
            output_tokens: 31,
            output_tokens_details: { reasoning_tokens: 0 },
            total_tokens: 42,
          },
          metadata: {},
        },
      }),
    ].join(""),
    usage: {
      ...{ input: 11, output: 31, total: 42, cachedInputTokens: 8, reasoningTokens: 0 },
      ...{ model: "gpt-mock-2", estimated: false },
    },
  },
  {
    name: "OpenAI embeddings",
    source: "https://platform.openai.com/docs/api-reference/embeddings/create",
    contentType: json,
    body: JSON.stringify({
      object: "list",
      data: [{ object: "embedding", index: 0, embedding: [0.0023, -1e-9, 0.5] }],
      model: "embed-mock",
      usage: { prompt_tokens: 8, total_tokens: 8 },
    }),
    usage: { input: 8, total: 8, model: "embed-mock", estimated: false },
  },
  {
    name: "Anthropic message",
    source: "https://docs.anthropic.com/en/api/messages",
    contentType: json,
    body: JSON.stringify({
      id: "msg_1",
      type: "message",
      role: "assistant",
      content: [{ type: "text", text }],
      model: "claude-mock",
      stop_reason: "end_turn",
      usage: {
        input_tokens: 10,
        cache_creation_input_tokens: 200,
        cache_read_input_tokens: 3000,
        cache_creation: { ephemeral_5m_input_tokens: 200 },
        output_tokens: 25,
        service_tier: "standard",
      },
    }),
    usage: {
      ...{ input: 3210, output: 25, total: 3235, cachedInputTokens: 3000, cacheCreationTokens: 200 },
      ...{ model: "claude-mock", estimated: false },
    },
  },
  {
    name: "Anthropic message, streamed",
    source: "https://docs.anthropic.com/en/docs/build-with-claude/streaming",
    contentType: sse,
    body: [
      namedEvent({
        type: "message_start",
        message: {
          id: "msg_2",
          model: "claude-mock",
          content: [],
          usage: { input_tokens: 25, cache_read_input_tokens: 100, output_tokens: 1 },
        },
      }),
      namedEvent({ type: "ping" }),
      namedEvent({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } }),
      namedEvent({ type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 15 } }),
      namedEvent({ type: "message_stop" }),
    ].join(""),
    usage: { input: 125, output: 15, total: 140, cachedInputTokens: 100, model: "claude-mock", estimated: false },
  },
  {
    name: "Azure OpenAI chat completion",
    source: "https://learn.microsoft.com/en-us/azure/ai-foundry/openai/reference#chat-completions",
    contentType: json,
    body: JSON.stringify({
      choices: [
        {
          content_filter_results: { hate: { filtered: false, severity: "safe" } },
          finish_reason: "stop",
          index: 0,
          logprobs: null,
          message: { content: text, role: "assistant" },
        },
      ],
      ...{ created: 1_729_898_173, id: "chatcmpl-AMM", model: "gpt-4o-2024-08-06", object: "chat.completion" },
      prompt_filter_results: [{ prompt_index: 0, content_filter_results: {} }],
      system_fingerprint: "fp_67802d9a6d",
      usage: {
        completion_tokens: 65,
        prompt_tokens: 40,
        total_tokens: 105,
        prompt_tokens_details: { audio_tokens: 0, cached_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 0 },
      },
    }),
    usage: {
      ...{ input: 40, output: 65, total: 105, cachedInputTokens: 0, reasoningTokens: 0 },
      ...{ model: "gpt-4o-2024-08-06", estimated: false },
    },
  },
  {
    name: "Gemini response",
    source: geminiReference,
    contentType: json,
    body: JSON.stringify(geminiPart(text, geminiFigures), undefined, 2),
    usage: geminiUsage,
  },
  {
    name: "Gemini response, streamed as events",
    source: `${geminiReference} (alt=sse)`,
    contentType: sse,
    body: geminiParts.map(dataEvent).join(""),
    usage: geminiUsage,
  },
  {
    name: "Gemini response, streamed as a JSON array",
    source: geminiReference,
    contentType: json,
    body: `[${geminiParts.map((part) => JSON.stringify(part, undefined, 2)).join("\n,\r\n")}\n]\n`,
    usage: geminiUsage,
  },
  {
    name: "Bedrock Converse response",
    source: "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html",
    contentType: json,
    body: JSON.stringify({
      metrics: { latencyMs: 1175 },
      output: { message: { content: [{ text }], role: "assistant" } },
      stopReason: "end_turn",
      usage: {
        ...{ cacheReadInputTokenCount: 50, cacheReadInputTokens: 50, cacheWriteInputTokenCount: 20 },
        ...{ cacheWriteInputTokens: 20, inputTokens: 30, outputTokens: 628, totalTokens: 728 },
      },
    }),
    usage: {
      ...{ input: 100, output: 628, total: 728, cachedInputTokens: 50, cacheCreationTokens: 20 },
      estimated: false,
    },
  },
  {
    name: "Jina reranking",
    source: "https://api.jina.ai/redoc#tag/rerank",
    contentType: json,
    body: JSON.stringify({
      model: "jina-reranker-v2-base-multilingual",
      object: "list",
      usage: { total_tokens: 815 },
      results: [{ index: 0, document: { text }, relevance_score: 0.93 }],
    }),
    usage: { total: 815, model: "jina-reranker-v2-base-multilingual", estimated: false },
  },
  {
    name: "Cohere response",
    source: "https://docs.cohere.com/v2/reference/chat",
    contentType: json,
    body: JSON.stringify({
      id: "c14c80c3",
      finish_reason: "COMPLETE",
      message: { role: "assistant", content: [{ type: "text", text }] },
      usage: {
        billed_units: { input_tokens: 5, output_tokens: 418 },
        tokens: { input_tokens: 71, output_tokens: 418 },
      },
    }),
    usage: { input: 71, output: 418, total: 489, estimated: false },
  },
  {
    name: "OpenAI image",
    source: "https://platform.openai.com/docs/api-reference/images/object",
    contentType: json,
    body: JSON.stringify({
      created: 1_713_833_628,
      data: [{ b64_json: "iVBORw0KGgo".repeat(40) }],
      background: "transparent",
      usage: {
        ...{ total_tokens: 100, input_tokens: 50, output_tokens: 50 },
        input_tokens_details: { text_tokens: 10, image_tokens: 40 },
      },
    }),
    usage: { input: 50, output: 50, total: 100, estimated: false },
  },
  {
    name: "OpenAI image, streamed",
    source: "https://platform.openai.com/docs/api-reference/images-streaming/image_generation/completed",
    contentType: sse,
    body: [
      namedEvent({ type: "image_generation.partial_image", b64_json: "aGk=", partial_image_index: 0 }),
      namedEvent({
        type: "image_generation.completed",
        b64_json: "aGk=",
        usage: { total_tokens: 100, input_tokens: 50, output_tokens: 50, input_tokens_details: { text_tokens: 50 } },
      }),
    ].join(""),
    usage: { input: 50, output: 50, total: 100, estimated: false },
  },
  {
    name: "OpenAI transcription",
    source: "https://platform.openai.com/docs/api-reference/audio/json-object",
    contentType: json,
    body: JSON.stringify({
      text,
      usage: {
        ...{ type: "tokens", input_tokens: 14, output_tokens: 101, total_tokens: 115 },
        input_token_details: { text_tokens: 0, audio_tokens: 14 },
      },
    }),
    usage: { input: 14, output: 101, total: 115, estimated: false },
  },
  {
    name: "OpenAI transcription, streamed",
    source: "https://platform.openai.com/docs/api-reference/audio/transcript-text-done-event",
    contentType: sse,
    body: [
      dataEvent({ type: "transcript.text.delta", delta: text }),
      dataEvent({
        type: "transcript.text.done",
        text,
        usage: { type: "tokens", input_tokens: 14, output_tokens: 31, total_tokens: 45 },
      }),
    ].join(""),
    usage: { input: 14, output: 31, total: 45, estimated: false },
  },
];

/** A binary stream in the form that the documentation of the API shows. */
export interface RecordedEventStream {
  readonly name: string;
  readonly source: string;
  readonly body: Buffer;
  readonly usage: TokenUsage;
}

export const recordedEventStreams: readonly RecordedEventStream[] = [
  {
    name: "Bedrock ConverseStream",
    source: "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html",
    body: Buffer.concat([
      bedrockEvent("messageStart", { p: "abcdefghijklm", role: "assistant" }),
      bedrockEvent("contentBlockDelta", { contentBlockIndex: 0, delta: { text }, p: "abcdefghi" }),
      bedrockEvent("contentBlockStop", { contentBlockIndex: 0, p: "abcdefghij" }),
      bedrockEvent("messageStop", { p: "abcd", stopReason: "end_turn" }),
      bedrockEvent("metadata", {
        metrics: { latencyMs: 772 },
        p: "abcdefgh",
        usage: {
          ...{ cacheReadInputTokens: 0, cacheWriteInputTokens: 11, inputTokens: 20 },
          ...{ outputTokens: 17, serverToolUsage: {}, totalTokens: 48 },
        },
      }),
    ]),
    usage: {
      ...{ input: 31, output: 17, total: 48, cachedInputTokens: 0, cacheCreationTokens: 11 },
      estimated: false,
    },
  },
  {
    name: "Bedrock InvokeModelWithResponseStream of Anthropic",
    source:
      "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModelWithResponseStream.html and https://docs.anthropic.com/en/docs/build-with-claude/streaming",
    body: Buffer.concat([
      bedrockChunk({
        type: "message_start",
        message: {
          ...{ id: "msg_bdrk_1", type: "message", role: "assistant", model: "claude-mock", content: [] },
          usage: { input_tokens: 12, cache_creation_input_tokens: 0, cache_read_input_tokens: 30, output_tokens: 1 },
        },
      }),
      bedrockChunk({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } }),
      bedrockChunk({ type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 9 } }),
      bedrockChunk({
        type: "message_stop",
        "amazon-bedrock-invocationMetrics": {
          ...{ inputTokenCount: 12, outputTokenCount: 9, invocationLatency: 640, firstByteLatency: 310 },
          ...{ cacheReadInputTokenCount: 30, cacheWriteInputTokenCount: 0 },
        },
      }),
    ]),
    usage: {
      ...{ input: 42, output: 9, total: 51, cachedInputTokens: 30, cacheCreationTokens: 0 },
      ...{ model: "claude-mock", estimated: false },
    },
  },
  {
    name: "Bedrock InvokeModelWithResponseStream of Llama",
    source: "https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-meta.html",
    body: Buffer.concat([
      bedrockChunk({ generation: text, prompt_token_count: 15, generation_token_count: 1, stop_reason: null }),
      bedrockChunk({
        ...{ generation: "", prompt_token_count: null, generation_token_count: 2, stop_reason: "stop" },
        "amazon-bedrock-invocationMetrics": {
          ...{ inputTokenCount: 15, outputTokenCount: 2, invocationLatency: 310, firstByteLatency: 200 },
        },
      }),
    ]),
    usage: { input: 15, output: 2, total: 17, estimated: false },
  },
];

/** Fragments from which random almost valid events and bodies are made. */
export const fragments: readonly string[] = [
  "data:",
  "data: ",
  ": ",
  "event: x",
  "\n",
  "\r",
  "\r\n",
  "\n\n",
  "{",
  "}",
  "[",
  "]",
  ",",
  ":",
  '"',
  "\\",
  "ü",
  "1",
  "-1",
  "null",
  '"usage"',
  '"usage":null',
  ',"usage":null}',
  '"usage":{"total_tokens":5}',
  '"choices":[]',
  '"response"',
  '"message"',
  '{"choices":[],"usage":{}}',
];
