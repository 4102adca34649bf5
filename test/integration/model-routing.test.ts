/**
 * The model of a request chooses its rule (a match on `x-gateway-model`) and its backend (`spec.ai.models`). What
 * decides is what the limits count and what the provider gets.
 */
import { once } from "node:events";
import { connect } from "node:net";
import type { TraceMessage } from "@gatewayproxy/admin-api/trace-event";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI, { NotFoundError } from "openai";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, onTestFinished, test } from "vitest";
import { type MockLlm, startMockLlm } from "../../examples/mock-llm/src/mock-llm.ts";
import { BodyBudget, createBodyMemory } from "../../proxy/src/pipeline/body/body-budget.ts";
import { startBackend } from "../support/backend.ts";
import {
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
} from "../support/gateway.ts";
import type { TestGateway } from "../support/gateway.ts";

const messages = [{ role: "user" as const, content: "What is a rate limit?" }];
const immediately = { "x-mock-delay-ms": "0" };

async function startMock(): Promise<MockLlm> {
  const mock = await startMockLlm({ port: 0, host: "127.0.0.1" });
  onTestFinished(() => mock.close());
  return mock;
}

/** @param ai further fields of `spec.ai`, as flow YAML. */
function aiBackend(name: string, mock: MockLlm, ai = "", provider = "openai: {}"): string {
  return `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: ${name}, namespace: default }
spec: { ai: { provider: { ${provider} }, host: 127.0.0.1, port: ${mock.port}, ${ai} } }
`;
}

/** A rule for a model, as flow YAML. */
function modelRule(model: string, backend: string, type = "Exact"): string {
  const header = `{ name: X-Gateway-Model, type: ${type}, value: '${model}' }`;
  return `{ matches: [{ path: { type: PathPrefix, value: /v1 }, headers: [${header}] }], backendRefs: [${backendRef(backend)}] }`;
}

const client = (gateway: TestGateway, headers: Readonly<Record<string, string>> = {}) =>
  new OpenAI({
    ...{ baseURL: `${gateway.url()}/v1`, apiKey: "none", maxRetries: 0 },
    defaultHeaders: { ...immediately, ...headers },
  });

const chat = (gateway: TestGateway, model: string, headers: Readonly<Record<string, string>> = {}) =>
  client(gateway, headers).chat.completions.create({ model, messages });

const post = (gateway: TestGateway, body: string | Buffer, init: RequestInit = {}, path = "/v1/chat/completions") =>
  fetch(`${gateway.url()}${path}`, {
    method: "POST",
    body,
    ...init,
    headers: { ...immediately, "content-type": "application/json", ...(init.headers as Record<string, string>) },
  });

const modelsOf = (mock: MockLlm) => mock.requests.map(({ body }) => (JSON.parse(body) as { model?: unknown }).model);

