/** Trailers of requests, end to end: from each protocol to each, after retries, and those that no backend gets. */
import { createServer as createHttp1 } from "node:http";
import {
  connect as connectHttp2,
  createServer as createHttp2,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo, Server } from "node:net";
import { connect } from "node:net";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, onTestFinished, test } from "vitest";
import { gatewayManifest, manifests, routeManifest, serviceManifest, startGateway } from "../support/gateway.ts";
import { startRawServer } from "../support/raw-backend.ts";

/** A request as a backend has received it. */
interface Received {
  readonly body: string;
  readonly trailers: IncomingHttpHeaders;
}

const protocols = ["HTTP/1.1", "HTTP/2"] as const;
type Protocol = (typeof protocols)[number];

/** A server of Node that responds with 200. The first `failures` requests get 503. */
async function startBackend(protocol: Protocol, failures = 0) {
  const requests: Received[] = [];
  const respond = (received: Received): number => {
    requests.push(received);
    return requests.length <= failures ? 503 : 200;
  };
  const server = protocol === "HTTP/1.1" ? http1Server(respond) : http2Server(respond);
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => void server.close());
  // A listening TCP server has such an address.
  return { port: (server.address() as AddressInfo).port, requests };
}

/** @param respond returns the status. */
function http1Server(respond: (received: Received) => number): Server {
  return createHttp1((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => response.writeHead(respond({ body, trailers: request.trailers })).end());
  });
}

/** As `http1Server`. */
function http2Server(respond: (received: Received) => number): Server {
  const server = createHttp2();
  server.on("stream", (stream: ServerHttp2Stream) => {
    let body = "";
    let trailers: IncomingHttpHeaders = {};
    stream.on("trailers", (fields: IncomingHttpHeaders) => (trailers = Object.fromEntries(Object.entries(fields))));
    stream.on("data", (chunk: Buffer) => (body += chunk.toString()));
    stream.on("end", () => stream.respond({ ":status": respond({ body, trailers }) }, { endStream: true }));
  });
  return server;
}

function serve(port: number, protocol: Protocol, rule = "") {
  const route = routeManifest("r", [`{ ${rule} backendRefs: [{ name: svc, port: 80 }] }`]);
  const appProtocol = protocol === "HTTP/2" ? "appProtocol: kubernetes.io/h2c" : "";
  return startGateway(manifests(gatewayManifest(), serviceManifest("svc", [port], appProtocol), route));
}

/** Sends a POST. @returns the status, 0 if there is no response. */
type Send = (
  url: string,
  body: string,
  trailers: Record<string, string>,
  head?: Record<string, string>,
) => Promise<number>;

const sendHttp1: Send = (url, body, trailers, head = {}) => {
  const fields = Object.entries({ trailer: Object.keys(trailers).join(", "), ...head });
  const lines = (pairs: readonly (readonly [string, string])[]) =>
    pairs.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const chunk = body === "" ? "" : `${body.length.toString(16)}\r\n${body}\r\n`;
  return sendText(
    url,
    `POST / HTTP/1.1\r\nHost: a\r\n${lines(fields)}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n` +
      `${chunk}0\r\n${lines(Object.entries(trailers))}\r\n`,
  );
};

async function sendText(url: string, request: string): Promise<number> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname, () => socket.write(request, "latin1"));
  socket.on("error", () => undefined);
  let text = "";
  socket.on("data", (chunk: Buffer) => (text += chunk.toString()));
  await new Promise((closed) => socket.once("close", closed));
  return Number(text.slice(9, 12));
}

const sendHttp2: Send = async (url, body, trailers, head = {}) => {
  const session = connectHttp2(url);
  session.on("error", () => undefined);
  onTestFinished(() => session.destroy());
  const stream = session.request({ ":method": "POST", ":path": "/", ...head }, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers(trailers)).on("error", () => undefined);
  let status = 0;
  stream.on("response", (fields) => (status = fields[":status"] ?? 0)).resume();
  stream.end(body);
  await new Promise((closed) => stream.once("close", closed));
  return status;
};

const senders: Readonly<Record<Protocol, Send>> = { "HTTP/1.1": sendHttp1, "HTTP/2": sendHttp2 };
const pairs = protocols.flatMap((from) => protocols.map((to) => [from, to] as const));

