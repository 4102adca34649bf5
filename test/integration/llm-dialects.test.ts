/**
 * Every dialect of LLM APIs that the gateway lists, with requests and responses that could prevent the count of its
 * tokens. Each is rejected before the provider gets it, or counted in full if the response reports its usage, and never
 * free.
 */
import type { ServerResponse } from "node:http";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { once } from "node:events";
import { startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
} from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";

const limit = 1_000_000;
/** Of input and output, as each response reports. */
const cost = 100;

interface Dialect {
  readonly path: string;
  readonly body: string;
  /** The response, with its usage. */
  readonly usage: object;
  /** The API reports no usage, or a part of it. Default false. */
  readonly isEstimated?: boolean;
}

const openAi = { usage: { prompt_tokens: 60, completion_tokens: 40, total_tokens: cost } };
const anthropic = { type: "message", usage: { input_tokens: 60, output_tokens: 40 } };
/** It reports no input. */
const tgi = { generated_text: "x".repeat(400) };
const sgLang = { text: "x", meta_info: { id: "a", prompt_tokens: 60, completion_tokens: 40 } };
const ollama = { done: true, prompt_eval_count: 60, eval_count: 40 };
const gemini = { usageMetadata: { promptTokenCount: 60, candidatesTokenCount: 40, totalTokenCount: cost } };

const dialects: readonly (Dialect & { readonly name: string })[] = [
  { name: "OpenAI chat", path: "/v1/chat/completions", body: '{"model":"m","messages":[]}', usage: openAi },
  { name: "OpenAI completions", path: "/v1/completions", body: '{"model":"m","prompt":"x"}', usage: openAi },
  {
    name: "OpenAI responses",
    path: "/v1/responses",
    body: '{"model":"m","input":"x"}',
    usage: { usage: { input_tokens: 60, output_tokens: 40, total_tokens: cost } },
  },
  {
    name: "OpenAI embeddings",
    path: "/v1/embeddings",
    body: '{"model":"m","input":"x"}',
    usage: { usage: { prompt_tokens: cost, total_tokens: cost } },
  },
  {
    name: "OpenAI images",
    path: "/v1/images/generations",
    body: '{"model":"m","prompt":"x"}',
    usage: { usage: { input_tokens: 60, output_tokens: 40, total_tokens: cost } },
  },
  {
    name: "OpenAI audio",
    path: "/v1/audio/transcriptions",
    body: '{"model":"m"}',
    usage: { text: "x", usage: { input_tokens: 60, output_tokens: 40, total_tokens: cost } },
  },
  {
    name: "Anthropic messages",
    path: "/v1/messages",
    body: '{"model":"m","max_tokens":9,"messages":[]}',
    usage: anthropic,
  },
  { name: "TGI", path: "/generate", body: '{"inputs":"x"}', usage: tgi, isEstimated: true },
  { name: "SGLang", path: "/generate", body: '{"text":"x"}', usage: sgLang },
  { name: "Ollama chat", path: "/api/chat", body: '{"model":"m","messages":[]}', usage: ollama },
  { name: "Ollama generate", path: "/api/generate", body: '{"model":"m","prompt":"x"}', usage: ollama },
  {
    name: "Gemini",
    path: "/v1beta/models/m:generateContent",
    body: '{"contents":[]}',
    usage: gemini,
  },
];

type Kind = "ai" | "static";

async function start(kind: Kind, respond: (response: ServerResponse) => void) {
  const { port, requests } = await startBackend((request, response) => {
    if (request.url === "/nothing") response.writeHead(404).end();
    else respond(response);
  });
  const backend =
    kind === "static"
      ? backendManifest("b", port)
      : `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: b, namespace: default }
spec: { ai: { host: 127.0.0.1, port: ${port}, provider: { openai: {} } } }
`;
  const route = routeManifest("r", [`backendRefs: [${backendRef("b")}]`]);
  const policy = policyManifest("limits", "kind: HTTPRoute, name: r", [`{ tokens: ${limit}, unit: Hours }`]);
  const gateway = await startGateway(manifests(gatewayManifest(), backend, route, policy));
  const charged = async (): Promise<number> => {
    const { headers } = await fetch(`${gateway.url()}/nothing`);
    return limit - Number(headers.get("x-ratelimit-remaining"));
  };
  const send = (path: string, body: Buffer | string, fields: readonly string[] = [], method = "POST") => {
    const bytes = Buffer.from(body);
    const lines = ["host: a", "content-type: application/json", `content-length: ${bytes.length}`, "connection: close"];
    const head = [`${method} ${path} HTTP/1.1`, ...lines, ...fields].join("\r\n");
    return rawHttp(gateway.url(), `${head}\r\n\r\n${bytes.toString("latin1")}`);
  };
  /** The requests that the provider received, without those of `charged`. */
  const served = (): number => requests.filter(({ url }) => url !== "/nothing").length;
  return { gateway, charged, send, served };
}

