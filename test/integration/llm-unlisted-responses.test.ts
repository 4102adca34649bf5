/**
 * Under a token limit, a response to a request with a body is charged the usage that it reports in any dialect, else an
 * estimate; named endpoints that generate nothing and copies of earlier responses are not charged. End to end.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import { startGatewayTo } from "../support/llm-gateway.ts";
import { zstdFrame } from "../support/zstd-frame.ts";
import { gatewayManifest, manifests, policyManifest, routeManifest, startGateway } from "../support/gateway.ts";

const tokenLimit = 1_000_000;

/** The response of the provider. */
interface ProviderResponse {
  readonly body: string | Buffer;
  readonly type?: string;
  readonly status?: number;
  readonly encoding?: string;
}

/** @param ai further fields of `spec.ai`, as flow YAML. */
async function start(sent: ProviderResponse, ai = "") {
  const { port, requests } = await startBackend((request: IncomingMessage, response: ServerResponse) => {
    if (request.url === "/nothing") {
      response.end("{}");
      return;
    }
    const { body, type = "application/json", status = 200, encoding } = sent;
    request.resume().on("end", () => {
      response.writeHead(status, {
        ...(type !== "" && { "content-type": type }),
        ...(encoding !== undefined && { "content-encoding": encoding }),
      });
      response.end(status === 204 ? undefined : body);
    });
  });
  const gateway = await startGatewayTo("openai", port, [`{ tokens: ${tokenLimit}, unit: Hours }`], ai);
  const charged = async (): Promise<number> => {
    const { headers } = await fetch(`${gateway.url()}/nothing`);
    return tokenLimit - Number(headers.get("x-ratelimit-remaining"));
  };
  return { gateway, charged, requests };
}

/** 400 bytes: 100 tokens by an estimate. */
const prompt = JSON.stringify({ text: "x".repeat(389) });
const words = "y".repeat(200);

const lines = (...objects: readonly object[]): string => objects.map((each) => `${JSON.stringify(each)}\n`).join("");
const events = (...objects: readonly object[]): string =>
  objects.map((each) => `data: ${JSON.stringify(each)}\n\n`).join("");

const sse = "text/event-stream";
const gemini = (output: number) => ({
  candidates: [{ content: { parts: [{ text: words }] } }],
  usageMetadata: { promptTokenCount: 8, candidatesTokenCount: output, totalTokenCount: 8 + output },
});
const sglang = (id: string, output: number) => ({
  text: words,
  meta_info: { id, prompt_tokens: 7, completion_tokens: output, cached_tokens: 1 },
});

/** One event with a line of data for each line of its JSON. */
const onSeveralLines = (event: object, end: string): string =>
  `event: x${end}${JSON.stringify(event, undefined, 1).replaceAll(/^/gm, "data:").replaceAll("\n", end)}${end}${end}`;

describe("the reported usage is charged", () => {
  test.each<[string, number, ProviderResponse]>([
    ["SGLang", 17, { body: JSON.stringify(sglang("a", 10)) }],
    ["SGLang, of several prompts", 51, { body: JSON.stringify(["a", "b", "c"].map((id) => sglang(id, 10))) }],
    ["SGLang, streamed", 27, { type: sse, body: `${events(sglang("a", 10), sglang("a", 20))}data: [DONE]\n\n` }],
    [
      "SGLang, several choices in one stream",
      44,
      { type: sse, body: events(sglang("a", 10), sglang("b", 5), sglang("a", 20), sglang("b", 10)) },
    ],
    ["Gemini", 18, { body: JSON.stringify(gemini(10)) }],
    ["Gemini, streamed as an array", 38, { body: JSON.stringify([gemini(10), gemini(20), gemini(30)], undefined, 2) }],
    ["Gemini, streamed as events", 28, { type: sse, body: events(gemini(10), gemini(20)) }],
    [
      "Ollama, streamed",
      12,
      {
        type: "application/x-ndjson",
        body: lines(
          { created_at: "x", message: { content: words } },
          { created_at: "y", done: true, prompt_eval_count: 7, eval_count: 5 },
        ),
      },
    ],
    [
      "lines without a content type",
      9,
      { body: lines({ x: words }, { usage: { prompt_tokens: 4, completion_tokens: 5 } }) },
    ],
    [
      "Cohere",
      30,
      {
        body: JSON.stringify({
          usage: { billed_units: { input_tokens: 1 }, tokens: { input_tokens: 10, output_tokens: 20 } },
        }),
      },
    ],
    [
      "Cohere, streamed",
      30,
      { type: sse, body: events({ delta: { usage: { tokens: { input_tokens: 10, output_tokens: 20 } } } }) },
    ],
    ["Bedrock", 12, { body: JSON.stringify({ usage: { inputTokens: 5, outputTokens: 7, totalTokens: 12 } }) }],
    [
      "a byte order mark before the first event",
      9,
      { type: sse, body: `\ufeff${events({ usage: { total_tokens: 9 } })}` },
    ],
    [
      "SGLang, several choices with one id in one stream",
      44,
      { type: sse, body: events(...[10, 5, 20, 10].map((output, at) => ({ ...sglang("a", output), index: at % 2 }))) },
    ],
    [
      "SGLang, one choice after the other with one id",
      44,
      { type: sse, body: events(...[10, 20, 5, 10].map((output) => sglang("a", output))) },
    ],
    ...["\n", "\r\n", "\r"].map((end): [string, number, ProviderResponse] => [
      `a usage on several data lines that end with ${JSON.stringify(end)}`,
      12,
      { type: sse, body: onSeveralLines({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 7 } }, end) },
    ]),
    ["an output without its input", 105, { body: JSON.stringify({ usage: { completion_tokens: 5 } }) }],
  ])("of %s", async (_dialect, tokens, sent) => {
    const { gateway, charged } = await start(sent);
    await (await fetch(`${gateway.url()}/generate`, { method: "POST", body: prompt })).text();
    expect(await charged()).toBe(tokens);
  });
});

