/**
 * `denied: { format: Provider }` with the providers' own clients: a denial is the error of their own type, and they
 * send the request again when `retry-after` says.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import Anthropic, { RateLimitError as AnthropicRateLimitError } from "@anthropic-ai/sdk";
import { BedrockRuntimeClient, ConverseCommand, ThrottlingException } from "@aws-sdk/client-bedrock-runtime";
import { ApiError, GoogleGenAI } from "@google/genai";
import OpenAI, { AzureOpenAI, RateLimitError } from "openai";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { type MockLlm, startMockLlm } from "../../examples/mock-llm/src/mock-llm.ts";
import {
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";

const model = "mock-1";
const messages = [{ role: "user" as const, content: "What is a rate limit?" }];
const defaultHeaders = { "x-mock-delay-ms": "0" };

interface Served {
  readonly gateway: TestGateway;
  readonly mock: MockLlm;
  readonly url: string;
}

/** A Backend of each provider, as flow YAML. */
async function serve(providers: readonly string[], local: string, fields: readonly string[] = []): Promise<Served> {
  const mock = await startMockLlm({ port: 0, host: "127.0.0.1" });
  onTestFinished(() => mock.close());
  const backends = providers.map(
    (provider, at) => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm-${at}, namespace: default }
spec: { ai: { provider: ${provider}, host: 127.0.0.1, port: ${mock.port} } }
`,
  );
  const refs = providers.map((_provider, at) => `{ group: gatewayproxy.dev, kind: Backend, name: llm-${at} }`);
  const route = routeManifest("chat", [`backendRefs: [${refs.join(", ")}]`]);
  const policy = policyManifest(
    "limits",
    "kind: HTTPRoute, name: chat",
    [local],
    ["denied: { format: Provider }", ...fields],
  );
  const gateway = await startGateway(manifests(gatewayManifest(), ...backends, route, policy));
  return { gateway, mock, url: gateway.url() };
}

/**
 * Has a client that would wait for this time go on at once, while the clock of the gateway advances by it. Clients
 * compute the time with the clock of the machine, so it may be some milliseconds shorter.
 */
function waitingFor(ms: number, { gateway }: Served): { readonly waits: () => number } {
  let waits = 0;
  const setTimer = globalThis.setTimeout;
  const replaced = vi.spyOn(globalThis, "setTimeout").mockImplementation(((callback: () => void, delayMs?: number) => {
    if (delayMs === undefined || delayMs > ms || delayMs < ms - 500) return setTimer(callback, delayMs);
    waits++;
    gateway.clock.advance(ms);
    return setTimer(callback, 0);
  }) as typeof setTimeout);
  onTestFinished(() => replaced.mockRestore());
  return { waits: () => waits };
}

const once = "{ name: minute, requests: 1, unit: Minutes }";
const rejection = (promise: Promise<unknown>): Promise<unknown> => promise.catch((error: unknown) => error);

describe("openai", () => {
  const chat = (url: string, maxRetries = 0) =>
    new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries, defaultHeaders }).chat.completions.create({
      model,
      messages,
    });

  test.each(["{ openai: {} }", "{ openaiCompatible: {} }", "{ gemini: {} }"])(
    "throws RateLimitError with code and type, for provider %s",
    async (provider) => {
      const served = await serve([provider], once, ["headers: [OpenAI]"]);
      await chat(served.url);
      served.gateway.clock.advance(18_000);
      const error = await rejection(chat(served.url));
      expect(error).toBeInstanceOf(RateLimitError);
      expect(error).toMatchObject({
        ...{ status: 429, code: "rate_limit_exceeded", type: "requests", param: null },
        message: "429 Rate limit exceeded. Please try again in 42s.",
        requestID: served.gateway.records[1]?.requestId,
      });
      const { headers } = error as RateLimitError;
      expect(Object.fromEntries(headers)).toMatchObject({
        ...{ "x-ratelimit-limit-requests": "1", "x-ratelimit-remaining-requests": "0" },
        ...{ "x-ratelimit-reset-requests": "42s", "retry-after": "42", "x-should-retry": "true" },
      });
      expect(headers.has("x-ratelimit-limit")).toBe(false);
    },
  );

  test("has the type tokens for a limit of tokens", async () => {
    const served = await serve(["{ openai: {} }"], "{ tokens: 10, unit: Minutes }");
    await chat(served.url);
    expect(await rejection(chat(served.url))).toMatchObject({ code: "rate_limit_exceeded", type: "tokens" });
  });

  test("its own retry waits for the time that we send, and succeeds", async () => {
    const served = await serve(["{ openai: {} }"], once);
    await chat(served.url);
    served.gateway.clock.advance(18_000);
    const { waits } = waitingFor(42_000, served);
    expect((await chat(served.url, 1)).choices[0]?.message.content).toContain("rate limit");
    expect(waits()).toBe(1);
    expect(served.gateway.records.map(({ status }) => status)).toEqual([200, 429, 200]);
  });

  test("fails at once if the wait is longer than it would wait", async () => {
    const served = await serve(["{ openai: {} }"], "{ requests: 1, unit: Days }");
    await chat(served.url);
    expect(await rejection(chat(served.url, 5))).toMatchObject({
      message: "429 Rate limit exceeded. Please try again in 24h0m0s.",
    });
    expect(served.gateway.records.map(({ status }) => status)).toEqual([200, 429]);
  });

  test("streams, responses and embeddings fail alike", async () => {
    const { url } = await serve(["{ openai: {} }"], "{ requests: 1, unit: Minutes, limit: '0' }");
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0, defaultHeaders });
    for (const call of [
      () => client.chat.completions.create({ model, messages, stream: true }),
      () => client.responses.create({ model, input: "a" }),
      () => client.embeddings.create({ model, input: "a" }),
      () => client.models.list(),
    ]) {
      const error = await rejection(Promise.resolve(call()));
      expect(error).toBeInstanceOf(RateLimitError);
      expect(error).toMatchObject({ code: "rate_limit_exceeded" });
    }
  });

  test("its client for Azure", async () => {
    const { url } = await serve(["{ azure: {} }"], "{ requests: 1, unit: Minutes, limit: '0' }");
    const client = new AzureOpenAI({
      ...{ endpoint: url, apiKey: "none", apiVersion: "2024-10-21", deployment: "a", maxRetries: 0 },
    });
    const error = await rejection(client.chat.completions.create({ model, messages }));
    expect(error).toBeInstanceOf(RateLimitError);
    expect(error).toMatchObject({ code: "rate_limit_exceeded", type: "requests" });
  });
});

describe("anthropic", () => {
  const ask = (url: string, maxRetries = 0) =>
    new Anthropic({ baseURL: url, apiKey: "none", maxRetries, defaultHeaders }).messages.create({
      ...{ model, max_tokens: 10, messages },
    });

  test.each(["{ anthropic: {} }", "{ openaiCompatible: {} }"])(
    "throws RateLimitError with the type and the request id, for provider %s",
    async (provider) => {
      const served = await serve([provider], once);
      await ask(served.url);
      const error = await rejection(ask(served.url));
      const requestId = served.gateway.records[1]?.requestId;
      expect(error).toBeInstanceOf(AnthropicRateLimitError);
      expect(error).toMatchObject({
        ...{ status: 429, type: "rate_limit_error", requestID: requestId },
        error: {
          type: "error",
          error: { type: "rate_limit_error", message: "Rate limit exceeded. Please try again in 1m0s." },
          request_id: requestId,
        },
      });
    },
  );

  test("its own retry waits for the time that we send, and succeeds", async () => {
    const served = await serve(["{ anthropic: {} }"], once);
    await ask(served.url);
    served.gateway.clock.advance(29_500);
    const { waits } = waitingFor(31_000, served);
    expect((await ask(served.url, 1)).content[0]).toMatchObject({ type: "text" });
    expect(waits()).toBe(1);
    expect(served.gateway.records.map(({ status }) => status)).toEqual([200, 429, 200]);
  });

  test("does not wait for a day", async () => {
    const served = await serve(["{ anthropic: {} }"], "{ requests: 1, unit: Days }");
    await ask(served.url);
    expect(await rejection(ask(served.url, 5))).toBeInstanceOf(AnthropicRateLimitError);
    expect(served.gateway.records).toHaveLength(2);
  });
});

test("@google/genai throws ApiError with status RESOURCE_EXHAUSTED", async () => {
  const served = await serve(["{ gemini: {} }"], once);
  const client = new GoogleGenAI({ apiKey: "none", httpOptions: { baseUrl: served.url, headers: defaultHeaders } });
  const generate = () => client.models.generateContent({ model, contents: "What is a rate limit?" });
  await generate();
  for (const call of [generate, () => client.models.generateContentStream({ model, contents: "a" })]) {
    const error = await rejection(call());
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: 429 });
    expect(JSON.parse((error as ApiError).message)).toEqual({
      error: {
        code: 429,
        message: "Rate limit exceeded. Please try again in 1m0s.",
        status: "RESOURCE_EXHAUSTED",
        details: [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "60s" }],
      },
    });
  }
});

describe("@aws-sdk/client-bedrock-runtime", () => {
  const client = (url: string, maxAttempts: number) =>
    new BedrockRuntimeClient({
      ...{ endpoint: url, region: "eu-west-1", maxAttempts },
      credentials: { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "none" },
    });
  const ask = (url: string, maxAttempts = 1) => {
    const content = [{ text: "What is a rate limit?" }];
    return client(url, maxAttempts).send(
      new ConverseCommand({ modelId: "mock:0", messages: [{ role: "user", content }] }),
    );
  };

  test("throws ThrottlingException with the request id", async () => {
    const served = await serve(["{ bedrock: { region: eu-west-1 } }"], "{ requests: 1, unit: Minutes, limit: '0' }");
    const error = await rejection(ask(served.url));
    expect(error).toBeInstanceOf(ThrottlingException);
    expect(error).toMatchObject({
      ...{ name: "ThrottlingException", message: "Rate limit exceeded. Please try again in 1m0s." },
      $metadata: { httpStatusCode: 429, requestId: served.gateway.records[0]?.requestId },
    });
  });

  test("its own retry takes it for throttling, and succeeds", async () => {
    const served = await serve(["{ bedrock: { region: eu-west-1 } }"], "{ requests: 1, unit: Seconds, every: 30 }");
    await ask(served.url);
    served.gateway.clock.advance(26_000);
    const { waits } = waitingFor(4_000, served);
    expect((await ask(served.url, 2)).output?.message?.role).toBe("assistant");
    expect(waits()).toBe(1);
  });
});

test("two providers on one route: the path decides", async () => {
  const { url } = await serve(["{ anthropic: {} }", "{ openai: {} }"], "{ requests: 1, unit: Minutes, limit: '0' }");
  const errorAt = async (path: string, headers: Readonly<Record<string, string>> = {}): Promise<unknown> =>
    (await fetch(`${url}${path}`, { method: "POST", headers })).json();
  expect(await errorAt("/v1/chat/completions")).toMatchObject({ error: { code: "rate_limit_exceeded" } });
  expect(await errorAt("/v1/messages")).toMatchObject({ error: { type: "rate_limit_error" } });
  expect(await errorAt("/v1/models")).toMatchObject({ error: { type: "rate_limit_error" } });
  expect(await errorAt("/v1beta/models/a:generateContent?key=k")).toMatchObject({
    error: { status: "RESOURCE_EXHAUSTED" },
  });
});

test("the Backend that is picked first decides, where the limit reads the model", async () => {
  const local = `{ requests: 1, unit: Minutes, limit: '0', when: 'llm.requestModel != "free"' }`;
  const { url } = await serve(["{ anthropic: {} }", "{ openai: {} }"], local);
  const types: unknown[] = [];
  for (let sent = 0; sent < 2; sent++) {
    const response = await fetch(`${url}/v1/unknown`, { method: "POST", body: '{"model":"a"}' });
    types.push(((await response.json()) as { error: { type: unknown } }).error.type);
  }
  expect(types.toSorted()).toEqual(["rate_limit_error", "requests"]);
});

test("examples/denied-requests: an error of OpenAI at /v1, a problem at /api", async () => {
  const mock = await startMockLlm({ port: 0, host: "127.0.0.1" });
  onTestFinished(() => mock.close());
  const files = ["gateway.yaml", "limits.yaml"].map((file) =>
    readFileSync(join(import.meta.dirname, "../../examples/denied-requests", file), "utf8"),
  );
  const example = manifests(...files).replace("port: 8089", `port: ${mock.port}`);
  const gateway = await startGateway(example.replace("port: 9000", `port: ${mock.port}`));
  const client = new OpenAI({ baseURL: `${gateway.url(8080)}/v1`, apiKey: "none", maxRetries: 0, defaultHeaders });
  const ask = () => client.chat.completions.create({ model, messages });
  for (let sent = 0; sent < 2; sent++) await ask();
  const error = await rejection(ask());
  expect(error).toBeInstanceOf(RateLimitError);
  expect(Object.fromEntries((error as RateLimitError).headers)).toMatchObject({
    ...{ "ratelimit-policy": '"chat";q=2;w=60', ratelimit: '"chat";r=0;t=60' },
    ...{ "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m0s" },
  });
  for (let sent = 0; sent < 2; sent++) await fetch(`${gateway.url(8080)}/api`);
  const denied = await fetch(`${gateway.url(8080)}/api`);
  expect(denied.headers.get("link")).toBe('<https://example.com/plans>; rel="help"');
  expect(await denied.json()).toMatchObject({
    detail: 'The plan "free" allows 2 requests a minute.',
    "violated-policies": ["free-plan"],
  });
});
