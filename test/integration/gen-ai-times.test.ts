/** The times of the tokens of a stream, end to end. */
import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import { startGatewayTo } from "../support/llm-gateway.ts";

const event = (data: object | string): string => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
const chunk = (delta: object, finish_reason: string | null = null): string =>
  event({ object: "chat.completion.chunk", model: "gpt-5-2026", choices: [{ index: 0, delta, finish_reason }] });

/** A stream that the test continues, and its client. */
async function openStream(status = 200, contentType = "text/event-stream") {
  const opened = Promise.withResolvers<ServerResponse>();
  const { port } = await startBackend((_, response) => {
    response.writeHead(status, { "content-type": contentType });
    opened.resolve(response);
  });
  const gateway = await startGatewayTo("openai", port, ["{ requests: 1000, unit: Hours }"]);
  const body = JSON.stringify({ model: "gpt-5", stream: true, stream_options: { include_usage: true }, messages: [] });
  const responded = fetch(`${gateway.url()}/v1/chat/completions`, { method: "POST", body });
  const stream = await opened.promise;
  const client: { reader?: ReadableStreamDefaultReader<Uint8Array> } = {};
  return {
    gateway,
    /** Sends a part, after a time, and awaits that the client has it. */
    send: async (afterMs: number, part: string): Promise<void> => {
      gateway.clock.advance(afterMs);
      stream.write(part);
      client.reader ??= ((await responded).body as ReadableStream<Uint8Array>).getReader();
      let missing = Buffer.byteLength(part);
      while (missing > 0) missing -= (await client.reader.read()).value?.length ?? missing;
    },
    /** Ends the stream, and returns the call of the record. */
    end: async (afterMs: number) => {
      gateway.clock.advance(afterMs);
      const ended = gateway.nextRecord();
      stream.end();
      while ((await client.reader?.read())?.done === false);
      return (await ended).providerCall;
    },
  };
}

test("the first token of a stream is its first text, not its first event", async () => {
  const { send, end } = await openStream();
  await send(100, chunk({ role: "assistant", content: "" }));
  await send(200, chunk({ content: "Hel" }));
  await send(50, chunk({ content: "lo" }));
  await send(50, chunk({}, "stop") + event({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 2 } }));
  const call = await end(7);
  expect(call).toMatchObject({ provider: "openai", path: "/v1/chat/completions", failure: undefined });
  const { requestMs = 0, startMs, firstTokenMs = 0, endMs = 0 } = call ?? {};
  expect([startMs, firstTokenMs - requestMs, endMs - firstTokenMs]).toEqual([requestMs, 300, 107]);
});

test.each([
  [200, "application/json"],
  [500, "text/event-stream"],
])("a response with status %i and type %s has no first token", async (status, type) => {
  const { send, end } = await openStream(status, type);
  await send(10, type === "application/json" ? '{"choices":[{"message":{"content":"Hi"}}]}' : chunk({ content: "Hi" }));
  expect(await end(5)).toMatchObject({ firstTokenMs: undefined, failure: undefined });
});
