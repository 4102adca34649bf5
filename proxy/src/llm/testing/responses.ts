/** Bodies in each dialect, written for these tests, with the expected usage. */
import type { TokenUsage } from "../../ir/usage.ts";

export interface RecordedResponse {
  readonly name: string;
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

export const recordedResponses: readonly RecordedResponse[] = [
  {
    name: "OpenAI chat completion",
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
    usage: { input: 19, output: 10, total: 29, model: "gpt-mock-1", estimated: false },
  },
  {
    name: "OpenAI chat completion, streamed with its usage",
    contentType: sse,
    body: [chatChunk("", { usage: null }), chatChunk(text, { usage: null })]
      .concat(chatUsageChunk({ prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 }), done)
      .join(""),
    usage: { input: 7, output: 2, total: 9, model: "gpt-mock-1", estimated: false },
  },
  {
    name: "chat completion of a server that repeats running totals and sends no [DONE]",
    contentType: sse,
    body: [1, 2, 3]
      .map((n) => chatChunk(text, { usage: { prompt_tokens: 5, completion_tokens: n, total_tokens: 5 + n } }))
      .join(""),
    usage: { input: 5, output: 3, total: 8, model: "gpt-mock-1", estimated: false },
  },
  {
    name: "OpenAI response",
    contentType: json,
    body: JSON.stringify({
      id: "resp_1",
      object: "response",
      model: "gpt-mock-2",
      output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text, annotations: [] }] }],
      tools: [{ type: "function", name: "f", parameters: { usage: { total_tokens: 1 } } }],
      usage: { input_tokens: 36, input_tokens_details: { cached_tokens: 0 }, output_tokens: 87, total_tokens: 123 },
      user: null,
      metadata: { usage: "none" },
    }),
    usage: { input: 36, output: 87, total: 123, model: "gpt-mock-2", estimated: false },
  },
  {
    name: "OpenAI response, streamed",
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
          usage: { input_tokens: 11, output_tokens: 31, total_tokens: 42 },
          metadata: {},
        },
      }),
    ].join(""),
    usage: { input: 11, output: 31, total: 42, model: "gpt-mock-2", estimated: false },
  },
  {
    name: "OpenAI embeddings",
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
    usage: { input: 3210, output: 25, total: 3235, model: "claude-mock", estimated: false },
  },
  {
    name: "Anthropic message, streamed",
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
    usage: { input: 125, output: 15, total: 140, model: "claude-mock", estimated: false },
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