const json = (usage: object) => (response: ServerResponse) => {
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(usage));
};

describe.each<Kind>(["ai", "static"])("at a backend of kind %s under a token limit", (kind) => {
  describe.each(dialects)("$name", ({ path, body, usage, isEstimated }) => {
    const expectCharge = (tokens: number): void => {
      if (isEstimated === true) expect(tokens).toBeGreaterThan(cost);
      else expect(tokens).toBe(cost);
    };

    test("a compressed body is rejected, and the response says what is accepted", async () => {
      const { send, served } = await start(kind, json(usage));
      for (const coding of ["gzip", "GZip", "br", "zstd", "identity, gzip", "x-unknown"]) {
        const bytes = coding === "br" ? brotliCompressSync(body) : gzipSync(body);
        const { status, head } = await send(path, bytes, [`content-encoding: ${coding}`]);
        expect(status).toBe(415);
        expect(head).toMatch(/^accept-encoding: identity\r?$/im);
      }
      expect(served()).toBe(0);
    });

    test("its response is charged the reported usage", async () => {
      const { send, charged } = await start(kind, json(usage));
      expect((await send(path, body)).status).toBe(200);
      expectCharge(await charged());
    });

    test.each<[string, (response: ServerResponse) => void]>([
      [
        "interim responses precede it",
        (response) => {
          response.writeProcessing();
          response.writeEarlyHints({ link: "</a>; rel=preload" });
          json(usage)(response);
        },
      ],
      [
        "it has trailers",
        (response) => {
          response.writeHead(200, { "content-type": "application/json", trailer: "x-a" });
          response.write(JSON.stringify(usage));
          response.addTrailers({ "x-a": "1" });
          response.end();
        },
      ],
      [
        "it has no content type",
        (response) => {
          response.removeHeader("content-type");
          response.writeHead(200).end(JSON.stringify(usage));
        },
      ],
    ])("is charged if %s", async (_name, respond) => {
      const { send, charged } = await start(kind, respond);
      expect((await send(path, body)).status).toBe(200);
      expectCharge(await charged());
    });

    test.each([
      ["stream as a number", (text: string) => text.replace("{", '{"stream":1,')],
      ["stream as a string", (text: string) => text.replace("{", '{"stream":"true",')],
      ["stream twice", (text: string) => text.replace("{", '{"stream":false,"stream":true,')],
      ["stream in capitals", (text: string) => text.replace("{", '{"STREAM":true,')],
      ["stream as an object", (text: string) => text.replace("{", '{"stream":{},')],
      ["its model twice", (text: string) => text.replace("{", '{"model":"m","model":"other",')],
    ])("a request with %s is rejected, or charged", async (_name, edit) => {
      const { send, charged, served } = await start(kind, json(usage));
      const { status } = await send(path, edit(body));
      if (served() > 0) expectCharge(await charged());
      else expect([400, 415]).toContain(status);
    });

    test("a request with a body and another method than POST is never free", async () => {
      const { send, charged, served } = await start(kind, json(usage));
      for (const method of ["HEAD", "GET", "PUT", "PATCH", "DELETE", "QUERY"]) {
        const [servedBefore, chargedBefore] = [served(), await charged()];
        const { status } = await send(path, body, [], method);
        if (served() > servedBefore) expect((await charged()) - chargedBefore).toBeGreaterThan(0);
        else expect(status).toBeGreaterThanOrEqual(400);
      }
    });

    test("a response without a usage is estimated", async () => {
      const { send, charged } = await start(kind, json({ text: "x".repeat(400) }));
      expect((await send(path, body)).status).toBe(200);
      expect(await charged()).toBeGreaterThan(50);
    });
  });
});

test.each(dialects)("a WebSocket at $path of an ai Backend is rejected under a token limit", async ({ path }) => {
  const { gateway, served } = await start("ai", json({}));
  const socket = new WebSocket(`${gateway.url().replace("http", "ws")}${path}`);
  const [error] = (await once(socket, "error")) as [Error];
  expect(error.message).toContain("403");
  expect(served()).toBe(0);
});

test("SGLang's events of one id with rising totals are charged once", async () => {
  const event = (tokens: number): string =>
    `data: ${JSON.stringify({ text: "x", meta_info: { id: "a", prompt_tokens: 60, completion_tokens: tokens } })}\n\n`;
  const { send, charged } = await start("ai", (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const tokens of [1, 20, 40]) response.write(event(tokens));
    response.end("data: [DONE]\n\n");
  });
  expect((await send("/generate", '{"text":"x","stream":true}')).status).toBe(200);
  expect(await charged()).toBe(cost);
});
