/**
 * An `ai` Backend, end to end: the request to the provider, its key, that a stream reaches the client as it arrives,
 * and that the key appears nowhere else.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, test } from "vitest";
import { type Echo, startBackend } from "../support/backend.ts";
import { gatewayManifest, manifests, policyManifest, routeManifest, startGateway } from "../support/gateway.ts";
import { freePort } from "../support/free-port.ts";
import { startProxy } from "../support/proxy-process.ts";
import { rawHttp } from "../support/raw-http.ts";

function aiBackend(spec: string): string {
  return `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { host: 127.0.0.1, ${spec} } }
`;
}

function keySecret(apiKey: string): string {
  return `
apiVersion: v1
kind: Secret
metadata: { name: llm-key, namespace: default }
stringData: { apiKey: ${JSON.stringify(apiKey)} }
`;
}

const chatRoute = routeManifest("chat", ["backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: llm }]"]);

/** A gateway in front of a server that echoes the request. */
async function serve(ai: string, apiKey = "sk-ours") {
  const { port } = await startBackend();
  const configuration = (key: string): string =>
    manifests(gatewayManifest(), aiBackend(`port: ${port}, ${ai}`), keySecret(key), chatRoute);
  const gateway = await startGateway(configuration(apiKey));
  return {
    gateway,
    useKey: (key: string) => gateway.apply(configuration(key)),
    send: async (
      path: string,
      headers: Readonly<Record<string, string>> = {},
      body: string | Buffer = '{"model":"theirs"}',
    ): Promise<Echo> => {
      const response = await fetch(`${gateway.url()}${path}`, { method: "POST", headers, body });
      return (await response.json()) as Echo;
    },
  };
}

describe("a provider gets the request", () => {
  test("under the Backend's path, with the client's query", async () => {
    const { send } = await serve("provider: { openai: {} }, path: /proxy/openai/");
    expect((await send("/v1/chat/completions?x=1")).url).toBe("/proxy/openai/v1/chat/completions?x=1");
  });

  test("with the Backend's model, and every other byte unchanged", async () => {
    const { send } = await serve("provider: { openai: { model: ours } }");
    const { body, headers } = await send("/v1/chat/completions", {}, '{ "model" : "theirs", "n":1.0 }');
    expect(body).toBe('{ "model" : "ours", "n":1.0 }');
    expect(headers["content-length"]).toBe(String(body.length));
  });

  test.each([
    ["openai", "authorization", "Bearer sk-ours", "x-api-key"],
    ["anthropic", "x-api-key", "sk-ours", "authorization"],
  ])("%s: with the Secret's key as %s, and without the client's credentials", async (provider, field, value, other) => {
    const { send } = await serve(`provider: { ${provider}: {} }, auth: { secretRef: { name: llm-key } }`);
    const { headers } = await send("/v1/messages", { authorization: "Bearer theirs", "x-api-key": "theirs" });
    expect(headers[field]).toBe(value);
    expect(headers).not.toHaveProperty(other);
  });

  test.each(["auth: { passthrough: {} }", ""])("with the client's own credentials under { %s }", async (auth) => {
    const { send } = await serve(`provider: { openai: {} }${auth === "" ? "" : `, ${auth}`}`);
    const { headers } = await send("/v1/chat/completions", { authorization: "Bearer theirs" });
    expect(headers["authorization"]).toBe("Bearer theirs");
  });
});

