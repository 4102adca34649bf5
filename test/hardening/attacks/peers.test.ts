/**
 * Hostile backends, LLM providers and rate limit services: the client gets a response, memory stays bounded, and the
 * next request is served.
 */
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { createUsageReader } from "../../../proxy/src/llm/usage-reader.ts";
import type { UsageOutcome } from "../../../proxy/src/ir/usage.ts";
import { respondWith, startBackend } from "../../support/backend.ts";
import {
  gatewayManifest,
  manifests,
  routeManifest,
  serviceManifest,
  startGateway,
  type TestGateway,
} from "../../support/gateway.ts";
import { byAddress, globalPolicy, serveUnder } from "../../support/global-policy.ts";
import { respondGrpc, startRawService } from "../../support/rate-limit-service.ts";
import { startRawBackend, startRawServer } from "../../support/raw-backend.ts";
import { rawHttp } from "../../support/raw-http.ts";
import { endHeaders, frame, frameType, startRawHttp2Backend } from "../../support/raw-http2.ts";

const requestText = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
const maxGrowthBytes = 64 * 1024 * 1024;

/** A server that sends `beginning` and then `piece` as long as the peer reads; reports the number of bytes sent. */
async function endless(
  beginning: string,
  piece: string,
): Promise<{ readonly port: number; readonly sent: () => number }> {
  const many = piece.repeat(Math.ceil(65_536 / piece.length));
  let sent = 0;
  const port = await startRawServer((socket) => {
    const more = (): void => {
      while (!socket.destroyed) {
        sent += many.length;
        if (!socket.write(many)) return;
      }
    };
    socket.once("data", () => {
      socket.write(beginning);
      socket.on("drain", more);
      more();
    });
  });
  return { port, sent: () => sent };
}

function gatewayTo(port: number, protocol = ""): Promise<TestGateway> {
  const route = routeManifest("r", ["{ timeouts: { request: 1s }, backendRefs: [{ name: b, port: 80 }] }"]);
  const appProtocol = protocol === "" ? "" : `appProtocol: kubernetes.io/${protocol}`;
  return startGateway(manifests(gatewayManifest(), serviceManifest("b", [port], appProtocol), route));
}

describe("a backend that endlessly sends", () => {
  test.each([
    ["its head", "HTTP/1.1 200 OK\r\n", "x-a: b\r\n"],
    ["a field", "HTTP/1.1 200 OK\r\nx-a: ", "b".repeat(1_000)],
    ["the reason of its status", "HTTP/1.1 200 ", "b".repeat(1_000)],
    ["interim responses", "", "HTTP/1.1 103 Early Hints\r\nx-a: b\r\n\r\n"],
    ["the reason of an interim response", "HTTP/1.1 103 ", "b".repeat(1_000)],
  ])("%s gets 502", async (_, beginning, piece) => {
    const { port, sent } = await endless(beginning, piece);
    const gateway = await gatewayTo(port);
    expect((await rawHttp(gateway.url(), requestText)).status).toBe(502);
    // Most of it is in the buffers of both sockets.
    expect(sent()).toBeLessThan(maxGrowthBytes);
    expect(gateway.internalErrors).toEqual([]);
  });

  test("many interim responses is reset, and one that sends a few is not", async () => {
    const interimResponses = (count: number): string =>
      `${"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(count)}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n`;
    const gateway = await gatewayTo(await startRawBackend((path) => interimResponses(path === "/many" ? 17 : 16)));
    expect((await rawHttp(gateway.url(), requestText)).status).toBe(200);
    expect((await rawHttp(gateway.url(), requestText.replace("/", "/many"))).status).toBe(502);
    expect((await rawHttp(gateway.url(), requestText)).status).toBe(200);
  });

  test("interim HTTP/2 responses gets 502", async () => {
    const port = await startRawHttp2Backend((frames, socket) => {
      const request = frames.find(({ type }) => type === frameType.headers);
      if (request === undefined) return;
      // :status 103, as a literal without indexing.
      const interim = frame(frameType.headers, endHeaders, request.stream, Buffer.from("\x08\x03103", "latin1"));
      for (let times = 0; times < 1_000; times++) socket.write(interim);
    });
    const gateway = await gatewayTo(port, "h2c");
    expect((await rawHttp(gateway.url(), requestText)).status).toBe(502);
    expect(gateway.internalErrors).toEqual([]);
  });
});

/** A field of protobuf that holds bytes. */
function field(number: number, content: Buffer): Buffer {
  const length: number[] = [];
  for (let rest = content.length; ; rest >>= 7) {
    length.push(rest > 127 ? (rest & 127) | 128 : rest);
    if (rest <= 127) break;
  }
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...length]), content]);
}

/** The head of a gRPC message. */
function prefix(isCompressed: boolean, length: number): Buffer {
  const bytes = Buffer.from([isCompressed ? 1 : 0, 0, 0, 0, 0]);
  bytes.writeUInt32BE(length, 1);
  return bytes;
}

