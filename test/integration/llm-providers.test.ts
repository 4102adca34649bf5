/**
 * Each provider of `spec.ai`, with the provider's own client through the gateway to the mock LLM: its credentials, its
 * prescribed model in the body or in the path, and its tokens.
 */
import {
  BedrockRuntimeClient,
  ConverseCommand,
  ConverseStreamCommand,
  InvokeModelCommand,
  InvokeModelWithResponseStreamCommand,
  ThrottlingException,
} from "@aws-sdk/client-bedrock-runtime";
import { ApiError, GoogleGenAI } from "@google/genai";
import OpenAI, { AzureOpenAI } from "openai";
import { describe, expect, onTestFinished, test } from "vitest";
import { type MockLlm, startMockLlm } from "../../examples/mock-llm/src/mock-llm.ts";
import { expectedAuthorization } from "../support/aws-signature.ts";
import { gatewayManifest, manifests, policyManifest, routeManifest, startGateway } from "../support/gateway.ts";

const limit = 1_000_000;
const aws = { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG", region: "eu-west-1" };
const question = "What is a rate limit?";
const messages = [{ role: "user" as const, content: question }];

/** @param provider of `spec.ai`, and @param secret as flow YAML. */
async function start(provider: string, secret = "{ apiKey: operator-key }") {
  const mock = await startMockLlm({ port: 0, host: "127.0.0.1" });
  onTestFinished(() => mock.close());
  const backend = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: ${provider}, host: 127.0.0.1, port: ${mock.port}, auth: { secretRef: { name: key } } } }
