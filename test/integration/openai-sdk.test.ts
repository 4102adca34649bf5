/** OpenAI's own client through the gateway to the mock LLM: token limits as its users see them. */
import OpenAI, { RateLimitError } from "openai";
import { describe, expect, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import { type LlmGateway, startGatewayTo, startLlmGateway } from "../support/llm-gateway.ts";

const thousandTokens = ["{ tokens: 1000, unit: Minutes }"];
const model = "mock-1";
const done = "data: [DONE]\n\n";
const messages = [{ role: "user" as const, content: "What is a rate limit?" }];

function clientOf({ gateway }: LlmGateway, headers: Readonly<Record<string, string>> = {}): OpenAI {
  const defaultHeaders = { "x-mock-delay-ms": "0", ...headers };
  return new OpenAI({ baseURL: `${gateway.url()}/v1`, apiKey: "none", maxRetries: 0, defaultHeaders });
}

const costing = (tokens: number) => ({ "x-mock-total-tokens": String(tokens) });

/** The remaining tokens, by the headers of a further response. */
async function remaining(served: LlmGateway): Promise<number> {
  const { response } = await clientOf(served, costing(0)).models.list().withResponse();
  return Number(response.headers.get("x-ratelimit-remaining"));
}

async function chat(client: OpenAI): Promise<string> {
  const completion = await client.chat.completions.create({ model, messages });
  return completion.choices[0]?.message.content ?? "";
}

async function streamedChat(client: OpenAI): Promise<string> {
  const chunks = await Array.fromAsync(await client.chat.completions.create({ model, messages, stream: true }));
  return chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
}

/** The ways in which the client uses tokens; each sends one request. */
const ways: readonly (readonly [string, (client: OpenAI) => Promise<unknown>])[] = [
  ["a chat completion", chat],
  ["a streamed chat completion", streamedChat],
  ["a response", (client) => client.responses.create({ model, input: "What is a token?" })],
  ["a streamed response", (client) => client.responses.stream({ model, input: "What is a token?" }).finalResponse()],
  ["embeddings", (client) => client.embeddings.create({ model, input: ["one", "two"] })],
];

describe.each(ways)("%s", (_name, send) => {
  test("is limited by its tokens until the window ends", async () => {
    const served = await startLlmGateway("openai", thousandTokens);
    const client = clientOf(served, costing(400));
    for (let i = 0; i < 3; i++) await send(client);
    const denial: unknown = await send(client).catch((error: unknown) => error);
    expect(denial).toBeInstanceOf(RateLimitError);
    expect(served.mock.requests).toHaveLength(3);

    served.gateway.clock.advance(59_999);
    await expect(send(client)).rejects.toThrow(RateLimitError);
    served.gateway.clock.advance(1);
    await expect(send(client)).resolves.toBeDefined();
  });

  test("that exceeds the limit in one response gets the full response", async () => {
    const served = await startLlmGateway("openai", thousandTokens);
    await expect(send(clientOf(served, costing(1_200)))).resolves.toBeDefined();
    await expect(send(clientOf(served))).rejects.toThrow(RateLimitError);
  });

  test.each(["gzip", "deflate", "br", "zstd"])("is counted when it is compressed with %s", async (encoding) => {
    const served = await startLlmGateway("openai", thousandTokens);
    const headers = { ...costing(300), "x-mock-encoding": encoding, "accept-encoding": "gzip, deflate, br, zstd" };
    await send(clientOf(served, headers));
    expect(await remaining(served)).toBe(700);
  });

  test.each(["none", "null", "negative", "fraction", "string", "huge"])(
    "whose usage is %s arrives, and is estimated",
    async (fault) => {
      const served = await startLlmGateway("openai", thousandTokens);
      await send(clientOf(served, { "x-mock-usage": fault }));
      const record = served.gateway.records[0];
      expect(record).toMatchObject({ usage: { estimated: true }, usageUnread: undefined });
      expect(await remaining(served)).toBe(1_000 - (record?.usage?.total ?? 0));
    },
  );
});

test("a 429 has the time of the reset", async () => {
  const served = await startLlmGateway("openai", thousandTokens);
  await chat(clientOf(served, costing(1_000)));
  served.gateway.clock.advance(59_000);
  const denial: unknown = await chat(clientOf(served)).catch((error: unknown) => error);
  expect(denial).toMatchObject({ status: 429 });
  const headers = denial instanceof RateLimitError ? denial.headers : undefined;
  expect(headers?.get("retry-after")).toBe("1");
  expect(headers?.get("x-ratelimit-limit")).toBe("1000");
  expect(headers?.get("x-ratelimit-remaining")).toBe("0");
});

describe("a stream", () => {
  test("is the same as without the gateway, except for the usage in its last chunk", async () => {
    const served = await startLlmGateway("openai", thousandTokens);
    const body = JSON.stringify({ model, messages, stream: true });
    const [direct, through] = await Promise.all(
      [served.mock.url, served.gateway.url()].map(async (url) => {
        const headers = { "x-mock-delay-ms": "0" };
        return (await fetch(`${url}/v1/chat/completions`, { method: "POST", body, headers })).text();
      }),
    );
    const withoutIds = (stream: string | undefined) => stream?.replaceAll(/"id":"[^"]*"|"created":\d+/g, "");
    const usage = ',"usage":{"prompt_tokens":10,"completion_tokens":116,"total_tokens":126}';
    expect(withoutIds(through)?.replace(usage, "")).toBe(withoutIds(direct));
    expect(through?.endsWith(`"finish_reason":"stop"}]${usage}}\n\n${done}`)).toBe(true);
    expect(served.mock.requests.map(({ body: sent }) => sent.includes("include_usage")).toSorted()).toEqual([
      false,
      true,
    ]);
    expect(await remaining(served)).toBe(874);
  });

  test("with a content-length arrives completely, though its length changes", async () => {
    const choice = '{"choices":[{"finish_reason":"stop"}]';
    const stream = `data: ${choice},"usage":null}\n\ndata: {"choices":[],"usage":{"total_tokens":3}}\n\n${done}`;
    const { port } = await startBackend((_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream", "content-length": stream.length });
      response.end(stream);
    });
    const gateway = await startGatewayTo("openai", port, thousandTokens);
    const reply = await fetch(`${gateway.url()}/v1/chat/completions`, { method: "POST", body: '{"stream":true}' });
    expect(await reply.text()).toBe(`data: ${choice},"usage":{"total_tokens":3}}\n\n${done}`);
    expect(gateway.records[0]?.usage?.total).toBe(3);
  });

  test("shows its usage to a client that requests it", async () => {
    const served = await startLlmGateway("openai", thousandTokens);
    const streamOptions = { include_usage: true };
    const stream = await clientOf(served).chat.completions.create({
      model,
      messages,
      stream: true,
      stream_options: streamOptions,
    });
    expect((await Array.fromAsync(stream)).at(-1)?.usage?.total_tokens).toBe(126);
    expect(await remaining(served)).toBe(874);
  });

  test("is charged if the client disables its usage", async () => {
    const served = await startLlmGateway("openai", thousandTokens);
    const streamOptions = { include_usage: false };
    const stream = await clientOf(served).chat.completions.create({
      model,
      messages,
      stream: true,
      stream_options: streamOptions,
    });
    const chunks = await Array.fromAsync(stream);
    expect(chunks.filter((chunk) => chunk.usage !== undefined)).toEqual([chunks.at(-1)]);
    expect(chunks.filter((chunk) => chunk.choices.length === 0)).toEqual([]);
    expect(await remaining(served)).toBe(874);
  });

  test("that the client closes is charged an estimate of its request and the received part", async () => {
    const served = await startLlmGateway("openai", thousandTokens);
    const client = clientOf(served, { "x-mock-words": "100000", "x-mock-delay-ms": "1" });
    const stream = await client.chat.completions.create({ model, messages, stream: true });
    const ended = served.gateway.nextRecord();
    let received = 0;
    for await (const chunk of stream) {
      received += chunk.choices[0]?.delta.content?.length ?? 0;
      if (received > 100) stream.controller.abort();
    }
    await expect.poll(() => served.gateway.clock.pendingTimers).toBe(1);
    served.gateway.clock.advance(59_999);
    expect(served.gateway.records).toHaveLength(0);
    served.gateway.clock.advance(1);
    const record = await ended;
    expect(record).toMatchObject({ reason: "ClientDisconnect", usage: { estimated: true } });
    expect(record.usage?.total).toBeGreaterThanOrEqual(Math.ceil(received / 4));
    expect(await remaining(served)).toBe(1_000 - (record.usage?.total ?? 0));
  });
});

test("an error of the provider reaches the client and costs the request, but no tokens", async () => {
  const served = await startLlmGateway("openai", ["{ requests: 5, unit: Minutes }", ...thousandTokens]);
  await expect(chat(clientOf(served, { "x-mock-status": "500" }))).rejects.toMatchObject({ status: 500 });
  const { response } = await clientOf(served).models.list().withResponse();
  expect(response.headers.get("x-ratelimit-remaining")).toBe("3");
});

test("10 requests a minute with burst 5 and 1000 tokens a minute apply together", async () => {
  const served = await startLlmGateway("openai", ["{ requests: 10, unit: Minutes, burst: 5 }", ...thousandTokens]);
  const cheap = clientOf(served, costing(1));
  for (let i = 0; i < 15; i++) await chat(cheap);
  await expect(chat(cheap)).rejects.toThrow(RateLimitError);
  served.gateway.clock.advance(60_000);
  await chat(clientOf(served, costing(1_200)));
  await expect(chat(cheap)).rejects.toThrow(RateLimitError);
  expect(served.mock.requests).toHaveLength(16);
  served.gateway.clock.advance(60_000);
  await expect(chat(cheap)).resolves.toContain("rate limit");
});