describe("without a usage, the input and output are estimated", () => {
  const tgi = { generated_text: words };
  const tgiEvents = events(...Array.from(words, (text, index) => ({ index, token: { text }, generated_text: null })), {
    index: 200,
    token: { text: "" },
    generated_text: words,
  });
  const text = "word ".repeat(80);
  const half = text.slice(0, 200);
  test.each<[string, number, ProviderResponse]>([
    ["TGI", 104 + 50, { body: JSON.stringify(tgi) }],
    ["TGI, in an array", 104 + 50, { body: JSON.stringify([tgi]) }],
    ["TGI, streamed", 100 + 50, { type: sse, body: tgiEvents }],
    ["an unknown object", 100 + 52, { body: JSON.stringify({ whatever: [words] }) }],
    ["unknown lines", 100 + 50 + 52, { body: lines({ whatever: words }, { whatever: words }) }],
    ["unknown events", 100 + 50, { type: sse, body: events({ whatever: words }) }],
    [
      "ids of tokens, streamed",
      100 + 3,
      { type: sse, body: events({ choices: [{ index: 0, token_ids: [11, 12, 13] }] }) },
    ],
    ["a usage of time", 100 + 56, { body: JSON.stringify({ text: "", x: words, usage: { type: "duration" } }) }],
    ["a usage with invalid numbers", 100 + 7, { body: '{"usage":{"total_tokens":-1,"x":"yyyyyyyy"}}' }],
    ["plain text", 100 + 100, { type: "text/plain", body: text }],
    ["plain text that begins like an event", 100 + 50, { type: "text/plain", body: `d${"y".repeat(199)}` }],
    ...[":", "id:", "retry:", "event:", "data:"].flatMap((field): [string, number, ProviderResponse][] => {
      const body = `${field}${"y".repeat(200 - field.length - 1)}\n`.repeat(8);
      const labelled: [string, number, ProviderResponse] = [`events of ${field} alone`, 100 + 398, { type: sse, body }];
      if (field === "data:") labelled[1] -= 10;
      return [
        [`plain text whose lines begin with ${field}`, 100 + 400, { type: "text/plain", body }],
        [`lines that begin with ${field}, without a content type`, 100 + 400, { type: "", body }],
        labelled,
      ];
    }),
    [
      "plain text that looks like events without text",
      100 + 100,
      { type: "text/plain", body: `data: {"id":"${"y".repeat(383)}"}\n\n` },
    ],
    [
      "comments after an event of a model",
      100 + 50 + 51,
      { type: sse, body: events({ choices: [{ text: words }] }) + `: ${"y".repeat(200)}\n\n` },
    ],
    [
      "named events",
      100 + 50,
      { type: sse, body: `event: delta\n${events({ type: "delta", delta: { text: words } })}` },
    ],
    ["JSON after JSON", 100 + 50, { body: `[]${JSON.stringify({ whatever: words, x: 1.5 })}` }],
    ["gzip of plain text", 100 + 100, { type: "text/plain", encoding: "gzip", body: gzipSync(text) }],
    [
      "gzip of plain text in two members",
      100 + 100,
      { type: "text/plain", encoding: "gzip", body: Buffer.concat([gzipSync(half), gzipSync(half)]) },
    ],
    ["deflate of plain text", 100 + 100, { type: "text/plain", encoding: "deflate", body: deflateSync(text) }],
    ["bare deflate of plain text", 100 + 100, { type: "text/plain", encoding: "deflate", body: deflateRawSync(text) }],
    ["brotli of plain text", 100 + 100, { type: "text/plain", encoding: "br", body: brotliCompressSync(text) }],
    ["zstd of comments", 100 + 101, { type: sse, encoding: "zstd", body: zstdCompressSync(`: ${text}\n\n`) }],
    ["gzip", 100 + 52, { encoding: "gzip", body: gzipSync(JSON.stringify({ whatever: [words] })) }],
    ["zstd", 100 + 52, { encoding: "zstd", body: zstdCompressSync(JSON.stringify({ whatever: [words] })) }],
    ["zstd with a window of 8 MiB", 100 + 52, { encoding: "zstd", body: zstdFrame(23, `{"whatever":["${words}"]}`) }],
    ["zstd with a window of 128 MiB", 100 + 57, { encoding: "zstd", body: zstdFrame(27, `{"whatever":["${words}"]}`) }],
    ["an unknown coding", 100 + 50, { encoding: "x", body: words }],
    ["two codings", 100 + 50, { encoding: "gzip, gzip", body: words }],
    ["a declared coding that is not applied", 100 + 50, { encoding: "gzip", body: words }],
    ["binary frames", 100 + 50, { type: "application/vnd.amazon.eventstream", body: Buffer.alloc(200) }],
    ["speech", 100, { type: "audio/mpeg", body: Buffer.alloc(10_000) }],
    ["embeddings", 100, { body: JSON.stringify([Array.from({ length: 1_000 }, () => 0.5)]) }],
    ["a partial response", 100 + 52, { status: 206, body: JSON.stringify({ whatever: [words] }) }],
    ["an empty response", 100, { body: "" }],
  ])("of %s", async (_shape, tokens, sent) => {
    const { gateway, charged } = await start(sent);
    const response = await fetch(`${gateway.url()}/generate`, { method: "POST", body: prompt });
    // A body that cannot be decoded cannot be read here either.
    await response.text().catch(() => undefined);
    expect(await charged()).toBe(tokens);
    expect(gateway.records[0]?.usage?.estimated).toBe(true);
  });

  test.each<[string, string, number]>([
    ["vLLM", '{"token_ids":[1,2,3,4,5,6,7,8,9,10],"x":12}', 16],
    ["SGLang", JSON.stringify({ input_ids: Array.from({ length: 400 }, () => 7) }), 400 + 4],
    ["OpenAI", JSON.stringify({ prompt: [Array.from({ length: 400 }, () => 42)] }), 400 + 4],
    ["texts of digits", JSON.stringify({ prompt: "1".repeat(387) }), 100],
  ])("of ids of tokens: %s", async (_api, body, tokens) => {
    const { gateway, charged } = await start({ body: "{}" });
    const path = body.includes("prompt") ? "/v1/completions" : "/inference/v1/generate";
    await (await fetch(`${gateway.url()}${path}`, { method: "POST", body })).text();
    expect(await charged()).toBe(tokens);
  });

  test.each(["PUT", "PATCH", "DELETE", "QUERY"])("by %s", async (method) => {
    const { gateway, charged } = await start({ body: "{}" });
    await (await fetch(`${gateway.url()}/generate`, { method, body: prompt })).text();
    expect(await charged()).toBe(100);
  });
});