describe("a rate limit service whose response is", () => {
  /** The response to a client, by a policy that denies if the service fails. */
  async function clientSees(
    port: number,
    { timesOut = true } = {},
  ): Promise<{ readonly status: number; readonly headerBytes: number }> {
    const policy = globalPolicy(`address: '127.0.0.1:${port}', failureMode: Closed, ${byAddress}`);
    const gateway = await serveUnder(await startBackend(respondWith(200, "ok")), policy);
    // Reaches the timeout of the call.
    const timer = timesOut ? setInterval(() => gateway.clock.advance(100), 20) : undefined;
    const { status, head } = await rawHttp(gateway.url(), requestText).finally(() => clearInterval(timer));
    expect(gateway.internalErrors).toEqual([]);
    return { status, headerBytes: head.length };
  }

  const overallOk = Buffer.from([8, 1]);

  async function withBody(body: Buffer, encoding = "identity"): Promise<number> {
    const { port } = await startRawService((stream) => {
      const head = { ":status": 200, "content-type": "application/grpc", "grpc-encoding": encoding };
      stream.respond(head, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      stream.end(body);
    });
    return port;
  }

  const bomb = gzipSync(Buffer.alloc(2 ** 26));
  test.each<[string, Buffer, string]>([
    ["a message of 4 GiB", Buffer.concat([prefix(false, 0xffffffff), Buffer.alloc(2 ** 23)]), "identity"],
    ["a message of 8 MiB", Buffer.concat([prefix(false, 2 ** 23), Buffer.alloc(2 ** 23)]), "identity"],
    ["a gzip bomb", Buffer.concat([prefix(true, bomb.length), bomb]), "gzip"],
  ])("%s fails", async (_, body, encoding) => {
    const before = process.memoryUsage().arrayBuffers;
    expect((await clientSees(await withBody(body, encoding))).status).toBe(503);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(maxGrowthBytes);
  });

  test("a message with 10,000 descriptors decides, or fails", async () => {
    const statuses = Array.from({ length: 10_000 }, () => field(2, Buffer.from([8, 1])));
    const message = Buffer.concat([overallOk, ...statuses]);
    const port = await withBody(Buffer.concat([prefix(false, message.length), message]));
    expect([200, 503]).toContain((await clientSees(port)).status);
  });

  test("a message with 5,000 headers adds no more than fit", async () => {
    const headers = Array.from({ length: 5_000 }, (_, at) =>
      field(3, Buffer.concat([field(1, Buffer.from(`x-${at}`)), field(2, Buffer.from("v"))])),
    );
    const message = Buffer.concat([overallOk, ...headers]);
    const port = await withBody(Buffer.concat([prefix(false, message.length), message]));
    const { status, headerBytes } = await clientSees(port);
    expect([200, 503]).toContain(status);
    expect(headerBytes).toBeLessThan(16 * 1024);
  });

  test("a head without end fails", async () => {
    const port = await startRawHttp2Backend((frames, socket) => {
      const request = frames.find(({ type }) => type === frameType.headers);
      if (request === undefined) return;
      socket.write(frame(frameType.headers, 0, request.stream, Buffer.from([0x88])));
      const more = frame(
        frameType.continuation,
        0,
        request.stream,
        Buffer.from("\0\x01x\x01y".repeat(2_000), "latin1"),
      );
      for (let times = 0; times < 500 && !socket.destroyed; times++) socket.write(more);
    });
    expect((await clientSees(port)).status).toBe(503);
  });

  test("trailers with an unknown status fails", async () => {
    const port = await startRawHttp2Backend((frames, socket) => {
      const request = frames.find(({ type }) => type === frameType.data);
      if (request === undefined) return;
      const head = Buffer.concat([Buffer.from([0x88]), Buffer.from("\0\x0bgrpc-status\x03999", "latin1")]);
      socket.write(frame(frameType.headers, endHeaders | 1, request.stream, head));
    });
    expect((await clientSees(port)).status).toBe(503);
  });

  test("valid decides", async () => {
    const { port } = await startRawService((stream) => respondGrpc(stream, overallOk));
    expect((await clientSees(port, { timesOut: false })).status).toBe(200);
  });
});

describe("a provider whose usage is", () => {
  const numbers = ["-1", "-5", "1e308", "1e999", "9007199254740993", "18446744073709551616", "0.5", '"7"', "null"];
  const odd = ["[]", "{}", "true", "NaN", '"1e9"', "-0", "1e-400"];

  function read(body: string, contentType: string): Promise<UsageOutcome> {
    const reader = createUsageReader({ status: 200, contentType });
    reader.push(Buffer.from(body));
    return new Promise((resolve) => reader.end("whole", resolve));
  }

  test.each([...numbers, ...odd])("%s has a non-negative integer as its usage, or none", async (number) => {
    const usage = `{"prompt_tokens":${number},"completion_tokens":${number},"total_tokens":${number}}`;
    const body = `{"model":"m","choices":[{"message":{"content":"a"}}],"usage":${usage}}`;
    const outcomes = await Promise.all([
      read(body, "application/json"),
      read(`data: ${body}\n\ndata: [DONE]\n\n`, "text/event-stream"),
    ]);
    for (const outcome of outcomes) {
      if (!("usage" in outcome)) continue;
      const { input, output, total } = outcome.usage;
      for (const each of [input, output, total]) {
        expect(each === undefined || (Number.isSafeInteger(each) && each >= 0)).toBe(true);
      }
    }
  });
});
