import { describe, expect, test } from "vitest";
import { FirstToken } from "./first-token.ts";

/** The number of events after which the first token is found; undefined if it is not. */
function foundAfter(events: readonly string[]): number | undefined {
  let found = 0;
  const first = new FirstToken(() => {
    found++;
  });
  let isReading = true;
  for (const [at, event] of events.entries()) {
    if (isReading) isReading = first.push(Buffer.from(event));
    if (found > 0) {
      expect([isReading, found]).toEqual([false, 1]);
      return at + 1;
    }
  }
  return undefined;
}

const data = (...events: readonly object[]) => events.map((event) => `data: ${JSON.stringify(event)}\n\n`);

describe("the first token of a stream is in the first event with text of the model", () => {
  test.each([
    [
      "OpenAI chat",
      data(
        {
          object: "chat.completion.chunk",
          model: "gpt-5",
          choices: [{ index: 0, delta: { role: "assistant", content: "" } }],
        },
        { object: "chat.completion.chunk", model: "gpt-5", choices: [{ index: 0, delta: { content: "Hi" } }] },
      ),
    ],
    [
      "a reasoning model",
      data(
        { choices: [{ index: 0, delta: { role: "assistant", content: null } }] },
        { choices: [{ index: 0, delta: { reasoning_content: "First" } }] },
      ),
    ],
    [
      "a call of a tool",
      data(
        { choices: [{ index: 0, delta: { role: "assistant", content: null } }] },
        { choices: [{ index: 0, delta: { tool_calls: [{ index: 0, id: "c", function: { name: "find" } }] } }] },
      ),
    ],
    [
      "Gemini",
      data(
        { modelVersion: "gemini", responseId: "r" },
        { candidates: [{ content: { parts: [{ text: "Hi" }], role: "model" } }] },
      ),
    ],
    [
      "Ollama",
      [
        '{"model":"m","message":{"role":"assistant","content":""}}\n',
        '{"model":"m","message":{"role":"assistant","content":"Hi"}}\n',
      ],
    ],
  ])("%s", (_, events) => {
    expect(foundAfter(events)).toBe(2);
  });

  test("Anthropic, after the description of the message and a ping", () => {
    const events = [
      {
        type: "message_start",
        message: { id: "m", type: "message", role: "assistant", content: [], usage: { service_tier: "standard" } },
      },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      { type: "ping" },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hi" } },
    ];
    expect(foundAfter(events.map((event) => `event: ${event.type}\r\ndata: ${JSON.stringify(event)}\r\n\r\n`))).toBe(4);
  });

  test("OpenAI responses, after an event that repeats a long request", () => {
    const events = [
      { type: "response.created", response: { id: "r", instructions: "Be brief. ".repeat(10_000) } },
      { type: "response.output_item.added", item: { id: "i", type: "message", content: [] } },
      { type: "response.output_text.delta", item_id: "i", delta: "Hi" },
    ];
    const text = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
    const pieces = text.match(/[^]{1,1000}/g) ?? [];
    expect(foundAfter(pieces)).toBe(pieces.length);
  });

  test("also if it comes in single bytes", () => {
    const [first = "", second = ""] = data(
      { choices: [{ delta: { content: "" } }] },
      { choices: [{ delta: { content: "é" } }] },
    );
    const bytes = Buffer.from(first + second);
    let foundAt = 0;
    const reader = new FirstToken(() => {
      foundAt ||= at + 1;
    });
    let at = 0;
    while (at < bytes.length && reader.push(bytes.subarray(at, at + 1))) at++;
    expect(foundAt).toBe(bytes.length - 1);
  });
});

test("a stream of another format is not read for long", () => {
  let isReading = true;
  let events = 0;
  const reader = new FirstToken(() => expect.unreachable());
  while (isReading && events < 10_000) {
    isReading = reader.push(Buffer.from(`data: {"n":${events++}}\n\n`));
  }
  expect(events).toBeLessThan(10_000);
});