describe("a client cannot evade a token limit or a prescribed model", () => {
  const stream = '"stream":true';
  const usageOption = '"stream_options":{"include_usage":true}';

  test.each([
    ["a byte order mark", `\ufeff{"model":"theirs",${stream}}`, `\ufeff{"model":"ours",${stream},${usageOption}}`],
    [
      "names in capitals",
      '{"Model":"theirs","STREAM":true}',
      `{"Model":"ours","STREAM":true,"model":"ours",${usageOption}}`,
    ],
    ["a number for true", '{"model":"theirs","stream":1}', `{"model":"ours","stream":1,${usageOption}}`],
    ["a text for true", '{"model":"theirs","stream":"yes"}', `{"model":"ours","stream":"yes",${usageOption}}`],
    ["false after true", `{${stream},"stream":false}`, `{${stream},"stream":false,"model":"ours",${usageOption}}`],
  ])("by %s, which some servers read", async (_how, body, expected) => {
    const { send } = await serve("provider: { openai: { model: ours } }");
    expect((await send("/v1/chat/completions", {}, body)).body).toBe(expected);
  });

  test.each([
    ["provider: { openai: {} }", "/v1/completions"],
    ["provider: { openai: {} }", "/v1/chat/completions/"],
    ["provider: { openai: {} }", "/v1/Chat/Completions"],
    ["provider: { openai: {} }, path: /v1/chat/completions", "/"],
  ])("of { %s } by an alias of completions: %s", async (ai, path) => {
    const { send } = await serve(ai);
    expect((await send(path, {}, `{${stream}}`)).body).toBe(`{${stream},${usageOption}}`);
  });

  test.each([
    ["in another encoding", Buffer.from(`{${stream}}`, "utf16le")],
    ["with text after the object", `{${stream}} x`],
    ["that is truncated", `{${stream}`],
    ["that is no object", "[]"],
  ])("by a body %s, which cannot be edited", async (_how, body) => {
    const { port, requests } = await startBackend();
    const gateway = await startGateway(
      manifests(gatewayManifest(), aiBackend(`port: ${port}, provider: { openai: {} }`), chatRoute),
    );
    const response = await fetch(`${gateway.url()}/v1/chat/completions`, { method: "POST", body });
    expect([response.status, await response.text()]).toEqual([400, "request body must be a JSON object"]);
    expect(requests).toHaveLength(0);
  });

  test("by the second of two content codings", async () => {
    const { gateway } = await serve("provider: { openai: {} }");
    const raw = `POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Encoding: identity\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`;
    expect((await rawHttp(gateway.url(), raw)).status).toBe(415);
  });
});

test("a new key is used from the next request on, while a stream with the old one continues", async () => {
  const seen: (string | undefined)[] = [];
  const { promise: usageOption, resolve: arrive } = Promise.withResolvers<ServerResponse>();
  const { port } = await startBackend((request, response) => {
    seen.push(request.headers.authorization);
    if (request.url === "/stream") arrive(response);
    else response.end("{}");
  });
  const configuration = (key: string): string =>
    manifests(
      gatewayManifest(),
      aiBackend(`port: ${port}, provider: { openai: {} }, auth: { secretRef: { name: llm-key } }`),
      keySecret(key),
      chatRoute,
    );
  const gateway = await startGateway(configuration("sk-old"));
  const streaming = fetch(`${gateway.url()}/stream`);
  const stream = await usageOption;
  stream.write("before ");
  const reply = await streaming;
  await gateway.apply(configuration("sk-new"));
  await (await fetch(gateway.url())).text();
  stream.end("after");
  expect(await reply.text()).toBe("before after");
  expect(seen).toEqual(["Bearer sk-old", "Bearer sk-new"]);
});