describe("nothing is charged", () => {
  test.each([
    "/v1/messages/count_tokens",
    "/v1/messages/count_tokens?beta=true",
    "/v1/responses/input_tokens",
    "/v1beta/models/gemini-x:countTokens",
    "/tokenize",
    "/v1/detokenize",
    "/v1/files",
    "/v1/uploads/upload_1/parts",
    "/v1/moderations",
    "/v1/responses/resp_1/cancel",
  ])("at %s, which generates nothing", async (path) => {
    const { gateway, charged } = await start({ body: JSON.stringify({ whatever: words }) });
    await (await fetch(`${gateway.url()}${path}`, { method: "POST", body: prompt })).text();
    expect(gateway.records[0]).toMatchObject({ usageUnread: "absent" });
    expect(await charged()).toBe(0);
  });

  test.each<[string, ProviderResponse]>([
    ["an error", { status: 400, body: JSON.stringify({ error: words }) }],
    ["no content", { status: 204, body: "" }],
    ["a redirect", { status: 303, body: words }],
  ])("for %s", async (_what, sent) => {
    const { gateway, charged } = await start(sent);
    await fetch(`${gateway.url()}/generate`, { method: "POST", body: prompt, redirect: "manual" });
    expect(await charged()).toBe(0);
  });

  test("for a request without a body", async () => {
    const { gateway, charged } = await start({ body: JSON.stringify({ data: [words] }) });
    await (await fetch(`${gateway.url()}/v1/models`)).text();
    expect(await charged()).toBe(0);
  });
});

