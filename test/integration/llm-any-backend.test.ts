/**
 * Token limits in front of every kind of backend: requests to a Service, a `static` Backend and an `ai` Backend alike
 * request the usage, are charged, and show clients the usage.
 */
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  serviceManifest,
  startGateway,
} from "../support/gateway.ts";
import { startRawServer } from "../support/raw-backend.ts";
import { rawHttp } from "../support/raw-http.ts";
import { startWebSocketBackend } from "../support/upgrades.ts";

const tokenLimit = 1_000_000;
const chat = "/v1/chat/completions";
const done = "data: [DONE]\n\n";
const usage = '"usage":{"prompt_tokens":7,"completion_tokens":300,"total_tokens":307}';

const kinds = {
  Service: {
    backend: (port: number) => serviceManifest("llm", [port]),
    ref: "{ name: llm, port: 80 }",
  },
  static: {
    backend: (port: number) => backendManifest("llm", port),
    ref: "{ group: gatewayproxy.dev, kind: Backend, name: llm }",
  },
  ai: {
    backend: (port: number, fields = "") => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: {} }, host: 127.0.0.1, port: ${port}${fields} } }
`,
    ref: "{ group: gatewayproxy.dev, kind: Backend, name: llm }",
  },
} as const;

type Kind = keyof typeof kinds;
const everyKind = Object.keys(kinds) as Kind[];

interface ServeOptions {
  /** Entries of the policy on the route. */
  readonly local?: readonly string[];
  /** Further fields of its `rateLimit`, on separate lines. */
  readonly policy?: string;
  /** Further fields of `spec.ai`. */
  readonly ai?: string;
}

const tokensPerHour = [`{ tokens: ${tokenLimit}, unit: Hours }`];

async function serve(kind: Kind, port: number, { local = tokensPerHour, policy = "", ai = "" }: ServeOptions = {}) {
  const route = routeManifest("chat", [`backendRefs: [${kinds[kind].ref}]`]);
  const limits = policyManifest("limits", "kind: HTTPRoute, name: chat", local) + policy;
  const gateway = await startGateway(manifests(gatewayManifest(), kinds[kind].backend(port, ai), route, limits));
  /** The charged tokens, by the headers of a response that costs nothing. */
  const charged = async (): Promise<number> => {
    const { headers } = await fetch(`${gateway.url()}/nothing`);
    return tokenLimit - Number(headers.get("x-ratelimit-remaining"));
  };
  const send = (body: string, path = chat, headers: Readonly<Record<string, string>> = {}): Promise<Response> =>
    fetch(`${gateway.url()}${path}`, { method: "POST", body, headers });
  return { gateway, charged, send };
}

function bodyOf(request: IncomingMessage): Promise<string> {
  return Array.fromAsync(request, (chunk: Buffer) => chunk.toString()).then((pieces) => pieces.join(""));
}

function chunk(choices: string, more = ""): string {
  return `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[${choices}]${more}}\n\n`;
}

const choice = (content: string, finish = "null"): string =>
  `{"index":0,"delta":{"role":"assistant","content":"${content}"},"finish_reason":${finish}}`;

/** A server that streams as OpenAI does, with its usage only if the request asks for it. */
async function startProvider() {
  const bodies: string[] = [];
  const { port } = await startBackend((request, response) => {
    if (request.method === "GET") {
      response.end();
      return;
    }
    void bodyOf(request).then((body) => {
      bodies.push(body);
      const requestsUsage = body.includes('"include_usage":true');
      const none = requestsUsage ? ',"usage":null' : "";
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(chunk(choice("Hello"), none));
      response.write(chunk(choice("", '"stop"'), none));
      response.end((requestsUsage ? chunk("", `,${usage}`) : "") + done);
    });
  });
  return { port, bodies };
}

const stream = '{ "model" : "m", "stream" : true, "messages":[] }';

describe.each(everyKind)("in front of a backend of kind %s", (kind) => {
  test("the proxy requests the usage of a stream and charges it, and the last chunk shows it", async () => {
    const { port, bodies } = await startProvider();
    const { send, charged, gateway } = await serve(kind, port);
    const response = await send(stream);
    expect(await response.text()).toBe(chunk(choice("Hello")) + chunk(choice("", '"stop"'), `,${usage}`) + done);
    expect(bodies).toEqual([stream.replace(" }", ' ,"stream_options":{"include_usage":true}}')]);
    expect(gateway.records[0]?.usage).toMatchObject({ total: 307, estimated: false });
    expect(await charged()).toBe(307);
  });

  test("OpenAI's own client gets it in the last chunk, and no chunk without choices", async () => {
    const { port } = await startProvider();
    const { gateway } = await serve(kind, port);
    const client = new OpenAI({ baseURL: `${gateway.url()}/v1`, apiKey: "none", maxRetries: 0 });
    const chunks = await Array.fromAsync(
      await client.chat.completions.create({ model: "m", messages: [], stream: true }),
    );
    expect(chunks.map(({ choices }) => choices.length)).toEqual([1, 1]);
    expect(chunks.at(-1)?.usage?.total_tokens).toBe(307);
    const completion = client.chat.completions.stream({ model: "m", messages: [] });
    expect((await completion.finalChatCompletion()).usage?.total_tokens).toBe(307);
    expect(await completion.finalContent()).toBe("Hello");
  });

  test("a client that requests the usage gets it as the API defines", async () => {
    const { port, bodies } = await startProvider();
    const { send, charged } = await serve(kind, port);
    const withUsage = stream.replace(" }", ',"stream_options":{"include_usage":true}}');
    const none = ',"usage":null';
    expect(await (await send(withUsage)).text()).toBe(
      chunk(choice("Hello"), none) + chunk(choice("", '"stop"'), none) + chunk("", `,${usage}`) + done,
    );
    expect(bodies).toEqual([withUsage]);
    expect(await charged()).toBe(307);
  });

  test.each([
    ["Pass", chunk(choice("Hello"), ',"usage":null') + chunk(choice("", '"stop"'), ',"usage":null'), `,${usage}`],
    ["Hide", chunk(choice("Hello")) + chunk(choice("", '"stop"')), undefined],
  ])("usageChunk: %s of the policy applies to other clients", async (usageChunk, events, last) => {
    const { port } = await startProvider();
    const { send, charged } = await serve(kind, port, { policy: `      usageChunk: ${usageChunk}\n` });
    expect(await (await send(stream)).text()).toBe(events + (last === undefined ? "" : chunk("", last)) + done);
    expect(await charged()).toBe(307);
  });

  test("a stream that ends without a usage is charged an estimate", async () => {
    const events = chunk(choice("x".repeat(400))) + chunk(choice("", '"stop"')) + done;
    const { port } = await startBackend((request: IncomingMessage, response: ServerResponse) => {
      if (request.method === "GET") response.end();
      else response.writeHead(200, { "content-type": "text/event-stream" }).end(events);
    });
    const { send, charged, gateway } = await serve(kind, port);
    expect(await (await send(stream)).text()).toBe(events);
    expect(gateway.records[0]?.usage).toMatchObject({ input: Math.ceil(stream.length / 4), estimated: true });
    expect(gateway.records[0]?.usage?.output).toBeGreaterThanOrEqual(100);
    expect(await charged()).toBe(gateway.records[0]?.usage?.total);
  });

  test.each(["/invocations", "/serving-endpoints/m/invocations"])(
    "the proxy requests the usage of a stream at %s",
    async (path) => {
      const { port, bodies } = await startProvider();
      const { send, charged } = await serve(kind, port);
      await (await send(stream, path)).text();
      expect(bodies).toEqual([stream.replace(" }", ' ,"stream_options":{"include_usage":true}}')]);
      expect(await charged()).toBe(307);
    },
  );

  test.each([
    ["a completion that is no object", chat, "[]", 400],
    ["a completion in a content coding", chat, stream, 415],
    ["a response in the background", "/v1/responses", '{"model":"m","background":true}', 400],
    ["a batch", "/v1/batches", "{}", 400],
    ["a batch in another spelling", "/V1/%2562atches;a=b/", "{}", 400],
  ])("%s is rejected, since no response would report its tokens", async (_name, path, body, status) => {
    const { port, requests } = await startBackend();
    const { send } = await serve(kind, port);
    const coding: Record<string, string> = status === 415 ? { "content-encoding": "gzip" } : {};
    expect((await send(body, path, coding)).status).toBe(status);
    expect(requests).toHaveLength(0);
  });

  test.each(["/v1/realtime", "/v1/responses"])("a WebSocket at %s is rejected", async (path) => {
    const { port } = await startWebSocketBackend();
    const { gateway } = await serve(kind, port);
    const socket = new WebSocket(`${gateway.url().replace("http", "ws")}${path}`);
    const [error] = (await once(socket, "error")) as [Error];
    expect(error.message).toContain("403");
  });
});

describe.each(["Service", "static"] as const)("requests without a model pass to a backend of kind %s", (kind) => {
  test.each([
    ["a form", "/login", "user=a&password=b"],
    ["a session of an application", "/sessions", "{}"],
    ["a job of an application", "/jobs", "not JSON"],
    ["JSON with a comment", "/config", "{/**/}"],
    ["lines of JSON", "/events", '{"stream":true}\n{"stream":true}\n'],
    ["a stream of something else", "/watch", '{"stream":true,"input":1}'],
    ["an empty body", "/touch", ""],
  ])("%s", async (_name, path, body) => {
    const { port } = await startBackend();
    const { send } = await serve(kind, port);
    const response = await send(body, path, { prefer: "respond-async" });
    expect([response.status, ((await response.json()) as { body: string }).body]).toEqual([200, body]);
  });

  test("a WebSocket of an application", async () => {
    const { port } = await startWebSocketBackend();
    const { gateway } = await serve(kind, port);
    const socket = new WebSocket(`${gateway.url().replace("http", "ws")}/chat`);
    await once(socket, "open");
    socket.close();
    await once(socket, "close");
  });

  test("every completion, unchanged, if no limit counts tokens", async () => {
    const { port } = await startBackend();
    const { send } = await serve(kind, port, { local: ["{ requests: 10, unit: Hours }"] });
    for (const body of [stream, "[]"]) {
      expect(((await (await send(body)).json()) as { body: string }).body).toBe(body);
    }
  });

  test("a completion without a stream, byte for byte, with its content type and the coding of the response", async () => {
    const { port } = await startBackend();
    const { send } = await serve(kind, port);
    const body = '{"model" : "m" ,"messages":[]}\n';
    const headers = { "content-type": "text/plain", "accept-encoding": "br" };
    expect(await (await send(body, chat, headers)).json()).toMatchObject({ body, headers });
  });
});

test("the Backend's usageChunk applies if no policy has one", async () => {
  const { port } = await startProvider();
  const events = chunk(choice("Hello")) + chunk(choice("", '"stop"'));
  const hiding = await serve("ai", port, { ai: ", usageChunk: Hide" });
  expect(await (await hiding.send(stream)).text()).toBe(events + done);
  const merging = await serve("ai", port, { ai: ", usageChunk: Hide", policy: "      usageChunk: Merge\n" });
  expect(await (await merging.send(stream)).text()).toContain(`"finish_reason":"stop"}],${usage}}\n\n${done}`);
});

/** Starts a stream whose chunks the test sends one by one. */
async function streamByHand() {
  const { promise: arrived, resolve } = Promise.withResolvers<ServerResponse>();
  const { port } = await startBackend((_request, response) => resolve(response));
  const { send, gateway } = await serve("Service", port);
  const fetched = send(stream);
  const response = await arrived;
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(chunk(choice("a"), ',"usage":null'));
  const reader = (await fetched).body?.getReader();
  const receive = async (): Promise<string> => Buffer.from((await reader?.read())?.value ?? []).toString();
  expect(await receive()).toBe(chunk(choice("a")));
  return { response, receive, gateway };
}

describe("a chunk", () => {
  test("reaches the client before the next is sent; the last waits for its usage", async () => {
    const { response, receive } = await streamByHand();
    for (const content of ["b", "c"]) {
      response.write(chunk(choice(content), ',"usage":null'));
      expect(await receive()).toBe(chunk(choice(content)));
    }
    response.write(chunk(choice("", '"stop"'), ',"usage":null'));
    response.write(chunk("", `,${usage}`));
    expect(await receive()).toBe(chunk(choice("", '"stop"'), `,${usage}`));
    response.end();
    expect(await receive()).toBe("");
  });

  test("with a finish reason is held back for a second at most", async () => {
    const { response, receive, gateway } = await streamByHand();
    const timers = gateway.clock.pendingTimers;
    response.write(chunk(choice("", '"stop"')));
    await expect.poll(() => gateway.clock.pendingTimers).toBe(timers + 1);
    gateway.clock.advance(1_000);
    expect(await receive()).toBe(chunk(choice("", '"stop"')));
    response.end(chunk("", `,${usage}`));
    expect(await receive()).toBe(chunk('{"index":0,"delta":{},"finish_reason":null}', `,${usage}`));
    expect(await receive()).toBe("");
  });

  test("that is held back reaches the client when the stream is reset", async () => {
    const last = chunk(choice("", '"stop"'));
    const text = `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n`;
    const { promise: ended, resolve: resetStream } = Promise.withResolvers<undefined>();
    const port = await startRawServer((socket) => {
      socket.on("data", () => socket.write(`${text}${last.length.toString(16)}\r\n${last}\r\n`));
      void ended.then(() => socket.resetAndDestroy());
    });
    const { gateway } = await serve("Service", port);
    const timers = gateway.clock.pendingTimers;
    const head = `POST ${chat} HTTP/1.1\r\nhost: a\r\ncontent-length: ${stream.length}\r\n\r\n`;
    const response = rawHttp(gateway.url(), head + stream);
    await expect.poll(() => gateway.clock.pendingTimers).toBe(timers + 1);
    resetStream(undefined);
    expect((await response).body).toBe(`${last.length.toString(16)}\r\n${last}\r\n`);
  });
});

test("a body that is not JSON passes if the path is not of a model, however long it is", async () => {
  const { port } = await startBackend(respondWith(200, "ok"));
  const { gateway } = await serve("Service", port);
  const head = `POST /upload HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n`;
  const piece = `10000\r\n${"x".repeat(65_536)}\r\n`;
  expect((await rawHttp(gateway.url(), `${head}${piece.repeat(20)}0\r\n\r\n`)).status).toBe(200);
});
