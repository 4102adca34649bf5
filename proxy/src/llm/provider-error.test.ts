import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readErrorEvent, readErrorMessage, readRetryDelay } from "./provider-error.ts";
import { bedrockEvent, eventStreamMessage } from "./testing/event-stream-message.ts";

const statusOf = (stream: string) => readErrorEvent(Buffer.from(stream))?.status;
const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const retryInfo = (retryDelay: unknown) => ({ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay });

describe("the first event of a stream", () => {
  test.each([
    [
      "overloaded (Anthropic)",
      'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n',
      500,
    ],
    ["a rate limit (Anthropic)", data({ type: "error", error: { type: "rate_limit_error" } }), 429],
    ["an invalid request (Anthropic)", data({ type: "error", error: { type: "invalid_request_error" } }), 400],
    ["a server error (OpenAI)", data({ error: { message: "no", type: "server_error", code: null } }), 500],
    ["a rate limit (OpenAI)", data({ error: { type: "tokens", code: "rate_limit_exceeded" } }), 429],
    ["an empty account (OpenAI)", data({ error: { type: "insufficient_quota", code: "insufficient_quota" } }), 429],
    ["a long context (OpenAI)", data({ error: { type: null, code: "context_length_exceeded" } }), 400],
    ["an error of the responses API (OpenAI)", data({ type: "error", code: "rate_limit_exceeded" }), 429],
    ["an exhausted resource (Gemini)", data({ error: { code: 429, status: "RESOURCE_EXHAUSTED" } }), 429],
    ["an unavailable service (Gemini), in an array", data([{ error: { status: "UNAVAILABLE" } }]), 500],
    ["an invalid argument (Gemini)", data({ error: { status: "INVALID_ARGUMENT" } }), 400],
    ["a bad request (vLLM)", data({ error: { object: "error", type: "BadRequestError", code: 400 } }), 400],
    ["an error without a member for it (vLLM)", data({ object: "error", type: "InternalServerError", code: 500 }), 500],
    ["an upstream failure (OpenRouter)", data({ choices: [], error: { code: "502", message: "no" } }), 502],
    ["a text (Ollama)", data({ error: "model runner has stopped" }), 500],
    ["an event whose type is error, with other data", "event: error\ndata: no\n\n", 500],
    ["behind comments and empty events", `\uFEFF: wait\r\n\r\nevent: ping\r\n\r\n${data({ error: {} })}`, 500],
    ["on several lines", 'data: {"error":\rdata: {"code": 503}}\r\r', 503],
  ])("may be an error: %s", (_, stream, status) => {
    expect(statusOf(stream)).toBe(status);
    expect(statusOf(`${stream}data: {"choices": []}\n\n`)).toBe(status);
  });

  test.each([
    ["a chunk", data({ object: "chat.completion.chunk", choices: [] })],
    ["an event without an error", data({ type: "response.created", response: { error: null }, error: null })],
    ["no JSON", "data: [DONE]\n\n"],
    ["the start of a message", `event: message_start\n${data({ type: "message_start" })}`],
    ["an empty event of the type error before another one", `event: error\n\n${data({ choices: [] })}`],
    ["a chunk before an error", `${data({ choices: [] })}${data({ error: {} })}`],
    ["nothing", ""],
  ])("is no error if it is %s", (_, stream) => {
    expect(statusOf(stream)).toBeUndefined();
  });

  test("may say when the quota is reset", () => {
    const stream = data({ error: { code: 429, details: [retryInfo("38.5s")] } });
    expect(readErrorEvent(Buffer.from(stream))).toEqual({ status: 429, resetMs: 38_500 });
  });
});

describe("the first message of Amazon", () => {
  test.each([
    ["throttlingException", 429],
    ["serviceUnavailableException", 500],
    ["modelStreamErrorException", 500],
    ["validationException", 400],
  ])("may be an exception: %s", (type, status) => {
    const headers = { ":message-type": "exception", ":exception-type": type };
    expect(readErrorMessage(eventStreamMessage(headers, "{}"))?.status).toBe(status);
  });

  test("may be an error without a model", () => {
    const headers = { ":message-type": "error", ":error-code": "InternalFailure" };
    expect(readErrorMessage(eventStreamMessage(headers, ""))?.status).toBe(500);
  });

  test("is no error if it is an event, whatever follows", () => {
    const later = eventStreamMessage({ ":message-type": "exception", ":exception-type": "throttlingException" }, "{}");
    expect(readErrorMessage(Buffer.concat([bedrockEvent("messageStart", {}), later]))).toBeUndefined();
    expect(readErrorMessage(Buffer.from("no message at all"))).toBeUndefined();
  });
});

describe("the delay in the body of an error", () => {
  test.each([
    ["seconds", "38s", 38_000],
    ["a part of a second", "0.25s", 250],
    ["nothing", "0s", 0],
    ["a negative one", "-3s", undefined],
    ["another unit", "3m", undefined],
    ["a number", 3, undefined],
  ])("may be %s", (_, delay, ms) => {
    const error = { code: 429, details: [{ "@type": "other" }, null, retryInfo(delay)] };
    expect(readRetryDelay(JSON.stringify({ error }))).toBe(ms);
    expect(readRetryDelay(JSON.stringify([{ error }]))).toBe(ms);
  });

  test.each([
    ["that is cut", '{"error": {"details": [{'],
    ["without details", '{"error": {}}'],
    ["that is deep", "[".repeat(60_000)],
  ])("is none in a body %s", (_, body) => {
    expect(readRetryDelay(body)).toBeUndefined();
  });
});

test("any bytes are read without an exception", () => {
  const bytes = fc.uint8Array({ maxLength: 400 }).map((array) => Buffer.from(array));
  const json = fc.json().map((value) => Buffer.from(`event: error\ndata: ${value}\n\n`));
  fc.assert(
    fc.property(fc.oneof(bytes, json), (stream) => {
      const error = readErrorEvent(stream) ??
        readErrorMessage(stream) ?? { status: 500, resetMs: readRetryDelay(String(stream)) };
      expect(error.status).toBeGreaterThanOrEqual(400);
      expect(error.status).toBeLessThan(600);
    }),
  );
});
