import { promisify } from "node:util";
import { brotliDecompress, gunzip, inflate, zstdDecompress } from "node:zlib";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { pieces } from "./conversation.ts";
import { type MockLlm, startMockLlm } from "./mock-llm.ts";

let mock: MockLlm;
beforeAll(async () => {
  mock = await startMockLlm({ port: 0, host: "127.0.0.1" });
});
afterAll(() => mock.close());

const question = [{ role: "user" as const, content: "What is a rate limit?" }];
const fast = { "x-mock-delay-ms": "0" };

function post(path: string, body: object, headers: Readonly<Record<string, string>> = {}) {
  return fetch(mock.url + path, { method: "POST", headers: { ...fast, ...headers }, body: JSON.stringify(body) });
}

async function chat(headers: Readonly<Record<string, string>>, more: object = {}) {
  const response = await post("/v1/chat/completions", { messages: question, ...more }, headers);
  return (await response.json()) as { usage?: Record<string, unknown>; choices: { message: { content: string } }[] };
}

describe("a behavior", () => {
  const set = (members: object) => fetch(`${mock.url}/mock/behavior`, { method: "PUT", body: JSON.stringify(members) });

  test("holds for all requests without the header, until it is set again", async () => {
    expect((await set({ status: 429, "retry-after": 20, remaining: 0 })).status).toBe(200);
    const denied = await post("/v1/chat/completions", { messages: question });
    expect([denied.status, denied.headers.get("retry-after")]).toEqual([429, "20"]);
    expect(denied.headers.get("x-ratelimit-remaining-requests")).toBe("0");
    expect(denied.headers.get("x-ratelimit-reset-requests")).toBe("20s");
    expect((await post("/v1/chat/completions", { messages: question }, { "x-mock-status": "503" })).status).toBe(503);
    await set({});
    expect((await post("/v1/chat/completions", { messages: question })).status).toBe(200);
  });

  test("cuts a stream before its first event", async () => {
    await set({ "abort-after": 0 });
    const response = await post("/v1/chat/completions", { messages: question, stream: true }).catch(() => undefined);
    await expect(response?.text() ?? Promise.reject(new Error("reset"))).rejects.toThrow();
    await set({});
  });

  test.each([
    [{ novelty: 1 }, "novelty is no behavior, accepted are prompt-tokens, "],
    [{ status: 200 }, 'x-mock-status is \\"200\\", accepted is a whole number from 400 to 599'],
  ])("of %j is rejected, and changes nothing", async (members, message) => {
    const response = await set(members);
    expect([response.status, await response.text()]).toEqual([400, expect.stringContaining(message)]);
    expect((await post("/v1/chat/completions", { messages: question })).status).toBe(200);
  });
});

describe("the mock LLM, to OpenAI's own client", () => {
  const client = () => new OpenAI({ baseURL: `${mock.url}/v1`, apiKey: "none", maxRetries: 0, defaultHeaders: fast });

  test("completes a chat with a reply to the question, and counts its tokens", async () => {
    const completion = await client().chat.completions.create({ model: "mock-1", messages: question });
    const content = completion.choices[0]?.message.content ?? "";
    expect(content).toMatch(/rate limit/);
    expect(completion.usage?.completion_tokens).toBe(pieces(content).length);
    expect(completion.usage?.prompt_tokens).toBe(pieces(question[0]?.content ?? "").length + 4);
  });

  test("streams the same chat, and reports its usage only on request", async () => {
    const whole = await client().chat.completions.create({ model: "mock-1", messages: question });
    for (const isAsked of [true, false]) {
      const stream = await client().chat.completions.create({
        model: "mock-1",
        messages: question,
        stream: true,
        stream_options: { include_usage: isAsked },
      });
      const chunks = await Array.fromAsync(stream);
      expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("")).toBe(
        whole.choices[0]?.message.content,
      );
      expect(chunks.at(-1)?.usage ?? undefined).toEqual(isAsked ? whole.usage : undefined);
    }
  });

  test("gives a response, whole and streamed", async () => {
    const request = { model: "mock-1", input: "What is a token?", instructions: "Be kind" };
    const whole = await client().responses.create(request);
    expect(whole.output_text).toMatch(/token/);
    const streamed = await client().responses.stream(request).finalResponse();
    expect(streamed.output_text).toBe(whole.output_text);
    expect(streamed.usage).toEqual(whole.usage);
  });

  test("embeds each input, with equal vectors for equal inputs, and lists its models", async () => {
    const { data, usage } = await client().embeddings.create({
      model: "m",
      input: ["one", "two words", "one"],
      dimensions: 8,
    });
    expect(data.map(({ embedding }) => embedding.length)).toEqual([8, 8, 8]);
    expect(data[2]?.embedding).toEqual(data[0]?.embedding);
    expect(data[1]?.embedding).not.toEqual(data[0]?.embedding);
    expect(usage.total_tokens).toBe(4);
    const floats = await client().embeddings.create({
      model: "m",
      input: "one",
      dimensions: 8,
      encoding_format: "float",
    });
    expect(floats.data[0]?.embedding).toEqual(data[0]?.embedding);
    expect((await client().models.list()).data.map(({ id }) => id)).toContain("mock-1");
  });

  test("cuts the text at the client's limit", async () => {
    const completion = await client().chat.completions.create({
      model: "m",
      messages: question,
      max_completion_tokens: 3,
    });
    expect(completion.choices[0]?.finish_reason).toBe("length");
    expect(completion.usage?.completion_tokens).toBe(3);
  });
});

