import { describe, expect, test } from "vitest";
import type { TokenUsage } from "../ir/usage.ts";
import { RealtimeInput, RealtimeUsage } from "./realtime-usage.ts";

/** The usage of the events of a session. @param sent events of the client. */
function usageOf(events: readonly object[], sent: readonly object[] = [], isCut = false) {
  const found: TokenUsage[] = [];
  const input = new RealtimeInput();
  for (const event of sent) {
    input.onPayload(Buffer.from(JSON.stringify(event)));
    input.onMessageEnd();
  }
  const usage = new RealtimeUsage(input, (each) => void found.push(each));
  for (const event of events) {
    const text = Buffer.from(JSON.stringify(event));
    for (let at = 0; at < text.length; at += 7) usage.onPayload(text.subarray(at, at + 7));
    usage.onMessageEnd();
  }
  const { hasOpenResponse } = usage;
  if (isCut) usage.end();
  return { found, hasOpenResponse };
}

/** OpenAI, "Realtime server events", `response.done`. */
const done = {
  event_id: "event_3132",
  type: "response.done",
  response: {
    id: "resp_001",
    object: "realtime.response",
    status: "completed",
    output: [
      {
        type: "message",
        role: "assistant",
        content: [{ type: "text", text: '{"usage":{"total_tokens":1}}', usage: { total_tokens: 1 } }],
      },
    ],
    usage: {
      total_tokens: 275,
      input_tokens: 127,
      output_tokens: 148,
      input_token_details: {
        ...{ cached_tokens: 64, text_tokens: 119, audio_tokens: 8 },
        cached_tokens_details: { text_tokens: 64, audio_tokens: 0 },
      },
      output_token_details: { text_tokens: 36, audio_tokens: 112 },
    },
  },
};
const reported = { input: 127, output: 148, total: 275, cachedInputTokens: 64, estimated: false };
const created = { type: "response.created", response: { id: "resp_001", usage: null } };
const session = { type: "session.created", session: { model: "gpt-realtime" } };

describe("the usage of a session", () => {
  test("is that of each response, with the model of the session", () => {
    const { found } = usageOf([session, created, done, created, done]);
    expect(found).toEqual([
      { ...reported, model: "gpt-realtime" },
      { ...reported, model: "gpt-realtime" },
    ]);
  });

  /** OpenAI, "Realtime server events", `conversation.item.input_audio_transcription.completed`. */
  test("has the tokens of a transcription, and an estimate by its duration", () => {
    const type = "conversation.item.input_audio_transcription.completed";
    const tokens = { type: "tokens", total_tokens: 48, input_tokens: 38, output_tokens: 10 };
    const { found } = usageOf([
      { type, transcript: "Hello", usage: tokens },
      { type, transcript: "x".repeat(38), usage: { type: "duration", seconds: 3 } },
    ]);
    expect(found).toEqual([
      { input: 38, output: 10, total: 48, estimated: false },
      { input: 30, output: 10, total: 40, estimated: true },
    ]);
  });

  test("has an estimate by the audio of the client for a transcription without a report, once", () => {
    const type = "conversation.item.input_audio_transcription.completed";
    const audio = { type: "input_audio_buffer.append", audio: "A".repeat(640_000) };
    const { found } = usageOf(
      [
        { type, transcript: "" },
        { type, transcript: "" },
      ],
      [audio],
    );
    expect(found.map(({ input }) => input)).toEqual([101, undefined]);
  });

  test("has an estimate of the transcriptions that have not ended, or have failed after a part", () => {
    const type = (end: string): string => `conversation.item.input_audio_transcription.${end}`;
    const part = (item_id: string) => ({ type: type("delta"), item_id, delta: "x".repeat(38) });
    const usage = { type: "tokens", total_tokens: 48, input_tokens: 38, output_tokens: 10 };
    const { found, hasOpenResponse } = usageOf(
      [
        ...[part("one"), part("two"), part("two"), part("three")],
        ...[
          { type: type("failed"), item_id: "three" },
          { type: type("failed"), item_id: "four" },
        ],
        { type: type("completed"), item_id: "one", transcript: "", usage },
      ],
      [],
      true,
    );
    expect(hasOpenResponse).toBe(true);
    expect(found.map(({ total }) => total)).toEqual([10, 48, 20]);
  });

  /** vLLM, `TranscriptionDone`; Mistral, `TranscriptionStreamDone`. */
  test("has the transcriptions of other servers", () => {
    const type = "transcription.done";
    const { found } = usageOf([
      { type, text: "Hello", usage: { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 } },
      { type, text: "", usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0, prompt_audio_seconds: 12 } },
    ]);
    expect(found.map(({ total }) => total)).toEqual([12, 121]);
  });

  /** OpenAI, "Responses WebSocket mode": the events of a stream, one in each message. */
  test("has the responses of the responses API", () => {
    const usage = { input_tokens: 5, output_tokens: 7, total_tokens: 12 };
    const { found } = usageOf([
      { type: "response.created", response: { model: "gpt-5", usage: null } },
      { type: "response.completed", response: { model: "gpt-5", usage } },
    ]);
    expect(found).toEqual([{ input: 5, output: 7, total: 12, model: "gpt-5", estimated: false }]);
  });

  test.each<readonly [string, object]>([
    ["another event with a usage", { type: "rate_limits.updated", usage: { total_tokens: 9 } }],
    ["an event without a type", { response: { usage: { total_tokens: 9 } } }],
    ["a usage at another depth", { type: "response.delta", item: { usage: { total_tokens: 9 } } }],
    ["a response without tokens", { type: "response.done", response: { usage: { total_tokens: 0 } } }],
  ])("has nothing for %s", (_title, event) => {
    expect(usageOf([event], [], true).found).toEqual([]);
  });
});

