/**
 * Attempts to evade a token limit or a prescribed model, end to end and against a lenient provider. The rule: a request
 * for which the provider runs a model is counted and has the prescribed model, or it is rejected.
 */
import { once } from "node:events";
import { connect, type IncomingHttpHeaders } from "node:http2";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { deferringEndpoints } from "../../proxy/src/llm/deferred-work.ts";
import { respondWith, startBackend } from "../support/backend.ts";
import { gatewayManifest, manifests, policyManifest, routeManifest, startGateway } from "../support/gateway.ts";
import { globalPolicy } from "../support/global-policy.ts";
import { startLenientProvider, tokensPerResponse } from "../support/lenient-provider.ts";
import { startScriptedService } from "../support/rate-limit-service.ts";
import { rawHttp } from "../support/raw-http.ts";
import { startWebSocketBackend } from "../support/upgrades.ts";

const tokenLimit = 1_000_000;

/** @param ai further fields of `spec.ai`, as flow YAML. */
function llmManifests(port: number, ai: string): string {
  const backend = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { host: 127.0.0.1, port: ${port}, auth: { secretRef: { name: key } }, ${ai} } }
---
apiVersion: v1
kind: Secret
metadata: { name: key, namespace: default }
stringData: { apiKey: sk-operator }
`;
  const route = routeManifest("chat", ["backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: llm }]"]);
  const policy = policyManifest("limits", "kind: HTTPRoute, name: chat", [`{ tokens: ${tokenLimit}, unit: Hours }`]);
  return manifests(gatewayManifest(), backend, route, policy);
}

async function start(ai = "provider: { openai: {} }") {
  const provider = await startLenientProvider();
  const gateway = await startGateway(llmManifests(provider.port, ai));
  const send = async (path: string, body: Buffer | string, headers: readonly string[] = [], method = "POST") => {
    const bytes = Buffer.from(body);
    const fields = [`content-length: ${bytes.length}`, "connection: close", ...headers].join("\r\n");
    const head = `${method} ${path} HTTP/1.1\r\nhost: a\r\n${fields}\r\n\r\n`;
    return await rawHttp(gateway.url(), head + bytes.toString("latin1"));
  };
  /** The charged tokens, by the headers of a response that costs nothing. */
  const charged = async (): Promise<number> => {
    const { headers } = await fetch(`${gateway.url()}/nothing`);
    return tokenLimit - Number(headers.get("x-ratelimit-remaining"));
  };
  return { gateway, provider, send, charged };
}

const stream = '{"model":"gpt-dear","stream":true}';
const chat = "/v1/chat/completions";

describe("a streamed completion is counted or rejected", () => {
  test.each([
    "/v1/chat%2Fcompletions",
    "/v1/chat%2fcompletions",
    "/v1/chat%252Fcompletions",
    "/v1/chat%5Ccompletions",
    "/v1/chat\\completions",
    "/v1/chat/completions;x=y",
    "/v1/chat;x=y/completions",
    "/v1/chat/completions%3Bx",
    "/V1/Chat/COMPLETIONS",
    "/v1/chat/completions//",
    "/v1/./chat/x/../completions",
    "/v1%2Fcompletions",
    "/v1/chat/co%256Dpletions",
  ])("at %s", async (path) => {
    await expectCounted(path, stream);
  });

  const utf16 = Buffer.from(stream, "utf16le");
  const utf32 = Buffer.from(Array.from(Buffer.from(stream), (byte) => [byte, 0, 0, 0]).flat());
  test.each<[string, Buffer | string, string[]]>([
    ["in UTF-16", utf16, []],
    ["in UTF-16, big end first", Buffer.from(utf16).swap16(), ["content-type: application/json; charset=utf-16"]],
    ["in UTF-32", utf32, ["content-type: application/json"]],
    ["with a byte order mark", `\ufeff${stream}`, []],
    ["declared as a text", stream, ["content-type: text/plain"]],
    ["declared as a form", stream, ["content-type: application/x-www-form-urlencoded"]],
    ["declared as multipart", stream, ["content-type: multipart/form-data; boundary=x"]],
    ["declared with another charset", stream, ["content-type: application/json; charset=shift_jis"]],
    ["labelled twice", stream, ["content-type: text/plain", "content-type: application/json"]],
    ["compressed", gzipSync(stream), ["content-encoding: gzip"]],
    ["compressed, in capitals", gzipSync(stream), ["content-encoding: GZIP"]],
  ])("%s", async (_how, body, headers) => {
    await expectCounted(chat, body, headers);
  });

  test.each([
    ...["[]", '""', "0", "false", "null", '"x"', "{}", '[{"include_usage":true}]'].map(
      (options) => `{"stream":true,"stream_options":${options}}`,
    ),
    '{"stream":true,"stream_options":{"include_usage":true},"stream_options":[]}',
    '{"stream":true,"stream_options":{"include_usage":true},"stream_options":{}}',
    '{"stream":true,"stream_options":{"include_usage":true,"include_usage":0}}',
    '{"stream":true,"stream_option\\u0073":0}',
    '{"stream":true,"stream_options":{"include\\u005fusage":false}}',
    '{"stream":false,"stream":true}',
    '{"stream":"true"}',
    '{"stream":1}',
    '{"stream":[0]}',
    '{"stre\\u0061m":true}',
    '{"stream":true,}',
    '{"stream":true} ',
    '{"stream":true}{}',
  ])("with the body %s", async (body) => {
    await expectCounted(chat, body);
  });

  test.each(["PUT", "PATCH", "GET", "DELETE", "QUERY"])("by %s", async (method) => {
    await expectCounted(chat, stream, [], method);
  });

  describe("at an alias of completions", () => {
    const chatStream = stream.replace("}", ',"messages":[]}');
    const wide = Buffer.from(chatStream, "utf16le");
    test.each<[string, Buffer | string, string[]?]>([
      ["/invocations", chatStream],
      ["/serving-endpoints/m/invocations", chatStream],
      ["/endpoints/m/invocations", chatStream.replace("messages", "prompt")],
      ["/invocations", `\ufeff ${chatStream}`],
      ["/invocations", wide],
      ["/invocations", Buffer.concat([Buffer.from([0xff, 0xfe]), wide])],
      ["/invocations", chatStream.replace("{", "{/**/")],
      ["/invocations", chatStream.replace("messages", "m\\u0065ssages")],
      ["/invocations", chatStream, ["content-type: multipart/form-data; boundary=x"]],
      ["/invocations", gzipSync(chatStream), ["content-encoding: gzip"]],
      ["/%69nvocations", chatStream],
      ["/invocations;/v1/messages", chatStream],
      ["/v1/ask", chatStream],
    ])("%s, %s", async (path, body, headers) => {
      await expectCounted(path, body, headers);
    });

    test.each(["/v1/ask", "/INVOCATIONS", "/x%2Finvocations", "/v1/messages;x/../../invocations"])(
      "%s, if the Backend allows other endpoints",
      async (path) => {
        const { provider, send, charged } = await start("provider: { openai: {} }, otherEndpoints: Allow");
        expect((await send(path, chatStream)).status).toBe(200);
        expect(provider.served).toMatchObject([{ isStream: true, reportsUsage: true }]);
        expect(await charged()).toBe(tokensPerResponse);
        expect([400, 415]).toContain((await send(path, wide)).status);
        expect((await send(path, "--x\r\n", ["content-type: multipart/form-data"])).status).toBe(404);
      },
    );
  });

  test("in any spelling of path, body, header fields and method", async () => {
    const { provider, send, charged } = await start();
    const allowing = await start("provider: { openai: {} }, otherEndpoints: Allow");
    const paths = fc.constantFrom(
      ...[
        chat,
        "/v1/completions",
        "/invocations",
        "/endpoints/m/invocations",
        "/v1/messages",
        "/v1/responses",
        "/v1/ask",
      ],
    );
    const changes = fc.constantFrom<readonly [string | RegExp, string]>(
      ...([
        ["/", "//"],
        [/$/, "/"],
        [/$/, ";a=b"],
        [/$/, "?x=/v1/messages"],
        [/(.)$/, "%6$1"],
        [/s$/, "%73"],
        [/o/, "%256f"],
        [/(?!^)\//, "%2F"],
        [/(?!^)\//, "\\"],
        [/(?!^)\//, "/x/../"],
        [/[a-z]/, "X"],
        [/$/, "/../messages"],
      ] as const),
    );
    const members = fc.constantFrom(
      ...['"stream":true', '"stream":1', '"stream":"yes"', '"Stream":true', '"stream":false', '"str\\u0065am":true'],
      ...[
        '"messages":[]',
        '"prompt":"x"',
        '"stream_options":{"include_usage":false}',
        '"stream_options":[]',
        '"x":"y"',
      ],
    );
    const bodies = fc
      .tuple(fc.uniqueArray(members, { minLength: 1, maxLength: 5 }), fc.constantFrom("utf8", "utf16le"), fc.nat(3))
      .map(([parts, encoding, kind]) => {
        const text = kind === 1 ? ` {${parts.join(",")},}` : `{${parts.join(",")},"messages":[]}`;
        return kind === 2 ? gzipSync(text) : Buffer.from(text, encoding as BufferEncoding);
      });
    const labels = fc.constantFrom<readonly string[]>(
      ...[[], ["content-type: application/json"], ["content-type: text/plain"], ["content-encoding: gzip"]],
    );
    const requests = fc.record({
      path: paths,
      change: fc.option(changes, { nil: undefined }),
      body: bodies,
      headers: labels,
      method: fc.constantFrom("POST", "PUT", "GET"),
      isAllowing: fc.boolean(),
    });
    const sides = [
      { provider, send, charged, seen: 0 },
      { ...allowing, seen: 0 },
    ];
    await fc.assert(
      fc.asyncProperty(requests, async ({ path, change, body, headers, method, isAllowing }) => {
        const side = sides[Number(isAllowing)];
        if (side === undefined) return;
        const spelled = change === undefined ? path : path.replace(...change);
        await side.send(spelled, body, headers, method);
        expect(await side.charged()).toBe(side.provider.served.length * tokensPerResponse);
      }),
      { numRuns: 150 },
    );
    for (const side of sides) expect(side.provider.served.length).toBeGreaterThan(0);
  });

  async function expectCounted(path: string, body: Buffer | string, headers: readonly string[] = [], method = "POST") {
    const { provider, send, charged } = await start();
    const { status } = await send(path, body, headers, method);
    expect([200, 400, 415]).toContain(status);
    expect(provider.served).toHaveLength(status === 200 ? 1 : 0);
    expect(await charged()).toBe(provider.served.length * tokensPerResponse);
  }
});

describe("the prescribed model is sent, or nothing", () => {
  const model = '{"model":"gpt-dear"}';
  const form = '--x\r\ncontent-disposition: form-data; name="model"\r\n\r\ngpt-dear\r\n--x--\r\n';
  test.each<[string, string, Buffer | string, string[], string?]>([
    ["the responses API", "/v1/responses", model, []],
    ["the responses API in UTF-16", "/v1/responses", Buffer.from(model, "utf16le"), []],
    ["an escaped slash and UTF-16", "/v1/chat%2Fcompletions", Buffer.from(model, "utf16le"), []],
    ["UTF-16 as a text", "/v1/responses", Buffer.from(model, "utf16le"), ["content-type: text/plain"]],
    ["a form", "/v1/audio/transcriptions", form, ["content-type: multipart/form-data; boundary=x"]],
    ["a form without a content type", "/v1/audio/transcriptions", form, []],
    ["a compressed body", "/v1/responses", gzipSync(model), ["content-encoding: gzip"]],
    ["a name given twice", "/v1/responses", '{"model":"gpt-dear","model":"gpt-dear"}', []],
    ["a name with escapes", "/v1/responses", '{"mod\\u0065l":"gpt-dear"}', []],
    ["a model that is null", "/v1/responses", '{"model":null}', []],
    ["no model", "/v1/responses", "{}", []],
    ["JSON for lenient readers", "/v1/responses", '{"model":"gpt-dear",}', []],
    ["alternatives", "/v1/responses", '{"models":["gpt-dear"]}', []],
    ["a deployment", "/openai/deployments/gpt-dear/chat/completions", "{}", []],
    ["a query", "/v1/responses?model=gpt-dear", "{}", []],
    ["PUT", "/v1/responses", model, [], "PUT"],
    ["GET with a body", "/v1/responses", model, [], "GET"],
    ...[
      "/engines/gpt-dear/chat/completions",
      "/v1/engines/gpt-dear/completions",
      "/endpoints/gpt-dear/invocations",
      "/serving-endpoints/gpt-dear/invocations",
      "/gpt-dear/v1/chat/completions",
      "/openai/deployments/gpt-cheap%2F..%2Fgpt-dear/chat/completions",
    ].map((path): [string, string, string, string[]] => [path, path, "{}", []]),
    ["a header field", "/v1/responses", "{}", ["azureml-model-deployment: gpt-dear"]],
    ["a header field of the same model", "/v1/responses", "{}", ["x-model: gpt-cheap"]],
    ...[
      '"context_window_fallbacks":[{"gpt-cheap":["gpt-dear"]}]',
      '"content_policy_fallbacks":[]',
      '"providerOptions":{"gateway":{"models":["gpt-dear"]}}',
      '"user_config":{"model_list":[]}',
      '"tools":[{"type":"advisor","model":"gpt-dear"}]',
      '"tools":[{"retrieval":{"ranker":{"model_name":"gpt-dear"}}}]',
      '"route":"fallback"',
      '"requests":[{"model":"models/gpt-dear"}]',
    ].map((member): [string, string, string, string[]] => [member, chat, `{${member}}`, []]),
  ])("by %s", async (_how, path, body, headers, method) => {
    const { provider, send } = await start("provider: { openai: { model: gpt-cheap } }");
    const { status } = await send(path, body, headers, method);
    expect([200, 400, 415]).toContain(status);
    expect(provider.served.map((served) => served.model)).toEqual(status === 200 ? ["gpt-cheap"] : []);
  });
});

describe("a path that names another model is rejected, even if it looks like one that generates nothing", () => {
  const dear = [
    "/v1/inference/gpt-dear/files",
    "/v1/gpt-dear/files",
    "/v1/inference/gpt-dear/tokenize",
    "/v1beta/models/gpt-dear:countTokens",
    "/v1beta/models/gpt-cheap/gpt-dear:countTokens",
    "/v1beta/models/gpt-dear:embedContent",
    "/v1beta/models/gpt-dear:batchEmbedContents",
    "/v1beta/models/gpt-dear:batchGenerateContent",
    "/v1beta/tunedModels/gpt-dear:countTokens",
    "/model/gpt-dear/count-tokens",
    "/v1/inference/gpt-dear/jobs/x/cancel",
  ];
  const cheap = [
    "/v1/messages/count_tokens",
    "/v1beta/models/gpt-cheap:countTokens",
    "/v1beta/models/gpt-cheap:embedContent",
    "/v1beta/models/gpt-cheap:batchEmbedContents",
    "/model/gpt-cheap/count-tokens",
    "/v1/inference/gpt-cheap/tokenize",
    "/v1/responses/resp_1/cancel",
    "/v1/threads/t/runs/r/cancel",
  ];
  test.each(["", ", deferredWork: Allow", ", otherEndpoints: Allow"])("%s", async (more) => {
    const backend = await startBackend(respondWith(200, "{}"));
    const gateway = await startGateway(llmManifests(backend.port, `provider: { openai: { model: gpt-cheap } }${more}`));
    const statusOf = async (path: string) =>
      (await fetch(`${gateway.url()}${path}`, { method: "POST", body: "{}" })).status;
    // If other endpoints are served, a segment that is not known to be a name may be anything.
    const rejected = more.includes("otherEndpoints") ? dear.filter((path) => path !== "/v1/gpt-dear/files") : dear;
    for (const path of rejected) expect([path, await statusOf(path)]).toEqual([path, 400]);
    expect(backend.requests).toHaveLength(0);
    for (const path of cheap) expect([path, await statusOf(path)]).toEqual([path, 200]);
  });
});

describe("a switch of protocols", () => {
  const upgrade = (path = "/v1/realtime?model=gpt-dear"): string =>
    `GET ${path} HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${Buffer.alloc(16).toString("base64")}\r\n\r\n`;

  /** A gateway in front of a WebSocket server. */
  async function startRealtime(ai: string) {
    const backend = await startWebSocketBackend();
    const gateway = await startGateway(llmManifests(backend.port, ai));
    return { backend, gateway };
  }

  test("is rejected over HTTP/1.1, and the provider does not get it", async () => {
    const { backend, gateway } = await startRealtime("provider: { openai: {} }");
    const record = gateway.nextRecord();
    const { status, body } = await rawHttp(gateway.url(), upgrade());
    expect([status, body]).toEqual([403, "this backend does not allow switching protocols"]);
    expect(await record).toMatchObject({ status: 403, reason: "UpgradeNotAllowed" });
    expect(backend.requests).toHaveLength(0);
  });

  test("is rejected over HTTP/2's extended CONNECT", async () => {
    const { backend, gateway } = await startRealtime("provider: { openai: {} }");
    const session = connect(gateway.url());
    onTestFinished(() => session.destroy());
    await once(session, "remoteSettings");
    const stream = session.request({ ":method": "CONNECT", ":protocol": "websocket", ":path": "/v1/realtime" });
    const [headers] = (await once(stream, "response")) as [IncomingHttpHeaders];
    expect(headers[":status"]).toBe(403);
    expect(backend.requests).toHaveLength(0);
  });

  test("is made if the Backend allows it, with the prescribed model or none", async () => {
    const { backend, gateway } = await startRealtime("provider: { openai: { model: gpt-cheap } }, upgrades: Allow");
    expect((await rawHttp(gateway.url(), upgrade())).status).toBe(400);
    expect((await rawHttp(gateway.url(), upgrade("/v1/models/gpt-dear:x"))).status).toBe(400);
    expect(backend.requests).toHaveLength(0);
    const client = new WebSocket(`${gateway.url().replace("http", "ws")}/v1/realtime?model=gpt-cheap`);
    onTestFinished(() => client.terminate());
    await once(client, "open");
    expect(backend.requests[0]?.headers.authorization).toBe("Bearer sk-operator");
  });
});

describe("work whose tokens no response reports", () => {
  const paths = [
    "/v1/batches",
    "/v1/messages/batches",
    "/v1/Batches/",
    "/v1%2Fbatches",
    "/v1/batch%2565s",
    "/v1/batches;x=y",
    "/v1/batch/jobs",
    "/v1beta/models/gemini-x:batchGenerateContent",
    "/v1beta/models/gemini-x:asyncBatchEmbedContent",
    "/v1/realtime/client_secrets",
    "/v1/realtime/sessions",
    "/v1/chatkit/sessions",
    "/v1/evals/e/runs",
    "/v1/fine_tuning/jobs",
  ];
  const body = '{"requests":[{"params":{"model":"gpt-dear"}}]}';

  interface RequestFields {
    readonly method?: string;
    readonly content?: string;
    readonly headers?: readonly string[];
  }

  async function startDeferring(ai: string, isLimited = true) {
    const backend = await startBackend(respondWith(200, "{}"));
    const all = llmManifests(backend.port, ai);
    const gateway = await startGateway(isLimited ? all : all.replace(/---\n[^-]*kind: ProxyPolicy[^]*/, ""));
    /** The status; each request has its own connection. */
    const send = async (path: string, { method = "POST", content = body, headers = [] }: RequestFields = {}) => {
      const head = `${method} ${path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n`;
      const fields = [...headers, ...(content === "" ? [] : [`content-length: ${content.length}`])];
      const response = await rawHttp(
        gateway.url(),
        `${head}${fields.map((field) => `${field}\r\n`).join("")}\r\n${content}`,
      );
      return response.status;
    };
    return { send, backend };
  }

  // Otherwise, a spelling that no list has is rejected as an unknown endpoint.
  test.each(paths)("is rejected at %s, also if the Backend allows other endpoints", async (path) => {
    for (const ai of ["provider: { openai: {} }", "provider: { openai: {} }, otherEndpoints: Allow"]) {
      const { send, backend } = await startDeferring(ai);
      expect(await send(path)).toBe(400);
      expect(backend.requests).toHaveLength(0);
    }
  });

  test("is rejected if the Backend prescribes a model, without a limit too", async () => {
    const { send, backend } = await startDeferring("provider: { openai: { model: gpt-cheap } }", false);
    expect(await send("/v1/messages/batches")).toBe(400);
    expect(backend.requests).toHaveLength(0);
  });

  test.each([
    ["if the Backend allows it", "provider: { openai: {} }, deferredWork: Allow", true],
    ["if nothing is counted or prescribed", "provider: { openai: {} }", false],
  ])("passes %s", async (_where, ai, isLimited) => {
    const { send } = await startDeferring(ai, isLimited);
    expect(await send("/v1/batches")).toBe(200);
  });

  test("is rejected at every endpoint of the table", async () => {
    const { send, backend } = await startDeferring("provider: { openai: {} }");
    for (const path of deferringEndpoints.flatMap(({ examples }) => examples)) {
      expect([path, await send(path)]).toEqual([path, 400]);
    }
    expect(backend.requests).toHaveLength(0);
  });

  const responses = "/v1/responses";
  test.each<[string, string, string, string[]?]>([
    ["in the background", responses, '{"background":true,"input":"x"}'],
    ["with a value that a tolerant server reads as true", responses, '{"background":1}'],
    ["with a duplicate", responses, '{"background":false,"background":true,"background":false}'],
    ["in capitals", responses, '{"Background":true}'],
    ["with escapes in the name", responses, '{"backgr\\u006fund":true}'],
    ["in a member that another gateway merges into the body", responses, '{"extra_body":{"background":true}}'],
    ["with escapes in the path", "/v1/resp%256Fnses;x=y//", '{"background":true}'],
    ["of Azure", "/openai/v1/responses?api-version=1", '{"background":true}'],
    ["of Gemini", "/v1beta/interactions", '{"background":true}'],
    ["of xAI", chat, '{"deferred":true}'],
    ["in UTF-16", responses, Buffer.from('{"background":true}', "utf16le").toString("latin1")],
    ["in a form", responses, "background=true", ["content-type: application/x-www-form-urlencoded"]],
    ["by GET with a body", responses, '{"background":true}'],
    ["by the query", "/ai/run/@cf/x?queueRequest=true", "{}"],
    ["of an agent", "/v1/agents/x/invocations", '{"background":true}'],
    ["by an escaped query", "/ai/run/@cf/x?a=b&queue%52equest=true", "{}"],
    ["by Prefer", "/v1/messages", "{}", ["prefer: wait=1, Respond-Async"]],
    ["by a header of DashScope", "/api/v1/services/x", "{}", ["x-dashscope-async: enable"]],
  ])("is rejected %s", async (how, path, content, headers = []) => {
    const { send, backend } = await startDeferring("provider: { openai: {} }");
    const method = how.includes("GET") ? "GET" : "POST";
    expect(await send(path, { method, content, headers })).toBe(400);
    expect(backend.requests).toHaveLength(0);
  });

  test("is rejected in a compressed body of a response", async () => {
    const { send } = await startDeferring("provider: { openai: {} }");
    expect(await send(responses, { headers: ["content-encoding: gzip"] })).toBe(415);
  });

  test("is rejected at endpoints that are not known to respond synchronously", async () => {
    const { send, backend } = await startDeferring("provider: { openai: {} }");
    for (const path of ["/v1/anything", "/v1/xbatches", "/v1/messages/batches_", "/v1/load_lora_adapter"]) {
      expect([path, await send(path), await send(path, { content: "" })]).toEqual([path, 400, 400]);
    }
    expect(await send("/v1/agents/x/invocations", { content: '{"background":true}' })).toBe(400);
    expect(backend.requests).toHaveLength(0);
    expect(await send("/v1/anything", { method: "GET", content: "" })).toBe(200);
  });

  test.each([
    ["if the Backend allows other endpoints", "provider: { openai: { model: m } }, otherEndpoints: Allow", true],
    ["if nothing is counted or prescribed", "provider: { openai: {} }", false],
  ])("an unknown endpoint is served %s", async (_where, ai, isLimited) => {
    const { send } = await startDeferring(ai, isLimited);
    expect(await send("/v1/anything", { content: "{}" })).toBe(200);
  });

  test("does not include reads, deletions, cancellations and synchronous responses", async () => {
    const { send } = await startDeferring("provider: { openai: {} }");
    expect(await send("/v1/batches/batch_1", { method: "GET", content: "" })).toBe(200);
    expect(await send("/v1/videos/video_1", { method: "DELETE", content: "" })).toBe(200);
    expect(await send("/v1/batches/batch_1/cancel")).toBe(200);
    expect(await send("/v1/threads/t/runs/r/cancel")).toBe(200);
    expect(await send("/v1/responses/resp_1/cancel", { content: "" })).toBe(200);
    expect(await send("/v1beta/batches/b:cancel")).toBe(200);
    expect(await send("/v1beta/models/gemini-x:batchEmbedContents")).toBe(200);
    expect(await send("/v1beta/tunedModels/mine:generateContent")).toBe(200);
    expect(await send(responses, { content: '{"background":false,"background":null,"deferred":false}' })).toBe(200);
    expect(await send("/v1/images/generations", { content: '{"background":"transparent"}' })).toBe(200);
    expect(await send("/v1/messages", { content: '{"background":true}', headers: ["prefer: wait"] })).toBe(200);
  });

  test("says why a response in the background is rejected, and allows it if the Backend does", async () => {
    const { send } = await start();
    const { body: message } = await send(responses, '{"background":true}');
    expect(message).toContain('"background" and "deferred" must be false or left out');
    const allowing = await startDeferring("provider: { openai: {} }, deferredWork: Allow");
    expect(await allowing.send(responses, { content: '{"background":true}' })).toBe(200);
    expect(await allowing.send("/v1/threads/t/runs")).toBe(200);
  });
});

test("the response to an unreadable body says what is accepted", async () => {
  const { send } = await start("provider: { openai: { model: gpt-cheap } }");
  expect((await send("/v1/responses", "x")).body).toContain("request body must be a JSON object");
  expect((await send("/v1/responses?model=x", "{}")).body).toContain("prescribes another model");
});

test("a global limit by model uses the prescribed model, whatever the client names", async () => {
  const service = await startScriptedService(() => ({ overallCode: "OVER_LIMIT" }));
  const provider = await startLenientProvider();
  const policy = globalPolicy(
    `address: '127.0.0.1:${service.port}', descriptors: [{ entries: [{ name: model, expression: llm.requestModel }] }]`,
  );
  const gateway = await startGateway(
    manifests(llmManifests(provider.port, "provider: { openai: { model: gpt-cheap } }"), policy),
  );
  for (const body of ['{"model":"other"}', "{}"]) {
    const response = await fetch(`${gateway.url()}${chat}`, { method: "POST", body });
    expect(response.status).toBe(429);
  }
  const entries = service.calls.map(({ request }) => request.descriptors[0]?.entries);
  expect(entries).toEqual(entries.map(() => [{ key: "model", value: "gpt-cheap" }]));
  expect(provider.served).toHaveLength(0);
});