describe("the mock LLM, to Anthropic's own client", () => {
  test("gives a message, whole and streamed", async () => {
    const client = new Anthropic({ baseURL: mock.url, apiKey: "none", maxRetries: 0, defaultHeaders: fast });
    const request = { model: "mock-1", max_tokens: 500, system: "Be kind", messages: question };
    const whole = await client.messages.create(request);
    expect(whole.content).toMatchObject([{ type: "text", text: expect.stringMatching(/rate limit/) as string }]);
    const streamed = await client.messages.stream(request).finalMessage();
    expect(streamed.content).toMatchObject(whole.content.map(({ type }) => ({ type })));
    expect(streamed.usage).toMatchObject({
      input_tokens: whole.usage.input_tokens,
      output_tokens: whole.usage.output_tokens,
    });
  });
});

describe("an x-mock-* header", () => {
  test.each([
    [{ "x-mock-total-tokens": "1200" }, { total_tokens: 1200 }],
    [
      { "x-mock-prompt-tokens": "7", "x-mock-completion-tokens": "5" },
      { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 },
    ],
    [{ "x-mock-total-tokens": "2" }, { prompt_tokens: 2, completion_tokens: 0, total_tokens: 2 }],
    [{ "x-mock-usage": "negative" }, { total_tokens: -5 }],
    [{ "x-mock-usage": "string" }, { total_tokens: "12" }],
    [{ "x-mock-usage": "huge" }, { total_tokens: 1e308 }],
  ])("sets the usage: %j", async (headers, usage) => {
    expect((await chat(headers)).usage).toMatchObject(usage);
  });

  test("leaves the usage out, or makes it null", async () => {
    expect(await chat({ "x-mock-usage": "none" })).not.toHaveProperty("usage");
    expect((await chat({ "x-mock-usage": "null" })).usage).toBeNull();
  });

  test("sets the length of the text", async () => {
    const { choices, usage } = await chat({ "x-mock-words": "2000" });
    expect(choices[0]?.message.content.split(" ")).toHaveLength(2_000);
    expect(usage).toMatchObject({ completion_tokens: 2_000 });
  });

  test.each([
    ["gzip", promisify(gunzip)],
    ["deflate", promisify(inflate)],
    ["br", promisify(brotliDecompress)],
    ["zstd", promisify(zstdDecompress)],
  ] as const)(
    "compresses with %s, whole and streamed, unless the client does not accept it",
    async (encoding, decode) => {
      const { request } = await import("node:http");
      for (const stream of [false, true]) {
        const bytes = await new Promise<Buffer>((resolve, reject) => {
          const headers = { ...fast, "x-mock-encoding": encoding, "accept-encoding": `x, ${encoding};q=0.5` };
          const sent = request(`${mock.url}/v1/chat/completions`, { method: "POST", headers }, (response) => {
            expect(response.headers["content-encoding"]).toBe(encoding);
            void Array.fromAsync(response as AsyncIterable<Buffer>).then(
              (chunks) => resolve(Buffer.concat(chunks)),
              reject,
            );
          });
          sent.end(JSON.stringify({ messages: question, stream }));
        });
        expect((await decode(bytes)).toString()).toContain("limit");
      }
      const plain = await post(
        "/v1/chat/completions",
        {},
        { "x-mock-encoding": encoding, "accept-encoding": "identity" },
      );
      expect(plain.headers.get("content-encoding")).toBeNull();
    },
  );

  test("breaks the connection", async () => {
    const whole = await post("/v1/chat/completions", { messages: question }, { "x-mock-abort-after": "1" });
    expect(whole.status).toBe(200);
    await expect(whole.text()).rejects.toThrow();
    const streamed = await post("/v1/messages", { messages: question, stream: true }, { "x-mock-abort-after": "4" });
    const chunks: string[] = [];
    const decoder = new TextDecoder();
    await expect(
      (async () => {
        for await (const chunk of streamed.body ?? []) chunks.push(decoder.decode(chunk as Uint8Array));
      })(),
    ).rejects.toThrow();
    expect(chunks.join("").match(/^event: /gm)).toHaveLength(4);
  });

  test("selects an error, in the form of the dialect", async () => {
    const openai = await post("/v1/chat/completions", {}, { "x-mock-status": "500" });
    expect([openai.status, await openai.json()]).toMatchObject([500, { error: { type: "server_error" } }]);
    const anthropic = await post("/v1/messages", {}, { "x-mock-status": "529" });
    expect([anthropic.status, await anthropic.json()]).toMatchObject([529, { type: "error", error: {} }]);
  });

  test.each([
    ["x-mock-status", "200", "a whole number from 400 to 599"],
    ["x-mock-delay-ms", "", "a whole number from 0 to 60000"],
    ["x-mock-words", "1.5", "a whole number from 0 to 100000"],
    ["x-mock-encoding", "snappy", "one of gzip, deflate, br, zstd"],
  ])("with an invalid value gets 400 with the accepted values: %s %j", async (name, value, accepted) => {
    const response = await post("/v1/chat/completions", {}, { [name]: value });
    expect(response.status).toBe(400);
    expect(await response.text()).toContain(`accepted is ${accepted}`);
  });
});