test.each([
  "/v1/generate;/count_tokens",
  "/v1/generate;/v1/files",
  "/v1/messages%2Fcount_tokens",
  "/v1/generate%3F/files",
  "/v1/files/generate",
  "/v1/chat/completions/files",
  "/v1/messages/messages/count_tokens",
  "/v1/generate?x=/v1/files",
])("%s is not accepted as an endpoint that generates nothing", async (path) => {
  const { gateway, charged } = await start({ body: "{}" }, "otherEndpoints: Allow");
  await (await fetch(`${gateway.url()}${path}`, { method: "POST", body: prompt })).text();
  expect(await charged()).toBe(100);
});

describe("a copy of an earlier response", () => {
  const stored = (background: boolean) => ({
    id: "resp_1",
    background,
    output: [words],
    usage: { input_tokens: 10, output_tokens: 20, total_tokens: 30 },
  });
  test.each<[string, string, ProviderResponse, number]>([
    ["is not charged again", "/v1/responses/resp_1", { body: JSON.stringify(stored(false)) }, 0],
    ["of a chat is not charged again", "/v1/chat/completions/chat_1", { body: JSON.stringify(stored(false)) }, 0],
    [
      "is not charged again as a stream",
      "/v1/responses/resp_1?stream=true",
      { type: sse, body: events({ type: "response.completed", response: stored(false) }) },
      0,
    ],
    ["of work in the background is charged", "/v1/responses/resp_1", { body: JSON.stringify(stored(true)) }, 30],
    [
      "of work in the background is charged as a stream",
      "/v1/responses/resp_1?stream=true",
      { type: sse, body: events({ type: "response.completed", response: stored(true) }) },
      30,
    ],
    ["is charged at other paths", "/v1/threads/t/runs/r", { body: JSON.stringify(stored(false)) }, 30],
    ["is charged at other spellings", "/v1/responses/resp%2F1", { body: JSON.stringify(stored(false)) }, 30],
  ])("%s", async (_what, path, sent, tokens) => {
    const { gateway, charged } = await start(sent);
    await (await fetch(`${gateway.url()}${path}`)).text();
    expect(await charged()).toBe(tokens);
  });

  test.each<[string, string, ProviderResponse, number]>([
    [
      "of work that has not ended is not charged",
      "/v1/responses/resp_1",
      { body: JSON.stringify({ ...stored(true), usage: null }) },
      0,
    ],
    [
      "whose stream ends before its usage is estimated",
      "/v1/responses/resp_1?stream=true",
      { type: sse, body: events({ type: "response.output_text.delta", delta: words }) },
      50,
    ],
  ])("%s", async (_what, path, sent, tokens) => {
    const { gateway, charged } = await start(sent);
    await (await fetch(`${gateway.url()}${path}`)).text();
    expect(await charged()).toBe(tokens);
  });

  test("is charged if the request has a body", async () => {
    const { gateway, charged } = await start({ body: JSON.stringify(stored(false)) }, "otherEndpoints: Allow");
    await (await fetch(`${gateway.url()}/v1/responses/resp_1`, { method: "POST", body: "{}" })).text();
    expect(await charged()).toBe(30);
  });
});

/** What an attempt gets: a response with a usage, a status, a reset, or nothing until it times out. */
type AttemptEnd = "usage" | "reset" | "timeout" | 400 | 503 | 504 | 524;