describe.each(pairs)("from %s to %s", (from, to) => {
  test.each(["hello", ""])("trailers after %j arrive, those of other meanings do not", async (body) => {
    const backend = await startBackend(to);
    const gateway = await serve(backend.port, to);
    const trailers = {
      "x-sum": "abc",
      authorization: "Bearer forged",
      "x-forwarded-for": "10.0.0.1",
      "x-b": "from a trailer",
    };
    const head = { trailer: Object.keys(trailers).join(", "), "x-b": "from the head" };
    expect(await senders[from](gateway.url(), body, trailers, head)).toBe(200);
    expect(backend.requests).toEqual([{ body, trailers: { "x-sum": "abc" } }]);
  });

  test("trailers arrive with each attempt", async () => {
    const backend = await startBackend(to, 1);
    const gateway = await serve(backend.port, to, "retry: { codes: [503], attempts: 1 },");
    const status = senders[from](gateway.url(), "hello", { "x-sum": "abc" }, { trailer: "x-sum" });
    let isOver = false;
    void status.then(() => (isOver = true));
    await waitFor(() => {
      gateway.clock.advance(100);
      expect(isOver).toBe(true);
    });
    expect(await status).toBe(200);
    const received = { body: "hello", trailers: { "x-sum": "abc" } };
    expect(backend.requests).toEqual([received, received]);
  });

  test("a trailer that the rule removes as a header does not arrive", async () => {
    const backend = await startBackend(to);
    const filters = "filters: [{ type: RequestHeaderModifier, requestHeaderModifier: { remove: [x-internal] } }],";
    const gateway = await serve(backend.port, to, filters);
    const trailers = { "x-internal": "yes", "x-sum": "abc" };
    expect(await senders[from](gateway.url(), "hello", trailers, { trailer: "x-internal, x-sum" })).toBe(200);
    expect(backend.requests).toEqual([{ body: "hello", trailers: { "x-sum": "abc" } }]);
  });
});

describe("over HTTP/1", () => {
  test("trailers that are not announced do not arrive", async () => {
    const backend = await startBackend("HTTP/1.1");
    const gateway = await serve(backend.port, "HTTP/1.1");
    expect(await sendHttp2(gateway.url(), "hello", { "x-sum": "abc" })).toBe(200);
    expect(backend.requests).toEqual([{ body: "hello", trailers: {} }]);
  });

  test("a body with a length has no trailers, and announces none", async () => {
    let text = "";
    const port = await startRawServer((socket) => {
      socket.on("data", (chunk) => {
        text += chunk.toString("latin1");
        if (text.endsWith("hello")) socket.write("HTTP/1.1 204 No Content\r\n\r\n");
      });
    });
    const gateway = await serve(port, "HTTP/1.1");
    const head = { "content-length": "5", trailer: "x-sum" };
    expect(await sendHttp2(gateway.url(), "hello", { "x-sum": "abc" }, head)).toBe(204);
    expect(text).toMatch(/\r\n\r\nhello$/);
    expect(text).not.toMatch(/^trailer:/im);
  });

  test("the bytes of a request with trailers are one message, after which the connection is used again", async () => {
    const texts: string[] = [];
    const port = await startRawServer((socket) => {
      let text = "";
      socket.on("data", (chunk) => {
        text += chunk.toString("latin1");
        if (!text.endsWith("\r\n\r\n") || /0\r\n$/.test(text)) return;
        texts.push(text);
        text = "";
        socket.write("HTTP/1.1 204 No Content\r\n\r\n");
      });
    });
    const gateway = await serve(port, "HTTP/1.1");
    // A value with the bytes of another request is still one line.
    const value = "1 GET /admin HTTP/1.1 Host: a";
    expect(await sendHttp2(gateway.url(), "", { "x-sum": value }, { trailer: "x-sum" })).toBe(204);
    expect(texts).toHaveLength(1);
    expect(texts[0]?.split("\r\n\r\n")[1]).toBe(`0\r\nx-sum: ${value}`);
  });
});

describe("malformed trailers", () => {
  const chunked = "POST / HTTP/1.1\r\nHost: a\r\nTrailer: x-a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n";
  const smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

  test.each([
    ["a second framing", "Transfer-Encoding: chunked\r\n\r\n", 400],
    ["a length", `Content-Length: ${smuggled.length}\r\n\r\n`, 400],
    ["another host", "Host: b\r\n\r\n", 400],
    ["white space before the colon", "x-a : 1\r\n\r\n", 400],
    ["a folded line", "x-a: 1\r\n 2\r\n\r\n", 400],
    ["a line without a name", ": 1\r\n\r\n", 400],
    ["a bare LF", `x-a: 1\n\n\r\n\r\n`, 400],
    ["a bare CR", "x-a: 1\r2\r\n\r\n", 400],
    ["NUL", "x-a: \0\r\n\r\n", 400],
    ["more than 200 fields", `${"x-a: 1\r\n".repeat(201)}\r\n`, 431],
    ["more than 64 KiB", `x-a: ${"1".repeat(70_000)}\r\n\r\n`, 431],
  ])("of HTTP/1.1 with %s end the request, and what follows is no request", async (_, trailers, status) => {
    const backend = await startBackend("HTTP/1.1");
    const gateway = await serve(backend.port, "HTTP/1.1");
    expect(await sendText(gateway.url(), chunked + trailers + smuggled)).toBe(status);
    expect(backend.requests).toEqual([]);
    expect(gateway.internalErrors).toEqual([]);
  });
});