test("an unknown path, method or body is an error", async () => {
  const elsewhere = await post("/v1/nothing", {});
  expect([elsewhere.status, await elsewhere.text()]).toEqual([
    404,
    expect.stringContaining("POST /v1/chat/completions"),
  ]);
  expect((await fetch(`${mock.url}/v1/messages`)).status).toBe(405);
  expect((await fetch(`${mock.url}/v1/messages`, { method: "POST", body: "{" })).status).toBe(400);
});

test("the received requests can be read", async () => {
  await post("/any/prefix/chat/completions?x=1", { messages: question }, { "x-test": "seen" });
  expect(mock.requests.at(-1)).toMatchObject({
    method: "POST",
    path: "/any/prefix/chat/completions?x=1",
    headers: { "x-test": "seen" },
    body: JSON.stringify({ messages: question }),
  });
});

describe("a realtime session", () => {
  async function converse(headers: Readonly<Record<string, string>> = {}) {
    const client = new WebSocket(`${mock.url.replace("http", "ws")}/v1/realtime?model=gpt-realtime`, {
      headers: { ...fast, ...headers },
    });
    const events: { type: string; delta?: string; response?: { usage?: Record<string, unknown> } }[] = [];
    client.on("message", (data: Buffer) => {
      events.push(JSON.parse(data.toString()) as (typeof events)[number]);
      if (events.at(-1)?.type === "response.done") client.close();
    });
    client.on("error", () => undefined);
    client.on("open", () => {
      const content = [{ type: "input_text", text: "What is a rate limit?" }];
      client.send(JSON.stringify({ type: "conversation.item.create", item: { role: "user", content } }));
      client.send(JSON.stringify({ type: "response.create" }));
    });
    const code = await new Promise<number>((resolve) => void client.on("close", resolve));
    return { events, code };
  }

  test("responds to the conversation by events, and reports its usage", async () => {
    const { events, code } = await converse();
    expect([...new Set(events.map(({ type }) => type))]).toEqual([
      ...["session.created", "conversation.item.added", "response.created", "response.output_text.delta"],
      "response.done",
    ]);
    const deltas = events.flatMap(({ delta }) => delta ?? []);
    expect(deltas.join("")).toMatch(/rate limit/);
    expect(events.at(-1)?.response?.usage).toMatchObject({ output_tokens: deltas.length });
    expect(code).toBe(1005);
  });

  test("has the usage and the failures of its headers", async () => {
    const { events } = await converse({ "x-mock-total-tokens": "7", "x-mock-words": "1" });
    expect(events.at(-1)?.response?.usage).toMatchObject({ total_tokens: 7 });
    expect((await converse({ "x-mock-abort-after": "3" })).events).toHaveLength(3);
    expect(await converse({ "x-mock-status": "429" })).toEqual({ events: [], code: 1006 });
    expect(await converse({ "x-mock-words": "no" })).toEqual({ events: [], code: 1006 });
  });
});