describe("rules by x-gateway-model", () => {
  /** Rules for `small`, for `claude-…`, and for the rest if asked for. */
  async function start(rest: readonly string[] = []) {
    const [small, claude, other] = await Promise.all([startMock(), startMock(), startMock()]);
    const rules = [modelRule("small", "small"), modelRule("claude-.*", "claude", "RegularExpression"), ...rest];
    const gateway = await startGateway(
      manifests(
        gatewayManifest(),
        aiBackend("small", small),
        aiBackend("claude", claude, "", "anthropic: {}"),
        aiBackend("other", other),
        routeManifest("chat", rules),
      ),
    );
    return { gateway, small, claude, other };
  }

  const anything = `{ matches: [{ path: { type: PathPrefix, value: / } }], backendRefs: [${backendRef("other")}] }`;

  test("send each model to its backend, as its client names it", async () => {
    const { gateway, small, claude, other } = await start([anything]);
    await chat(gateway, "small");
    const anthropic = new Anthropic({
      ...{ baseURL: gateway.url(), apiKey: "none", maxRetries: 0 },
      defaultHeaders: immediately,
    });
    await anthropic.messages.create({ model: "claude-test", max_tokens: 10, messages });
    await chat(gateway, "large");
    expect([modelsOf(small), modelsOf(claude), modelsOf(other)]).toEqual([["small"], ["claude-test"], ["large"]]);
    expect(gateway.records[0]).toMatchObject({ rule: "default/chat/0", clientModel: "small", requestModel: "small" });
  });

  test("ignore a field of that name from the client, which no backend gets", async () => {
    const { gateway, small, other } = await start([anything]);
    await chat(gateway, "large", { "x-gateway-model": "small" });
    await fetch(`${gateway.url()}/v1/files`, { headers: { "X-Gateway-MODEL": "small" } });
    expect(small.requests).toEqual([]);
    expect(other.requests).toHaveLength(2);
    expect(other.requests.filter(({ headers }) => "x-gateway-model" in headers)).toEqual([]);
  });

  test("read a name in any spelling of JSON", async () => {
    const { gateway, small, other } = await start([anything]);
    for (const body of [
      String.raw`{"model":"sm\u0061ll"}`,
      String.raw`{"\u006dodel":"small"}`,
      `\n {"messages":[{"model":"large"}],"model" : "small" }`,
      '\uFEFF{"model":"small"}',
      '{"Model":"small","model":"small"}',
    ]) {
      await post(gateway, body);
    }
    expect([small.requests.length, other.requests.length]).toEqual([5, 0]);
  });

  test.each<readonly [string, number, string | Buffer, Record<string, string>]>([
    ["names two models", 400, '{"model":"large","model":"small"}', {}],
    ["names two models in other cases", 400, '{"Model":"large","model":"small"}', {}],
    ["is not JSON after its start", 400, '{"model":"small"', {}],
    ["has comments", 400, '/* "model" */ {"model":"small"}', {}],
    ["is in UTF-16", 400, Buffer.from('{"model":"small"}', "utf16le"), {}],
    ["repeats the model too often", 400, `{${'"model":"small",'.repeat(9)}"n":1}`, {}],
    ["is compressed", 415, Buffer.from([0x1f, 0x8b]), { "content-encoding": "gzip" }],
  ])("reject a body that %s", async (_title, status, body, headers) => {
    const { gateway, small, other } = await start([anything]);
    const response = await post(gateway, body, { headers });
    expect(response.status).toBe(status);
    expect([...small.requests, ...other.requests]).toEqual([]);
    expect(gateway.records[0]).toMatchObject({ status, reason: "BadRequest", route: undefined });
  });

  test("reject a body above 32 MiB that begins like JSON, and pass one that does not", async () => {
    const { gateway, small, other } = await start([anything]);
    const large = Buffer.alloc(32 * 1024 * 1024 + 1, " ");
    large.write('{"model":"small"}');
    expect((await post(gateway, large)).status).toBe(413);
    large.write("--boundary");
    await post(gateway, large, {}, "/v1/files");
    expect([small.requests.length, other.requests.length]).toEqual([0, 1]);
  });

  test("read the model of a path, and reject another one in the body", async () => {
    const [vertex, other] = await Promise.all([startMock(), startMock()]);
    const header = "{ name: x-gateway-model, value: gemini-2.5-flash }";
    const gateway = await startGateway(
      manifests(
        gatewayManifest(),
        aiBackend("vertex", vertex, "", "gemini: {}"),
        aiBackend("other", other),
        routeManifest("chat", [
          `{ matches: [{ headers: [${header}] }], backendRefs: [${backendRef("vertex")}] }`,
          anything,
        ]),
      ),
    );
    const path = (model: string) => `/v1beta/models/${model}:generateContent`;
    await post(gateway, "{}", {}, path("gemini-2.5-flash"));
    await post(gateway, "{}", {}, path("gemini%2D2.5-flash"));
    await post(gateway, "{}", {}, path("gemini-2.5-pro"));
    expect([vertex.requests.length, other.requests.length]).toEqual([2, 1]);
    const conflict = await post(gateway, '{"model":"gemini-2.5-pro"}', {}, path("gemini-2.5-flash"));
    expect([conflict.status, await conflict.text()]).toEqual([
      400,
      "the path or the query names another model than the request body, or two models",
    ]);
  });

  test("respond with the error of the client's API where no rule serves the model", async () => {
    const { gateway } = await start();
    await expect(chat(gateway, "large")).rejects.toThrow(NotFoundError);
    await expect(chat(gateway, "large")).rejects.toMatchObject({ code: "model_not_found", status: 404 });
    const anthropic = new Anthropic({ baseURL: gateway.url(), apiKey: "none", maxRetries: 0 });
    await expect(anthropic.messages.create({ model: "large", max_tokens: 10, messages })).rejects.toMatchObject({
      status: 404,
      error: { type: "error", error: { type: "not_found_error" } },
    });
    expect(gateway.records[0]).toMatchObject({ reason: "ModelNotFound", clientModel: "large", route: undefined });
  });

  test("do not read the body of a request that they do not decide", async () => {
    const { gateway, other } = await start([
      `{ matches: [{ path: { type: Exact, value: /v1/upload } }], backendRefs: [${backendRef("other")}] }`,
    ]);
    await post(gateway, '{"model":"a","model":"b"', {}, "/v1/upload");
    expect(other.requests.map(({ body }) => body)).toEqual(['{"model":"a","model":"b"']);
  });

  test("read a body that arrives in pieces, and let it go when the client leaves before its end", async () => {
    const { gateway, small, other } = await start([anything]);
    const { port } = new URL(gateway.url());
    const socket = connect(Number(port), "127.0.0.1");
    await once(socket, "connect");
    const head = "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    socket.write(`${head}1\r\n \r\n`);
    for (const byte of '{"model":"small"}') socket.write(`1\r\n${byte}\r\n`);
    socket.write("0\r\n\r\n");
    await once(socket, "data");
    expect(modelsOf(small)).toEqual(["small"]);
    const ended = gateway.nextRecord();
    socket.write(`${head}8\r\n{"model"\r\n`);
    socket.destroy();
    expect(await ended).toMatchObject({ reason: "ClientDisconnect", route: undefined, listener: "default/web/http" });
    expect(other.requests).toEqual([]);
  });

  test("keep a body that was read for a rule that repeats it", async () => {
    const [small] = await Promise.all([startMock()]);
    const { port } = await startBackend((request, response) => {
      request.resume();
      response.writeHead(503).end();
    });
    const rule = modelRule("small", "broken").replace(
      "backendRefs",
      "retry: { attempts: 3, codes: [503], backoff: 0s }, backendRefs",
    );
    const gateway = await startGateway(
      manifests(gatewayManifest(), aiBackend("broken", { ...small, port }), routeManifest("chat", [rule])),
    );
    const body = JSON.stringify({ model: "small", padding: "x".repeat(300_000) });
    const response = post(gateway, body);
    await waitFor(
      () => {
        gateway.clock.advance(100);
        expect(gateway.records).toHaveLength(1);
      },
      { timeout: 10_000, interval: 2 },
    );
    expect((await response).status).toBe(503);
    expect(gateway.records[0]).toMatchObject({ attempts: 4, requestBytes: body.length });
  });

  test("are shown with the model in a trace", async () => {
    const { gateway } = await start();
    const traces: TraceMessage[] = [];
    gateway.dataPlane.tracer.add({
      ...{ id: 1, claim: new Int32Array(new SharedArrayBuffer(4)), matches: undefined },
      sink: (event) => void traces.push(...(event === undefined ? [] : [event.message])),
    });
    await post(gateway, '{"model":"large"}');
    expect(traces.find(({ type }) => type === "routeSelection")).toMatchObject({
      model: "large",
      passedOver: expect.arrayContaining(["default/chat/0: header x-gateway-model is not small"]) as string[],
    });
  });

  describe("bound what clients can hold before a rule is known", () => {
    const smallOnly = (mock: MockLlm) =>
      manifests(gatewayManifest(), aiBackend("small", mock), routeManifest("chat", [modelRule("small", "small")]));

    test("by the memory for bodies", async () => {
      const small = await startMock();
      const bodies = new BodyBudget(createBodyMemory(1), 1, 64 * 1024);
      const gateway = await startGateway(smallOnly(small), { bodies });
      const body = JSON.stringify({ model: "small", padding: "x".repeat(200_000) });
      const response = await post(gateway, body);
      expect([response.status, response.headers.get("retry-after")]).toEqual([503, "1"]);
      expect(gateway.records[0]).toMatchObject({ reason: "BodyMemoryFull", route: undefined });
      expect([small.requests.length, bodies.heldBytes]).toEqual([0, 0]);
    });

    test("by the idle timeout of streams", async () => {
      const gateway = await startGateway(smallOnly(await startMock()), { streamIdleTimeoutMs: 10_000 });
      const socket = connect(Number(new URL(gateway.url()).port), "127.0.0.1");
      socket.write('POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{"model":');
      const received = once(socket, "data") as Promise<[Buffer]>;
      await waitFor(
        () => {
          gateway.clock.advance(5_000);
          expect(gateway.records).toHaveLength(1);
        },
        { timeout: 10_000, interval: 2 },
      );
      expect(String((await received)[0])).toMatch(/^HTTP\/1\.1 408 /);
      expect(gateway.records[0]).toMatchObject({ reason: "StreamIdleTimeout", route: undefined });
      socket.destroy();
    });
  });

  test("respond to the preflight of a request whose model is not known", async () => {
    const [small] = await Promise.all([startMock()]);
    const cors = "filters: [{ type: CORS, cors: { allowOrigins: ['https://a.example'], allowMethods: [POST] } }]";
    const gateway = await startGateway(
      manifests(
        gatewayManifest(),
        aiBackend("small", small),
        routeManifest("chat", [modelRule("small", "small").replace("{ matches", `{ ${cors}, matches`)]),
      ),
    );
    const response = await fetch(`${gateway.url()}/v1/chat/completions`, {
      method: "OPTIONS",
      headers: { origin: "https://a.example", "access-control-request-method": "POST" },
    });
    expect([response.status, response.headers.get("access-control-allow-origin")]).toEqual([204, "https://a.example"]);
  });
});