describe("a stream", () => {
  const events = ['data: {"a":1}\n\n', ': ping\n\ndata: {"b"', ":2}\n\n", "data: [DONE]\n\n"];

  /** Writes each piece only when the client has received all before it. */
  async function streamThrough(local: readonly string[]): Promise<string[]> {
    const { promise: usageOption, resolve: arrive } = Promise.withResolvers<[IncomingMessage, ServerResponse]>();
    const { port } = await startBackend((request, response) => arrive([request, response]));
    const gateway = await startGateway(
      manifests(
        gatewayManifest(),
        aiBackend(`port: ${port}, provider: { openai: {} }`),
        chatRoute,
        ...(local.length === 0 ? [] : [policyManifest("p", "kind: HTTPRoute, name: chat", local)]),
      ),
    );
    const reply = fetch(`${gateway.url()}/v1/chat/completions`, {
      method: "POST",
      body: '{"model":"m","stream":true,"stream_options":{"include_usage":true}}',
    });
    const [, response] = await usageOption;
    response.writeHead(200, { "content-type": "text/event-stream" });
    const received: string[] = [];
    const [first = "", ...rest] = events;
    response.write(first);
    const reader = (await reply).body?.getReader();
    const receive = async (): Promise<void> => {
      received.push(Buffer.from((await reader?.read())?.value ?? []).toString());
    };
    await receive();
    for (const piece of rest) {
      response.write(piece);
      await receive();
    }
    response.end();
    expect((await reader?.read())?.done).toBe(true);
    return received;
  }

  test.each([
    ["without limits", []],
    ["with a token limit that reads it", ["{ tokens: 1000, unit: Minutes }"]],
  ])("%s reaches the client piece by piece, each before the next is sent", async (_case, local) => {
    expect(await streamThrough(local)).toEqual(events);
  });

  test.each([
    ["without a content type and with lines that end with CR", {}, "\r"],
    // Go declares this content type if the program sets none.
    ["with the content type of a text", { "content-type": "text/plain; charset=utf-8" }, "\n"],
  ])("%s is counted, and its usage chunk has a choice", async (_case, label, end) => {
    const event = (text: string): string => `data: ${text}${end}${end}`;
    const hello = '{"choices":[{"delta":{"content":"hello"}}]}';
    const { port } = await startBackend((_request, response) => {
      response.writeHead(200, label);
      response.write(event(hello));
      response.end(event('{"choices":[],"usage":{"total_tokens":1000}}') + event("[DONE]"));
    });
    const limit = policyManifest("p", "kind: HTTPRoute, name: chat", ["{ tokens: 1000, unit: Minutes }"]);
    const backend = aiBackend(`port: ${port}, provider: { openai: {} }`);
    const gateway = await startGateway(manifests(gatewayManifest(), backend, chatRoute, limit));
    const send = () =>
      fetch(`${gateway.url()}/v1/chat/completions`, { method: "POST", body: '{"model":"m","stream":true}' });
    const usage = '{"choices":[{"index":0,"delta":{},"finish_reason":null}],"usage":{"total_tokens":1000}}';
    expect(await (await send()).text()).toBe(event(hello) + event(usage) + event("[DONE]"));
    expect((await send()).status).toBe(429);
  });

  test("may have its first byte after most of an hour", async () => {
    const { promise: usageOption, resolve: arrive } = Promise.withResolvers<ServerResponse>();
    const { port } = await startBackend((_request, response) => arrive(response));
    const gateway = await startGateway(
      manifests(gatewayManifest(), aiBackend(`port: ${port}, provider: { anthropic: {} }`), chatRoute),
    );
    const reply = fetch(`${gateway.url()}/v1/messages`, { method: "POST", body: "{}" });
    const response = await usageOption;
    expect(gateway.clock.pendingTimers).toBe(0);
    gateway.clock.advance(3_599_000);
    response.end("{}");
    expect((await reply).status).toBe(200);
  });
});

test("the key is in no log at trace level and in no metric, on success and on errors", async () => {
  const canaries = ["sk-canary-one-4f1d", "sk-canary-two-9a3c"] as const;
  const seen: (string | undefined)[] = [];
  const provider = await startBackend((request, response) => {
    seen.push(request.headers.authorization);
    if (request.url === "/broken") request.socket.destroy();
    else response.writeHead(request.url === "/unauthorized" ? 401 : 200).end("{}");
  });
  const port = await freePort();
  const proxy = await startProxy(
    {
      "base.yaml": manifests(
        gatewayManifest(port),
        aiBackend(`port: ${provider.port}, provider: { openai: {} }, auth: { secretRef: { name: llm-key } }`),
        chatRoute,
      ),
      "secret.yaml": keySecret(canaries[0]),
    },
    ["--workers", "1", "--log-level", "trace"],
  );
  const url = `http://127.0.0.1:${port}`;
  const post = (path: string): Promise<Response> => fetch(`${url}${path}`, { method: "POST", body: "{}" });
  for (const path of ["/v1/chat/completions", "/unauthorized", "/broken"]) await (await post(path)).text();
  await proxy.write("secret.yaml", keySecret(canaries[1]));
  await waitFor(
    async () => {
      await (await post("/v1/chat/completions")).text();
      expect(seen.at(-1)).toBe(`Bearer ${canaries[1]}`);
    },
    { timeout: 10_000, interval: 50 },
  );
  // A key that cannot be sent, and a manifest that cannot be read: both are reported, with the place and without the
  // text.
  await proxy.write("secret.yaml", keySecret(`${canaries[0]}\n${canaries[1]}`));
  await proxy.logged(({ reason }) => reason === "InvalidSecretRef");
  await proxy.write("secret.yaml", `${keySecret(canaries[0])}oops: { apiKey: ${canaries[1]}`);
  await proxy.logged((line) => JSON.stringify(line).includes("secret.yaml:"));
  const metrics = await (await fetch(`${proxy.stats}/metrics`)).text();
  proxy.kill("SIGTERM");
  await proxy.exited;
  expect(seen[0]).toBe(`Bearer ${canaries[0]}`);
  const output = JSON.stringify(proxy.log) + proxy.stderr() + metrics;
  expect(output).toContain("/v1/chat/completions");
  for (const canary of canaries) expect(output).not.toContain(canary);
});
