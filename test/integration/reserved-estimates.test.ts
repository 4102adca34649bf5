/** Entries that reserve an estimate of each request, end to end. */
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { connect } from "node:net";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, onTestFinished, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import {
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";
import { ask, bodyOf, HeldProvider, overload, stream } from "../support/held-provider.ts";
import { loadEncoding, tokensOf } from "../../proxy/src/llm/tokens/serve-tokens.ts";
import { type FromTokenThread, TokenCounter, type ToTokenThread } from "../../proxy/src/llm/tokens/token-counter.ts";
import { startGatewayTo } from "../support/llm-gateway.ts";
import { startTokenCounter } from "../support/token-counter.ts";

async function serve(...entries: readonly string[]) {
  const provider = new HeldProvider();
  const { port } = await startBackend(provider.respond);
  const prices = "prices: { m: { input: '1', output: '1' } }";
  return { provider, gateway: await startGatewayTo("openai", port, entries, prices) };
}

async function remaining(gateway: TestGateway): Promise<string | null> {
  const response = await fetch(`${gateway.url()}/v1/models`, { method: "HEAD" });
  return response.headers.get("x-ratelimit-remaining");
}

/** Of `/other`. */
const withoutPrefix = "{ type: URLRewrite, urlRewrite: { path: { type: ReplacePrefixMatch, replacePrefixMatch: / } } }";

const budget = 50 * 200;

test("200 concurrent streams against a budget for 50 of them use at most the budget, in 20 of 20 runs", async () => {
  for (let run = 0; run < 20; run++) {
    const { provider, gateway } = await serve(`{ tokens: ${budget}, unit: Hours, reserve: Estimate }`);
    const { used, allowed } = await overload(provider, gateway);
    expect({ used, allowed }).toEqual({ used: 8_725, allowed: 50 });
    expect(used).toBeLessThanOrEqual(budget);
  }
}, 120_000);

test("without a reservation, all of them are allowed, and use three times the budget", async () => {
  const { provider, gateway } = await serve(`{ tokens: ${budget}, unit: Hours }`);
  const { used, allowed } = await overload(provider, gateway);
  expect({ used, allowed }).toEqual({ used: 34_906, allowed: 200 });
  expect(used).toBeGreaterThan(3 * budget);
}, 60_000);

test("a request holds its prompt and the output that it allows, and its usage replaces that", async () => {
  const { provider, gateway } = await serve("{ tokens: 1000, unit: Hours, reserve: Estimate }");
  const first = ask(gateway);
  const response = await provider.next();
  expect(await remaining(gateway)).toBe("800");
  stream(response, 90, 10);
  expect(await first).toMatchObject({ status: 200, remaining: "800" });
  expect(await remaining(gateway)).toBe("900");
});

test("spend is reserved by the prices", async () => {
  const { provider, gateway } = await serve("{ spend: '0.001', unit: Hours, reserve: Estimate }");
  const first = ask(gateway);
  const response = await provider.next();
  expect(await remaining(gateway)).toBe("800");
  stream(response, 90, 10);
  expect(await first).toMatchObject({ status: 200 });
  expect(await remaining(gateway)).toBe("900");
});

test("a request that does not fit is denied for as long as others hold what it needs", async () => {
  const { provider, gateway } = await serve("{ tokens: 300, unit: Hours, reserve: Estimate }");
  const first = ask(gateway);
  const response = await provider.next();
  expect(await ask(gateway)).toMatchObject({ status: 429, retryAfter: "1" });
  stream(response, 200, 50);
  expect(await first).toMatchObject({ status: 200 });
  // Now the window has to end.
  expect(await ask(gateway)).toMatchObject({ status: 429, retryAfter: "3600" });
});

test("a request that is larger than the budget is allowed where nothing is counted, and alone", async () => {
  const { provider, gateway } = await serve("{ tokens: 150, unit: Hours, reserve: Estimate }");
  const first = ask(gateway);
  const response = await provider.next();
  expect(await ask(gateway, { max_tokens: 1 })).toMatchObject({ status: 429 });
  stream(response, 100, 400);
  expect(await first).toMatchObject({ status: 200 });
  expect(await ask(gateway, { max_tokens: 1 })).toMatchObject({ status: 429 });
});

const chat = "/v1/chat/completions";
const gemini = "/v1beta/models/m:generateContent";

test.each([
  ["max_completion_tokens", chat, { max_completion_tokens: 300 }, 300],
  ["max_output_tokens", "/v1/responses", { max_output_tokens: 300 }, 300],
  ["Gemini's maxOutputTokens", gemini, { generationConfig: { maxOutputTokens: 300, candidateCount: 2 } }, 600],
  ["Bedrock's maxTokens", "/model/m/converse", { inferenceConfig: { maxTokens: 300 } }, 300],
  ["Ollama's num_predict", "/api/chat", { options: { num_predict: 300 } }, 300],
  ["several choices", chat, { max_tokens: 300, n: 3 }, 900],
  ["several choices by a text", chat, { max_tokens: 300, n: "3" }, 900],
  ["several choices of 1,024", chat, { n: 3 }, 3 * 1_024],
  ["several prompts", "/v1/completions", { max_tokens: 300, prompt: ["a", "b", "c"], n: 2 }, 1_800],
  ["one prompt of token ids", "/v1/completions", { max_tokens: 300, prompt: [1234, 1235, 1236] }, 300],
  ["the larger of two", chat, { max_tokens: 300, max_completion_tokens: 400 }, 400],
  ["1,024 for a model without responses", chat, {}, 1_024],
  ["1,024 for a number that is none", chat, { max_tokens: -1 }, 1_024],
  // Servers ignore what their API does not have.
  ["1,024 for a smaller number in another spelling", chat, { Max_Tokens: 1 }, 1_024],
  ["1,024 for a smaller number of another API", chat, { max_output_tokens: 1 }, 1_024],
  [
    "1,024 for a smaller number in a member of another API",
    "/v1/responses",
    { options: { max_output_tokens: 1 } },
    1_024,
  ],
  ["1,024 for a smaller number at an unknown path", "/v2/generate-text", { max_tokens: 1 }, 1_024],
  ["a larger number of another API", chat, { max_output_tokens: 2_000 }, 2_000],
])("the output of a request is %s", async (_, path, fields, output) => {
  const provider = new HeldProvider();
  const { port } = await startBackend(provider.respond);
  const entry = "{ tokens: 10000, unit: Hours, reserve: Estimate }";
  const gateway = await startGatewayTo("openaiCompatible", port, [entry], "otherEndpoints: Allow");
  const first = fetch(`${gateway.url()}${path}`, { method: "POST", body: bodyOf(fields) });
  const response = await provider.next();
  expect(await remaining(gateway)).toBe(String(10_000 - 100 - output));
  stream(response, 1, 1);
  await (await first).text();
});

test("the output of a request that does not say it is the mean of the model", async () => {
  const { provider, gateway } = await serve("{ tokens: 10000, unit: Hours, reserve: Estimate }");
  const first = ask(gateway, {});
  stream(await provider.next(), 100, 400);
  await first;
  const second = ask(gateway, {});
  const response = await provider.next();
  expect(await remaining(gateway)).toBe(String(10_000 - 500 - 500));
  stream(response, 1, 1);
  await second;
});

test("the output of a request that does not say it does not depend on what the backend of others reports", async () => {
  const hostile = await startBackend((_request, response) => {
    const usage = { prompt_tokens: 1, completion_tokens: 2_000_000_000, total_tokens: 2_000_000_001 };
    response.setHeader("content-type", "application/json").end(JSON.stringify({ usage }));
  });
  const provider = new HeldProvider();
  const { port } = await startBackend(provider.respond);
  const backend = (name: string, to: number): string => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: ${name}, namespace: default }
spec: { ai: { provider: { openai: {} }, host: 127.0.0.1, port: ${to} } }
`;
  const entry = "{ tokens: 10000, unit: Hours, reserve: Estimate }";
  const parts = ["llm", "other"].flatMap((name) => {
    const match = name === "llm" ? "" : `matches: [{ path: { value: /other } }], filters: [${withoutPrefix}], `;
    const rule = `{ ${match}backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: ${name} }] }`;
    return [routeManifest(name, [rule]), policyManifest(name, `kind: HTTPRoute, name: ${name}`, [entry])];
  });
  const backends = [backend("llm", port), backend("other", hostile.port)];
  const gateway = await startGateway(manifests(gatewayManifest(), ...backends, ...parts));
  const body = bodyOf({});
  await (await fetch(`${gateway.url()}/other/v1/chat/completions`, { method: "POST", body })).text();
  const first = ask(gateway, {});
  const response = await provider.next();
  expect(await remaining(gateway)).toBe(String(10_000 - 100 - 1_024));
  stream(response, 1, 1);
  await first;
});

const ends: Readonly<Record<string, (response: ServerResponse) => void>> = {
  "an error of the provider": (response) => response.writeHead(500).end("{}"),
  "a reset by the provider": (response) => void response.destroy(),
  "a denial by the provider": (response) => response.writeHead(429).end("{}"),
};

test.each(Object.keys(ends))("the hold is refunded after %s", async (name) => {
  const { provider, gateway } = await serve("{ tokens: 1000, unit: Hours, reserve: Estimate }");
  const first = ask(gateway);
  ends[name]?.(await provider.next());
  expect((await first).status).toBeGreaterThan(299);
  expect(await remaining(gateway)).toBe("1000");
});

test("a client that leaves is charged the usage of its response", async () => {
  const { provider, gateway } = await serve("{ tokens: 1000, unit: Hours, reserve: Estimate }");
  const { hostname, port } = new URL(gateway.url());
  const body = bodyOf({ max_tokens: 100 });
  const socket = connect(Number(port), hostname);
  onTestFinished(() => void socket.destroy());
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
  const response = await provider.next();
  socket.destroy();
  await once(socket, "close");
  stream(response, 60, 40);
  await expect.poll(() => gateway.records.length).toBe(1);
  expect(await remaining(gateway)).toBe("900");
});

test("a hold of an ended window takes nothing from the next one", async () => {
  const { provider, gateway } = await serve("{ tokens: 1000, unit: Minutes, reserve: Estimate }");
  const first = ask(gateway);
  const response = await provider.next();
  gateway.clock.advance(60_000);
  expect(await remaining(gateway)).toBe("1000");
  stream(response, 50, 50);
  await first;
  expect(await remaining(gateway)).toBe("1000");
});

test("a request that another limit denies holds nothing", async () => {
  const { provider, gateway } = await serve(
    "{ tokens: 1000, unit: Hours, reserve: Estimate }",
    "{ requests: 1, unit: Hours, when: 'request.method == \"POST\"' }",
  );
  const first = ask(gateway);
  stream(await provider.next(), 60, 40);
  await first;
  expect(await ask(gateway)).toMatchObject({ status: 429 });
  expect(await remaining(gateway)).toBe("900");
});

test("a request that times out is charged its prompt, and holds nothing more", async () => {
  const provider = new HeldProvider();
  const { port } = await startBackend(provider.respond);
  const entry = "{ tokens: 1000, unit: Hours, reserve: Estimate }";
  const gateway = await startGatewayTo("openai", port, [entry], "", "timeouts: { request: 10s },");
  const first = ask(gateway);
  await provider.next();
  expect(await remaining(gateway)).toBe("800");
  gateway.clock.advance(10_000);
  expect((await first).status).toBe(504);
  await expect.poll(() => remaining(gateway)).toBe("900");
});

describe("the prompt", () => {
  const text = "日本語の文章には空白がありません。x7Kq9ZpLm3Rt8WvB2nYc ".repeat(20);
  const content = [{ role: "user", content: text }];

  async function serveCounted(entry: string, ai = "") {
    const provider = new HeldProvider();
    const { port } = await startBackend(provider.respond);
    const tokens = await startTokenCounter();
    return { provider, gateway: await startGatewayTo("openai", port, [entry], ai, "", { tokens }) };
  }

  /** Returns what a request holds. */
  async function holdOf({ provider, gateway }: Awaited<ReturnType<typeof serveCounted>>, body: string) {
    const asked = fetch(`${gateway.url()}/v1/chat/completions`, { method: "POST", body });
    const response = await provider.next();
    const held = 100_000 - Number(await remaining(gateway));
    response.destroy();
    await (await asked).text();
    return held;
  }

  const entry = "{ tokens: 100000, unit: Hours, reserve: Estimate }";
  const encodingLoaded: FromTokenThread = { kind: "loaded", encoding: "o200k_base" };

  test("is counted by the tokens of a known model, and by its bytes for others", async () => {
    const served = await serveCounted(entry);
    const bodyFor = (model: string): string => JSON.stringify({ model, max_tokens: 100, messages: content });
    const prompt = tokensOf(Buffer.from(bodyFor("gpt-4o")), await loadEncoding("o200k_base"));
    expect(await holdOf(served, bodyFor("gpt-4o-mini"))).toBe((prompt ?? 0) + 100);
    const bytes = Buffer.byteLength(bodyFor("mistral-large"));
    expect(await holdOf(served, bodyFor("mistral-large"))).toBe(Math.ceil(bytes / 4) + 100);
    // Bytes would be too few for this text.
    expect(prompt).toBeGreaterThan(bytes / 4);
  });

  test("is counted by the name of the model for the provider", async () => {
    const served = await serveCounted(entry, "models: [{ name: any, as: gpt-5 }]");
    const body = JSON.stringify({ model: "any", max_tokens: 100, messages: content });
    const prompt = tokensOf(Buffer.from(body), await loadEncoding("o200k_base"));
    expect(await holdOf(served, body)).toBe((prompt ?? 0) + 100);
  });

  test("of a long body is counted by its bytes", async () => {
    const served = await serveCounted(entry);
    const messages = [{ role: "user", content: "word ".repeat(60_000) }];
    const body = JSON.stringify({ model: "gpt-4o", max_tokens: 100, messages });
    expect(await holdOf(served, body)).toBe(Math.ceil(body.length / 4) + 100);
  });

  test("of clients that send more than the thread counts waits for it up to a bound", async () => {
    const held: ToTokenThread[] = [];
    const clock = new FakeClock();
    let loaded: (() => void) | undefined;
    const tokens = new TokenCounter(clock, () => ({
      postMessage: (message) => void held.push(message),
      on: (event: "message" | "close", listener: never) => {
        if (event === "message") loaded = () => (listener as (message: FromTokenThread) => void)(encodingLoaded);
      },
      close: () => undefined,
    }));
    // Starts the thread.
    tokens.count("o200k_base", Buffer.from("{}"), () => undefined);
    loaded?.();
    const denying = "{ tokens: 10, unit: Hours, reserve: Estimate }";
    const { port } = await startBackend();
    const gateway = await startGatewayTo("openai", port, [denying], "", "", { tokens });
    const bytesHeld = () => held.reduce((sum, each) => sum + (each.kind === "count" ? each.body.length : 0), 0);
    const send = async (length: number): Promise<void> => {
      const body = JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "x".repeat(length) }] });
      const before = held.length;
      const asked = fetch(`${gateway.url()}/v1/chat/completions`, { method: "POST", body });
      let isOver = false;
      void asked.finally(() => (isOver = true));
      await waitFor(() => expect(isOver || held.length > before).toBe(true), { interval: 1 });
      // The longest time that a request waits for the thread.
      clock.advance(100);
      await (await asked).text();
    };
    for (let request = 0; request < 40; request++) await send(250_000);
    expect(bytesHeld()).toBeLessThanOrEqual(1_048_576);
    for (let request = 0; request < 100; request++) await send(10);
    expect(held.length).toBeLessThanOrEqual(1 + 64);
    expect(gateway.records).toHaveLength(140);
  });
});