---
apiVersion: v1
kind: Secret
metadata: { name: key, namespace: default }
stringData: ${secret}
`;
  const route = routeManifest("chat", ["backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: llm }]"]);
  const policy = policyManifest("limits", "kind: HTTPRoute, name: chat", [`{ tokens: ${limit}, unit: Hours }`]);
  const gateway = await startGateway(manifests(gatewayManifest(), backend, route, policy));
  /** The charged tokens, by the headers of a response that costs nothing. */
  const charged = async (): Promise<number> => {
    const { headers } = await fetch(`${gateway.url()}/nothing`);
    return limit - Number(headers.get("x-ratelimit-remaining"));
  };
  return { mock, gateway, url: gateway.url(), charged };
}

const mockFields = { "x-mock-delay-ms": "0", "x-mock-prompt-tokens": "30", "x-mock-completion-tokens": "12" };
const cost = 42;

function lastOf(mock: MockLlm) {
  const request = mock.requests.at(-1);
  if (request === undefined) throw new Error("the mock got no request");
  return request;
}

describe("azure", () => {
  const client = (url: string, deployment: string) =>
    new AzureOpenAI({
      ...{ endpoint: url, apiKey: "client-key", apiVersion: "2024-10-21", deployment, maxRetries: 0 },
      defaultHeaders: mockFields,
    });

  test("gets the key as api-key, and is counted", async () => {
    const { mock, url, charged } = await start("{ azure: {} }");
    await client(url, "gpt-4o").chat.completions.create({ model: "gpt-4o", messages });
    const { path, headers } = lastOf(mock);
    expect(path).toBe("/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21");
    expect(headers).toMatchObject({ "api-key": "operator-key" });
    expect(JSON.stringify(headers)).not.toContain("client-key");
    expect(await charged()).toBe(cost);
  });

  test("gets a token of Entra ID as a bearer token", async () => {
    const { mock, url } = await start("{ azure: { authentication: Bearer } }");
    await client(url, "gpt-4o").chat.completions.create({ model: "gpt-4o", messages });
    expect(lastOf(mock).headers).toMatchObject({ authorization: "Bearer operator-key" });
    expect(lastOf(mock).headers).not.toHaveProperty("api-key");
  });

  test("gets the prescribed deployment in the path and in the body, streamed", async () => {
    const { mock, url, charged } = await start("{ azure: { model: cheap } }");
    const stream = await client(url, "dear").chat.completions.create({ model: "dear", messages, stream: true });
    await Array.fromAsync(stream);
    expect(lastOf(mock).path).toBe("/openai/deployments/cheap/chat/completions?api-version=2024-10-21");
    expect(JSON.parse(lastOf(mock).body)).toMatchObject({ model: "cheap", stream_options: { include_usage: true } });
    expect(await charged()).toBe(cost);
  });

  test("gets the API version where the client names none", async () => {
    const { mock, url } = await start('{ azure: { apiVersion: "2025-04-01-preview" } }');
    const openai = new OpenAI({ baseURL: `${url}/openai/v1`, apiKey: "client-key", defaultHeaders: mockFields });
    await openai.responses.create({ model: "gpt-4o", input: question });
    expect(lastOf(mock).path).toBe("/openai/v1/responses?api-version=2025-04-01-preview");
    await openai.responses.create({ model: "gpt-4o", input: question }, { query: { "Api-Version": "preview" } });
    expect(lastOf(mock).path).toBe("/openai/v1/responses?Api-Version=preview");
  });
});

describe("gemini", () => {
  const client = (url: string) =>
    new GoogleGenAI({ apiKey: "client-key", httpOptions: { baseUrl: url, headers: mockFields } });
  const request = { model: "gemini-2.5-pro", contents: question };

  test("gets the key as x-goog-api-key, and is counted", async () => {
    const { mock, url, charged } = await start("{ gemini: {} }");
    const response = await client(url).models.generateContent(request);
    expect(response.usageMetadata).toMatchObject({ totalTokenCount: cost });
    expect(lastOf(mock).path).toMatch(/^\/v1(?:beta)?\/models\/gemini-2\.5-pro:generateContent$/);
    expect(lastOf(mock).headers).toMatchObject({ "x-goog-api-key": "operator-key" });
    expect(JSON.stringify(lastOf(mock).headers)).not.toContain("client-key");
    expect(await charged()).toBe(cost);
  });

  test("gets the prescribed model in the path, and nothing new in the body, streamed", async () => {
    const { mock, url, charged } = await start("{ gemini: { model: gemini-2.5-flash } }");
    const parts = await Array.fromAsync(await client(url).models.generateContentStream(request));
    expect(parts.map(({ text }) => text).join("")).toContain("rate limit");
    expect(lastOf(mock).path).toMatch(/\/models\/gemini-2\.5-flash:streamGenerateContent\?alt=sse$/);
    expect(JSON.parse(lastOf(mock).body)).not.toHaveProperty("model");
    expect(await charged()).toBe(cost);
  });

  test("counts a stream that is a JSON array", async () => {
    const { url, charged } = await start("{ gemini: {} }");
    const body = JSON.stringify({ contents: [{ parts: [{ text: question }] }] });
    const path = "/v1beta/models/gemini-2.5-pro:streamGenerateContent";
    const response = await fetch(url + path, { method: "POST", headers: mockFields, body });
    expect(((await response.json()) as unknown[]).length).toBeGreaterThan(1);
    expect(await charged()).toBe(cost);
  });

  test("gets the key as a bearer token at its API for OpenAI's clients", async () => {
    const { mock, url, charged } = await start("{ gemini: { model: gemini-2.5-flash } }");
    const options = { apiKey: "client-key", maxRetries: 0, defaultHeaders: mockFields };
    const openai = new OpenAI({ baseURL: `${url}/v1beta/openai`, ...options });
    await openai.chat.completions.create({ model: "gemini-2.5-pro", messages });
    expect(lastOf(mock).path).toBe("/v1beta/openai/chat/completions");
    expect(lastOf(mock).headers).toMatchObject({ authorization: "Bearer operator-key" });
    expect(lastOf(mock).headers).not.toHaveProperty("x-goog-api-key");
    expect(JSON.parse(lastOf(mock).body)).toMatchObject({ model: "gemini-2.5-flash" });
    expect(await charged()).toBe(cost);
  });

  test.each(["key=client-key", "%6bey=client-key&alt=json", "alt=json&access_token=client-key", "KEY=client-key"])(
    "does not get the client's key in the query: %s",
    async (query) => {
      const { mock, gateway, url } = await start("{ gemini: {} }");
      const path = `/v1beta/models/gemini-2.5-pro:generateContent?${query}`;
      await (await fetch(url + path, { method: "POST", headers: mockFields, body: '{"contents":[]}' })).text();
      expect(lastOf(mock).path).not.toContain("client-key");
      expect(lastOf(mock).path.includes("alt=json")).toBe(query.includes("alt=json"));
      expect(JSON.stringify(gateway.records.map(({ path: logged }) => logged))).toContain("generateContent");
    },
  );

  test("passes a 429 to its client", async () => {
    const { url } = await start("{ gemini: {} }");
    const headers = { "x-mock-status": "429", "x-mock-retry-after": "7" };
    const genai = new GoogleGenAI({ apiKey: "client-key", httpOptions: { baseUrl: url, headers } });
    const error: unknown = await genai.models.generateContent(request).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: 429 });
  });
});

describe("bedrock", () => {
  const modelId = "anthropic.claude-3-5-sonnet-20240620-v1:0";
  const keys = `{ accessKeyId: ${aws.accessKeyId}, secretAccessKey: ${aws.secretAccessKey} }`;
  const client = (url: string, more: Readonly<Record<string, string>> = {}) => {
    const credentials = { accessKeyId: "AKIDCLIENT", secretAccessKey: "client-secret", sessionToken: "client-session" };
    const bedrock = new BedrockRuntimeClient({ endpoint: url, region: "us-east-1", credentials, maxAttempts: 1 });
    bedrock.middlewareStack.add(
      (next) => (args) => {
        const { headers } = args.request as { headers: Record<string, string> };
        Object.assign(headers, mockFields, more);
        return next(args);
      },
      { step: "build" },
    );
    onTestFinished(() => bedrock.destroy());
    return bedrock;
  };
  const conversation = { modelId, messages: [{ role: "user" as const, content: [{ text: question }] }] };
  const invocation = {
    modelId,
    contentType: "application/json",
    body: JSON.stringify({ anthropic_version: "bedrock-2023-05-31", max_tokens: 99, messages }),
  };
  const ways: readonly (readonly [string, (bedrock: BedrockRuntimeClient) => Promise<unknown>])[] = [
    ["converse", (bedrock) => bedrock.send(new ConverseCommand(conversation))],
    [
      "converse-stream",
      async (bedrock) => {
        const { stream } = await bedrock.send(new ConverseStreamCommand(conversation));
        const events = await Array.fromAsync(stream ?? []);
        expect(events.at(-1)).toMatchObject({ metadata: { usage: { totalTokens: cost } } });
      },
    ],
    ["invoke", (bedrock) => bedrock.send(new InvokeModelCommand(invocation))],
    [
      "invoke-with-response-stream",
      async (bedrock) => {
        const { body } = await bedrock.send(new InvokeModelWithResponseStreamCommand(invocation));
        expect((await Array.fromAsync(body ?? [])).length).toBeGreaterThan(3);
      },
    ],
  ];

  test.each(ways)("gets a signature of the gateway, and is counted: %s", async (method, send) => {
    const { mock, url, charged } = await start(`{ bedrock: { region: ${aws.region} } }`, keys);
    await send(client(url));
    const request = lastOf(mock);
    expect(request.path).toBe(`/model/${encodeURIComponent(modelId)}/${method}`);
    expect(request.headers.authorization).toBe(expectedAuthorization(request, aws));
    expect(request.headers).not.toHaveProperty("x-amz-security-token");
    expect(await charged()).toBe(cost);
  });

  test.each(ways)("gets the prescribed model in the path, and signed: %s", async (method, send) => {
    const model = "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.amazon.nova-lite-v1:0";
    const { mock, url, charged } = await start(`{ bedrock: { region: ${aws.region}, model: "${model}" } }`, keys);
    await send(client(url));
    const request = lastOf(mock);
    expect(request.path).toBe(`/model/${encodeURIComponent(model)}/${method}`);
    expect(JSON.parse(request.body)).not.toHaveProperty("model");
    expect(request.headers.authorization).toBe(expectedAuthorization(request, aws));
    expect(await charged()).toBe(cost);
  });

  test("gets the session token of temporary credentials, signed", async () => {
    const secret = `{ accessKeyId: ${aws.accessKeyId}, secretAccessKey: ${aws.secretAccessKey}, sessionToken: temporary }`;
    const { mock, url } = await start(`{ bedrock: { region: ${aws.region} } }`, secret);
    await client(url).send(new ConverseCommand(conversation));
    expect(lastOf(mock).headers).toMatchObject({ "x-amz-security-token": "temporary" });
    expect(lastOf(mock).headers.authorization).toBe(expectedAuthorization(lastOf(mock), aws));
  });

  test("gets an API key as a bearer token", async () => {
    const { mock, url } = await start(`{ bedrock: { region: ${aws.region} } }`);
    await client(url).send(new ConverseCommand(conversation));
    expect(lastOf(mock).headers).toMatchObject({ authorization: "Bearer operator-key" });
    expect(JSON.stringify(lastOf(mock).headers)).not.toMatch(/client-session|AKIDCLIENT/);
  });

  test("passes a throttled request to its client", async () => {
    const { url } = await start(`{ bedrock: { region: ${aws.region} } }`, keys);
    const throttled = client(url, { "x-mock-status": "429" }).send(new ConverseCommand(conversation));
    await expect(throttled).rejects.toThrow(ThrottlingException);
  });

  test("is charged an estimate for a stream that the provider ends early", async () => {
    const { url, charged } = await start(`{ bedrock: { region: ${aws.region} } }`, keys);
    const { stream } = await client(url, { "x-mock-abort-after": "20" }).send(new ConverseStreamCommand(conversation));
    await expect(Array.fromAsync(stream ?? [])).rejects.toThrow();
    expect(await charged()).toBeGreaterThan(0);
  });
});

test("openaiCompatible gets a bearer token and the prescribed model, and is counted", async () => {
  const { mock, url, charged } = await start("{ openaiCompatible: { model: llama3.2 } }");
  const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: "client-key", defaultHeaders: mockFields });
  await openai.chat.completions.create({ model: "gpt-4o", messages });
  expect(lastOf(mock).headers).toMatchObject({ authorization: "Bearer operator-key" });
  expect(JSON.parse(lastOf(mock).body)).toMatchObject({ model: "llama3.2" });
  expect(await charged()).toBe(cost);
});

/** Spellings of paths that some server could route to another model, or to an endpoint that is not counted. */
const spellings = {
  azure: [
    "/openai/deployments/dear/chat/completions",
    "/openai/deployments/dear%2Fchat%2Fcompletions",
    "/openai%2Fdeployments%2Fdear/chat/completions",
    "/OPENAI/Deployments/dear/chat/completions",
    "/openai/deployments/dear/extensions/chat/completions",
    "/openai/deployments/cheap/../dear/chat/completions",
    "/openai/deployments/dear;x/chat/completions",
    "/openai/deployments//dear/chat/completions",
    "/openai/deployments/dear/deployments/cheap/chat/completions",
    "/openai/deployments/cheap/deployments/dear/chat/completions",
    "/openai/v1/chat/completions?deployment=dear",
  ],
  gemini: [
    "/v1beta/models/dear:generateContent",
    "/v1beta/models/dear%3AgenerateContent",
    "/v1beta%2Fmodels%2Fdear:generateContent",
    "/v1beta/models/dear%253AstreamGenerateContent",
    "/v1beta/models/dear:GenerateContent",
    "/v1beta/MODELS/dear:generateContent",
    "/v1beta/models/dear:generateContent/",
    "/v1beta/models/dear:generateContent:generateContent",
    "/v1beta/models/cheap/models/dear:generateContent",
    "/v1beta/models/dear/models/cheap:generateContent",
    "/v1beta/tunedModels/dear:generateContent",
    "/v1beta/models/cheap:generateContent?model=dear",
    "/v1beta/dynamic/dear:generateContent",
    "/v1beta/models/dear:batchGenerateContent",
    "/v1beta/models/dear:predictLongRunning",
    "/upload/v1beta/models/dear:generateContent",
  ],
  bedrock: [
    "/model/dear/converse",
    "/model/dear/Converse",
    "/MODEL/dear/converse",
    "/model/dear%2Fconverse",
    "/model%2Fdear%2Fconverse-stream",
    "/model/dear%252Fconverse",
    "/model/dear/invoke-with-bidirectional-stream",
    "/model/cheap/../dear/invoke",
    "/model/dear/model/cheap/invoke",
    "/model/cheap/model/dear/invoke",
    "/model//dear/invoke",
    "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Aprompt%2FDEAR/converse",
    "/model/dear/async-invoke",
    "/async-invoke",
    "/model/dear/invoke/",
  ],
} as const;

describe.each(["azure", "gemini", "bedrock"] as const)("a path of %s", (provider) => {
  const settings = provider === "bedrock" ? `region: ${aws.region}` : "";
  const secret = "{ apiKey: operator-key }";
  const bodies = ['{"contents":[],"messages":[],"model":"dear"}', '{"contents":[],"messages":[]}'];
  const ask = (url: string, path: string, body: string) =>
    fetch(url + path, { method: "POST", headers: { ...mockFields, "content-type": "application/json" }, body });

  test.each(spellings[provider])("is counted or rejected: %s", async (path) => {
    const { mock, url, charged } = await start(`{ ${provider}: { ${settings} } }`, secret);
    for (const body of bodies) {
      const before = await charged();
      const seen = mock.requests.length;
      const { status } = await ask(url, path, body);
      const isSent = mock.requests.length > seen;
      if (isSent && status < 400) expect((await charged()) - before).toBe(cost);
      else expect([400, 404, 405, 415]).toContain(status);
    }
  });

  test.each(spellings[provider])("has the prescribed model or is rejected: %s", async (path) => {
    const model = [settings, "model: cheap"].filter((text) => text !== "").join(", ");
    const { mock, url } = await start(`{ ${provider}: { ${model} } }`, secret);
    for (const body of bodies) {
      const { status } = await ask(url, path, body);
      expect([200, 400, 404]).toContain(status);
      const sent = mock.requests.filter(({ method }) => method === "POST");
      for (const { path: sentPath, body: sentBody } of sent) expect(sentPath + sentBody).not.toMatch(/dear/i);
    }
  });
});