describe("a response without a report is estimated", () => {
  const text = { type: "response.output_text.delta", delta: "x".repeat(38) };
  const audio = { type: "response.output_audio.delta", delta: "A".repeat(64_000) };

  test("by its text, and its audio by the time", () => {
    const { found, hasOpenResponse } = usageOf([created, text, audio], [], true);
    expect(hasOpenResponse).toBe(true);
    expect(found).toEqual([{ output: 10 + 21, total: 31, estimated: true }]);
  });

  test("with what the client has sent, as text and as audio", () => {
    const sent = [
      { type: "input_audio_buffer.append", audio: "A".repeat(640_000) },
      { type: "conversation.item.create", item: { content: [{ type: "input_text", text: "x".repeat(4_000) }] } },
    ];
    const [usage] = usageOf([created, text], sent, true).found;
    // A token for 100 ms, and the names of the members beside the text.
    expect(usage?.input).toBeGreaterThanOrEqual(100 + 1_000);
    expect(usage?.input).toBeLessThan(1_150);
  });

  test("with the conversation that the last report has shown", () => {
    const { found } = usageOf([created, done, created, text], [], true);
    expect(found[1]).toEqual({ input: 127, output: 10, total: 137, estimated: true });
  });

  test("if its end has none", () => {
    const failed = { type: "response.done", response: { status: "failed", usage: null } };
    expect(usageOf([created, text, failed], [], true).found).toEqual([{ output: 10, total: 10, estimated: true }]);
  });

  test("with the input for each that has begun", () => {
    const { found } = usageOf([created, done, created, created, text], [], true);
    expect(found[1]).toEqual({ input: 2 * 127, output: 10, total: 264, estimated: true });
  });

  const create = { type: "response.create" };

  test("if the client has requested it, and it has not begun", () => {
    const { found, hasOpenResponse } = usageOf([], [create], true);
    expect(hasOpenResponse).toBe(true);
    expect(found).toEqual([
      { input: expect.any(Number) as number, output: 0, total: found[0]?.input, estimated: true },
    ]);
  });

  test("with the input for each that was requested and has not begun, except for one that was rejected", () => {
    const rejected = { type: "error", error: { message: "no" } };
    const sent = [create, create, create, create];
    const { found, hasOpenResponse } = usageOf([created, done, rejected], sent, true);
    expect(hasOpenResponse).toBe(true);
    expect(found[1]).toEqual({ input: 2 * 127, output: 0, total: 254, estimated: true });
    const many = usageOf([created, done], Array<object>(1_001).fill(create), true);
    expect(many.found[1]?.input).toBe(100 * 127);
  });

  test.each<readonly [string, string]>([
    ["a repeated member", '{"type":"response.create","type":"session.update"}'],
    ["escapes", '{"type":"response\\u002ecreate"}'],
    ["a value that is too long to be kept", `{"type":${" ".repeat(20_000)}"response.create"}`],
  ])("if the client has requested it by %s", (_, event) => {
    const input = new RealtimeInput();
    for (let at = 0; at < event.length; at += 1_000) input.onPayload(Buffer.from(event.slice(at, at + 1_000)));
    input.onMessageEnd();
    expect(input.awaitsResponse).toBe(true);
  });

  test.each<readonly [string, object[]]>([
    ["it has been rejected", [{ type: "error", error: { message: "no" } }]],
    ["it has been reported", [created, done]],
    ["it has been reported, and its beginning has not", [done]],
  ])("and not if %s", (_, events) => {
    const { found, hasOpenResponse } = usageOf(events, [create], true);
    expect([hasOpenResponse, found.some(({ estimated }) => estimated)]).toEqual([false, false]);
  });

  test("and once", () => {
    expect(usageOf([created, text, done], [], true).found).toHaveLength(1);
  });
});

describe("the model in the events of a client", () => {
  const namesOther = (event: string): boolean => {
    const input = new RealtimeInput();
    input.models = new Set(["m"]);
    input.onPayload(Buffer.from(event));
    return input.namesOtherModel;
  };

  test.each([
    '{"type":"response.create","model":"other",',
    '{"session":{"model":"other"',
    '{"response":{"model":"other",',
    '{"m\\u006fdel":"other",',
    '{"model":"m","model":"other",',
    '{"model":["m"],',
    '{"model":1,',
  ])("is another one before the end of %s", (event) => {
    expect(namesOther(event.endsWith('"other"') ? `${event}}` : event)).toBe(true);
  });

  test.each([
    '{"model":"m"}',
    '{"model":null}',
    '{"item":{"model":"other"}}',
    '{"session":{"voice":{"model":"x"}}}',
    "[1]",
  ])("is none in %s", (event) => expect(namesOther(event)).toBe(false));

  test("may be any, unless some are given", () => {
    const input = new RealtimeInput();
    input.onPayload(Buffer.from('{"model":"other"}'));
    expect(input.namesOtherModel).toBe(false);
  });
});