describe("each attempt that a provider may bill is charged", () => {
  async function start(ends: readonly AttemptEnd[], attempts: number) {
    let received = 0;
    const { port, requests } = await startBackend((request, response) => {
      if (request.url === "/nothing") {
        response.end("{}");
        return;
      }
      request.resume().on("end", () => {
        const end = ends[received++];
        if (end === "usage") response.end(JSON.stringify({ usage: { total_tokens: 33 } }));
        else if (end === "reset") request.socket.destroy();
        else if (typeof end === "number") response.writeHead(end).end();
      });
    });
    const backend = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: {} }, host: 127.0.0.1, port: ${port}, otherEndpoints: Allow } }
`;
    const rule = `{ backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: llm }], timeouts: { request: 60s, backendRequest: 1s }, retry: { codes: [503, 504, 524], attempts: ${attempts}, backoff: 100ms } }`;
    const policy = policyManifest("limits", "kind: HTTPRoute, name: chat", [`{ tokens: ${tokenLimit}, unit: Hours }`]);
    const gateway = await startGateway(manifests(gatewayManifest(), backend, routeManifest("chat", [rule]), policy));
    const charged = async (): Promise<number> => used((await fetch(`${gateway.url()}/nothing`)).headers);
    return { gateway, requests, received: () => received, charged };
  }

  const used = (fields: Headers): number => tokenLimit - Number(fields.get("x-ratelimit-remaining"));

  async function retry(...ends: readonly AttemptEnd[]) {
    const { gateway, requests, received, charged } = await start(ends, 2);
    const reply = fetch(`${gateway.url()}/generate`, { method: "POST", body: prompt });
    for (const [at, end] of ends.entries()) {
      const arrives = () => {
        // The wait before the next attempt, which doubles.
        if (requests.length <= at) gateway.clock.advance(5);
        expect(received()).toBe(at + 1);
      };
      await waitFor(arrives, { interval: 1, timeout: 10_000 });
      if (end === "timeout") gateway.clock.advance(1_000);
    }
    const { status, headers } = await reply;
    return { status, sent: used(headers), charged: await charged() };
  }

  test.each<readonly [charged: number, status: number, ends: readonly AttemptEnd[]]>([
    [33, 200, ["usage"]],
    [100 + 33, 200, ["timeout", "usage"]],
    [100 + 100 + 33, 200, ["timeout", "timeout", "usage"]],
    [100 + 100 + 33, 200, ["reset", "timeout", "usage"]],
    [100 + 100, 400, ["timeout", "reset", 400]],
    [100, 400, ["timeout", 400]],
    [100 + 33, 200, [504, "usage"]],
    [100 + 100 + 33, 200, [524, "reset", "usage"]],
    [33, 200, [503, 503, "usage"]],
    [100, 504, [503, 503, 504]],
    [100 + 100 + 100, 524, [504, "timeout", 524]],
  ])("%i tokens with the status %i after %j", async (charged, status, ends) => {
    expect(await retry(...ends)).toMatchObject({ status, charged });
  });

  test("by its estimate if it gets no response, and the headers show it", async () => {
    expect(await retry("timeout", "timeout", "timeout")).toEqual({ status: 504, sent: 300, charged: 300 });
  });

  test("and so is a last one that is reset, after others that may be billed", async () => {
    expect(await retry("timeout", "reset", "reset")).toEqual({ status: 502, sent: 300, charged: 300 });
  });

  test("except a reset that no attempt follows, and none that may be billed precedes", async () => {
    expect(await retry(503, 503, "reset")).toEqual({ status: 502, sent: 0, charged: 0 });
  });

  test.each([504, 524] as const)("by its estimate if the provider responds with %i", async (status) => {
    const { gateway, charged } = await start([status], 0);
    expect((await fetch(`${gateway.url()}/generate`, { method: "POST", body: prompt })).status).toBe(status);
    expect(await charged()).toBe(100);
  });

  test.each(["timeout", "reset", 504] as const)(
    "if its client leaves before the next attempt, after %s",
    async (end) => {
      const { gateway, received, charged } = await start([end], 2);
      const client = new AbortController();
      const options = { method: "POST", body: prompt, signal: client.signal };
      const left = expect(fetch(`${gateway.url()}/generate`, options)).rejects.toThrow();
      await waitFor(() => expect(received()).toBe(1));
      if (end === "timeout") gateway.clock.advance(1_000);
      // The wait before the next attempt.
      await waitFor(() => expect(gateway.clock.pendingDelaysMs).toContain(100));
      client.abort();
      await left;
      await waitFor(() => expect(gateway.records).toHaveLength(1));
      expect(await charged()).toBe(100);
    },
  );
});
