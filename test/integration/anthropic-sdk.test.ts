/** Anthropic's own client through the gateway to the mock LLM: token limits as its users see them. */
import Anthropic, { RateLimitError } from "@anthropic-ai/sdk";
import { describe, expect, test } from "vitest";
import { type LlmGateway, startLlmGateway } from "../support/llm-gateway.ts";

const thousandTokens = ["{ tokens: 1000, unit: Minutes }"];
const question = {
  model: "mock-1",
  max_tokens: 500,
  messages: [{ role: "user" as const, content: "What is a token?" }],
};

function clientOf({ gateway }: LlmGateway, headers: Readonly<Record<string, string>> = {}): Anthropic {
  const defaultHeaders = { "x-mock-delay-ms": "0", ...headers };
  return new Anthropic({ baseURL: gateway.url(), apiKey: "none", maxRetries: 0, defaultHeaders });
}

const costing = (input: number, output: number) => ({
  "x-mock-prompt-tokens": String(input),
  "x-mock-completion-tokens": String(output),
});

/** The remaining tokens, by the headers of a further response. */
async function remaining(served: LlmGateway): Promise<number> {
  const { response } = await clientOf(served).models.list().withResponse();
  return Number(response.headers.get("x-ratelimit-remaining"));
}

const ways: readonly (readonly [string, (client: Anthropic) => Promise<Anthropic.Message>])[] = [
  ["a message", (client) => client.messages.create(question)],
  ["a streamed message", (client) => client.messages.stream(question).finalMessage()],
];

describe.each(ways)("%s", (_name, send) => {
  test("is limited by its input and output together until the window ends", async () => {
    const served = await startLlmGateway("anthropic", thousandTokens);
    const client = clientOf(served, costing(150, 250));
    for (let i = 0; i < 3; i++) expect((await send(client)).usage).toMatchObject({ output_tokens: 250 });
    await expect(send(client)).rejects.toThrow(RateLimitError);
    expect(served.mock.requests).toHaveLength(3);

    served.gateway.clock.advance(59_999);
    await expect(send(client)).rejects.toThrow(RateLimitError);
    served.gateway.clock.advance(1);
    expect((await send(client)).content[0]).toMatchObject({ type: "text" });
  });

  test("that exceeds the limit in one response gets the full response", async () => {
    const served = await startLlmGateway("anthropic", thousandTokens);
    const { content } = await send(clientOf(served, costing(200, 1_000)));
    expect(content[0]?.type === "text" ? content[0].text : "").toMatch(/for it\.$/);
    await expect(send(clientOf(served))).rejects.toThrow(RateLimitError);
  });

  test.each(["gzip", "deflate", "br", "zstd"])("is counted when it is compressed with %s", async (encoding) => {
    const served = await startLlmGateway("anthropic", thousandTokens);
    const accepted = { "x-mock-encoding": encoding, "accept-encoding": "gzip, deflate, br, zstd" };
    await send(clientOf(served, { ...costing(100, 200), ...accepted }));
    expect(await remaining(served)).toBe(700);
  });
});

test("a stream that the client leaves is charged its reported input and an estimate of its output", async () => {
  const served = await startLlmGateway("anthropic", thousandTokens);
  const headers = { "x-mock-prompt-tokens": "90", "x-mock-words": "100000", "x-mock-delay-ms": "1" };
  const stream = await clientOf(served, headers).messages.create({ ...question, max_tokens: 100_000, stream: true });
  const ended = served.gateway.nextRecord();
  let received = 0;
  for await (const event of stream) {
    if (event.type === "content_block_delta" && event.delta.type === "text_delta") received += event.delta.text.length;
    if (received > 100) stream.controller.abort();
  }
  await expect.poll(() => served.gateway.clock.pendingTimers).toBe(1);
  served.gateway.clock.advance(60_000);
  const { usage } = await ended;
  expect(usage).toMatchObject({ input: 90, estimated: true });
  expect(usage?.output).toBeGreaterThanOrEqual(Math.ceil(received / 4));
  expect(await remaining(served)).toBe(1_000 - (usage?.total ?? 0));
});

test("an error of the provider reaches the client in its own form and costs nothing", async () => {
  const served = await startLlmGateway("anthropic", thousandTokens);
  const failure: unknown = await clientOf(served, { "x-mock-status": "529" })
    .messages.create(question)
    .catch((error: unknown) => error);
  expect(failure).toMatchObject({ status: 529, error: { type: "error" } });
  expect(await remaining(served)).toBe(1_000);
});