describe("backends with models", () => {
  const lists = {
    a: "models: [{ name: gpt-4, as: gpt-4o-2024-11-20 }, { name: shared }]",
    b: "models: [{ name: claude, as: claude-test }, { name: shared, as: shared-b }]",
  };

  /** @param rest further references of the rule. @param local entries of a policy. */
  async function start(rest = "", local: readonly string[] = [], ai: Partial<typeof lists> = {}) {
    const [a, b, other] = await Promise.all([startMock(), startMock(), startMock()]);
    const refs = [backendRef("a"), backendRef("b"), ...(rest === "" ? [] : [rest])].join(", ");
    const gateway = await startGateway(
      manifests(
        gatewayManifest(),
        aiBackend("a", a, ai.a ?? lists.a),
        aiBackend("b", b, ai.b ?? lists.b, "anthropic: {}"),
        aiBackend("other", other),
        routeManifest("chat", [`{ backendRefs: [${refs}] }`]),
        ...(local.length === 0 ? [] : [policyManifest("limits", "kind: HTTPRoute, name: chat", local)]),
      ),
    );
    return { gateway, a, b, other };
  }

  test("get the models that they list, by their own names", async () => {
    const { gateway, a, b } = await start();
    await chat(gateway, "gpt-4");
    await chat(gateway, "claude");
    expect([modelsOf(a), modelsOf(b)]).toEqual([["gpt-4o-2024-11-20"], ["claude-test"]]);
    expect(gateway.records[0]).toMatchObject({
      ...{ backend: "Backend/default/a", clientModel: "gpt-4", requestModel: "gpt-4o-2024-11-20", isListedModel: true },
    });
  });

  test("share the models that several list, by weight", async () => {
    const { gateway, a, b } = await start();
    for (let i = 0; i < 4; i++) await chat(gateway, "shared");
    expect([modelsOf(a), modelsOf(b)]).toEqual([
      ["shared", "shared"],
      ["shared-b", "shared-b"],
    ]);
  });

  test("leave the other models to a backend without a list", async () => {
    const { gateway, a, b, other } = await start(backendRef("other"));
    for (const model of ["gpt-4", "gpt-4", "unheard", "gpt-4o-2024-11-20"]) await chat(gateway, model);
    expect([modelsOf(a), modelsOf(b), modelsOf(other)]).toEqual([
      ["gpt-4o-2024-11-20", "gpt-4o-2024-11-20"],
      [],
      ["unheard", "gpt-4o-2024-11-20"],
    ]);
  });

  test("reject a model that none offers, in the form of the client's API", async () => {
    const { gateway, a, b } = await start();
    await expect(chat(gateway, "gpt-4o-2024-11-20")).rejects.toMatchObject({ code: "model_not_found", status: 404 });
    expect([...a.requests, ...b.requests]).toEqual([]);
    expect(gateway.records[0]).toMatchObject({
      ...{ status: 404, reason: "ModelNotFound", clientModel: "gpt-4o-2024-11-20", backend: undefined },
    });
  });

  test.each<readonly [string, string, string]>([
    ["names none", '{"messages":[]}', "/v1/chat/completions"],
    ["names null", '{"model":null}', "/v1/chat/completions"],
    ["is empty", "", "/v1/chat/completions"],
    ["is a form", "--x\r\n", "/v1/chat/completions"],
    ["is not JSON", "model=gpt-4", "/v1/chat/completions"],
    ["names another alternative", '{"model":"gpt-4","fallbacks":["gpt-5"]}', "/v1/chat/completions"],
    ["names two models", '{"model":"gpt-4","MODEL":"gpt-5"}', "/v1/chat/completions"],
    ["goes to a path with another model", '{"model":"gpt-4"}', "/openai/deployments/gpt-5/chat/completions"],
    ["goes to a path with another model in its query", '{"model":"gpt-4"}', "/v1/chat/completions?model=gpt-5"],
    ["goes to no endpoint of models", '{"model":"gpt-4"}', "/v1/everything"],
  ])("reject a body that %s", async (_title, body, path) => {
    const { gateway, a, b } = await start();
    expect((await post(gateway, body, {}, path)).status).toBe(400);
    expect([...a.requests, ...b.requests]).toEqual([]);
  });

  test("reject a request without a model in the form of the client's API", async () => {
    const { gateway } = await start();
    const response = await post(gateway, '{"messages":[]}');
    expect(await response.json()).toEqual({
      error: {
        message: "this route serves requests that name a model, and the request names none",
        type: "invalid_request_error",
        param: "model",
        code: "missing_required_parameter",
      },
    });
  });

  test("pass what names no model: files, and responses that are read again", async () => {
    const { gateway, a, b } = await start();
    await post(gateway, "--x\r\n", {}, "/v1/files");
    await fetch(`${gateway.url()}/v1/responses/resp_1`);
    expect([...a.requests, ...b.requests].map(({ path }) => path).toSorted()).toEqual([
      "/v1/files",
      "/v1/responses/resp_1",
    ]);
  });

  test("count a limit by the name that the provider gets, so that two aliases share it", async () => {
    const a = "models: [{ name: one, as: same }, { name: two, as: same }, { name: other }]";
    const { gateway } = await start("", ["{ requests: 1, unit: Hours, key: llm.requestModel }"], { a });
    await chat(gateway, "one");
    await expect(chat(gateway, "two")).rejects.toMatchObject({ status: 429 });
    await chat(gateway, "other");
  });

  test("count a limit by the name of the client, if an expression asks for it", async () => {
    const a = "models: [{ name: one, as: same }, { name: two, as: same }]";
    const { gateway } = await start("", ["{ requests: 1, unit: Hours, key: llm.clientModel }"], { a });
    await chat(gateway, "one");
    await chat(gateway, "two");
    await expect(chat(gateway, "two")).rejects.toMatchObject({ status: 429 });
  });

  test("count a token limit of an alias by its usage, streamed too", async () => {
    const { gateway, a } = await start("", ["{ tokens: 50, unit: Hours }"]);
    const stream = await client(gateway, { "x-mock-total-tokens": "50" }).chat.completions.create({
      ...{ model: "gpt-4", messages, stream: true },
    });
    await Array.fromAsync(stream);
    expect(modelsOf(a)).toEqual(["gpt-4o-2024-11-20"]);
    await expect(chat(gateway, "gpt-4")).rejects.toMatchObject({ status: 429 });
  });

  test("put the name of the provider into a path that names the model", async () => {
    const [gemini, azure] = await Promise.all([startMock(), startMock()]);
    const gateway = await startGateway(
      manifests(
        gatewayManifest(),
        aiBackend("g", gemini, "models: [{ name: flash, as: gemini-2.5-flash }]", "gemini: {}"),
        aiBackend("z", azure, "models: [{ name: gpt-4, as: prod-4o }]", "azure: {}"),
        routeManifest("chat", [`{ backendRefs: [${backendRef("g")}, ${backendRef("z")}] }`]),
      ),
    );
    const google = new GoogleGenAI({
      apiKey: "k",
      httpOptions: { baseUrl: gateway.url(), headers: immediately },
    });
    await google.models.generateContent({ model: "flash", contents: "Hello" });
    await post(gateway, '{"model":"gpt-4","messages":[]}', {}, "/openai/deployments/gpt-4/chat/completions");
    expect(gemini.requests.map(({ path }) => path)).toEqual(["/v1/models/gemini-2.5-flash:generateContent"]);
    expect(azure.requests.map(({ path }) => path)).toEqual(["/openai/deployments/prod-4o/chat/completions"]);
    expect(modelsOf(azure)).toEqual(["prod-4o"]);
    await expect(google.models.generateContent({ model: "pro", contents: "Hello" })).rejects.toMatchObject({
      status: 404,
    });
  });

  describe("list their models to clients", () => {
    test("of OpenAI", async () => {
      const { gateway, a, b } = await start();
      const found = await Array.fromAsync(await client(gateway).models.list());
      expect(found.map(({ id, owned_by }) => `${id} ${owned_by}`)).toEqual([
        "gpt-4 openai",
        "shared openai",
        "claude anthropic",
      ]);
      expect(await client(gateway).models.retrieve("gpt-4")).toEqual({
        ...{ id: "gpt-4", object: "model", created: 0, owned_by: "openai" },
      });
      await expect(client(gateway).models.retrieve("gpt-4o-2024-11-20")).rejects.toMatchObject({
        ...{ status: 404, code: "model_not_found" },
      });
      expect([...a.requests, ...b.requests]).toEqual([]);
      expect(gateway.records[0]).toMatchObject({ status: 200, backend: undefined, endpoint: undefined });
    });

    test("of Anthropic", async () => {
      const { gateway } = await start();
      const anthropic = new Anthropic({ baseURL: gateway.url(), apiKey: "none", maxRetries: 0 });
      const found = await Array.fromAsync(anthropic.models.list());
      expect(found.map(({ id, type }) => `${type} ${id}`)).toEqual(["model gpt-4", "model shared", "model claude"]);
      expect((await anthropic.models.retrieve("claude")).display_name).toBe("claude");
      await expect(anthropic.models.retrieve("gpt-5")).rejects.toMatchObject({
        ...{ status: 404, error: { error: { type: "not_found_error" } } },
      });
    });

    test("of Gemini", async () => {
      const { gateway } = await start();
      const google = new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: gateway.url() } });
      const found = await Array.fromAsync(await google.models.list());
      expect(found.map(({ name }) => name)).toEqual(["models/gpt-4", "models/shared", "models/claude"]);
    });

    test("under the limits of the route", async () => {
      const { gateway } = await start("", ["{ requests: 1, unit: Hours }"]);
      const { response } = await client(gateway).models.list().withResponse();
      expect(response.headers.get("x-ratelimit-remaining")).toBe("0");
      await expect(client(gateway).models.list()).rejects.toMatchObject({ status: 429 });
    });

    test("at the path that a filter writes", async () => {
      const mock = await startMock();
      const path = "path: { type: ReplacePrefixMatch, replacePrefixMatch: /v1 }";
      const rewrite = `filters: [{ type: URLRewrite, urlRewrite: { ${path} } }]`;
      const match = "matches: [{ path: { type: PathPrefix, value: /llm } }]";
      const gateway = await startGateway(
        manifests(
          gatewayManifest(),
          aiBackend("a", mock, lists.a),
          routeManifest("chat", [`{ ${match}, ${rewrite}, backendRefs: [${backendRef("a")}] }`]),
        ),
      );
      const head = await fetch(`${gateway.url()}/llm/models`, { method: "HEAD" });
      expect([head.status, await head.text()]).toEqual([200, ""]);
      const list = (await (await fetch(`${gateway.url()}/llm/models?limit=1`)).json()) as { data: { id: string }[] };
      expect(list.data.map(({ id }) => id)).toEqual(["gpt-4", "shared"]);
    });
  });
});
