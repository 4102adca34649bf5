/**
 * Compares the parsers of requests and responses with those of node:http (llhttp) on random streams. Whatever is
 * accepted here, the other reads in the same way, so that no message means one thing to the proxy and another to a
 * server or client beside it. What is only rejected here is of no interest: this parser may be stricter.
 */
import { createServer, type IncomingMessage, request as startRequest, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Http1ClientConnection } from "./client-connection.ts";
import { readRequests, type ReadRequest, testLimits } from "./testing/read-requests.ts";
import { requestStream, responseStream } from "./testing/streams.ts";

interface SeenRequest {
  readonly method: string;
  readonly target: string;
  readonly fields: readonly string[];
  readonly body: string;
}

/** A connection on which a test sends bytes, and whose written bytes are dropped. */
function openPeer(): Duplex {
  const peer = new Duplex({
    read: () => undefined,
    write: (_chunk, _encoding, done) => done(),
    final: (done) => done(),
  });
  return Object.assign(peer, { resetAndDestroy: () => void peer.destroy() });
}

/** Reads a stream as a server of node:http. Resolves when the server has read everything, or has closed. */
async function readByNode(bytes: Buffer): Promise<readonly SeenRequest[]> {
  const seen: SeenRequest[] = [];
  const server = createServer({ requireHostHeader: false, keepAliveTimeout: 0 });
  const serve = (request: IncomingMessage, response: ServerResponse): void => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("error", () => undefined);
    request.on("end", () => {
      const { method = "", url: target = "", rawHeaders: fields } = request;
      seen.push({ method, target, fields, body: Buffer.concat(parts).toString("latin1") });
      response.end();
    });
  };
  for (const event of ["request", "checkContinue", "checkExpectation"]) server.on(event, serve);
  server.on("clientError", (_, socket) => socket.destroy());
  const socket = openPeer();
  const closed = new Promise((resolve) => socket.once("close", resolve));
  server.emit("connection", socket);
  socket.push(bytes);
  socket.push(null);
  await closed;
  return seen;
}

function seenOf({ head: { method, target, fields }, body }: ReadRequest): SeenRequest {
  return { method, target, fields, body };
}

interface SeenResponse {
  readonly status: number | undefined;
  readonly fields: readonly string[];
  readonly body: string;
}

/** Reads a stream as the response to a request of node:http; undefined if that fails. */
function readResponseByNode(bytes: Buffer, method: string): Promise<SeenResponse | undefined> {
  const socket = openPeer();
  return new Promise((resolve) => {
    const request = startRequest({ method, createConnection: () => socket }, (response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.on("error", () => undefined).on("close", () => resolve(undefined));
      response.on("end", () => {
        const { statusCode: status, rawHeaders: fields } = response;
        resolve({ status, fields, body: Buffer.concat(parts).toString("latin1") });
      });
    });
    request.on("error", () => resolve(undefined));
    request.on("upgrade", () => resolve(undefined));
    request.end();
    socket.push(bytes);
    socket.push(null);
  });
}

/** Reads the parts of a stream as a client connection. `seen` is undefined if that fails; `bytes` were read by then. */
function readResponse(parts: readonly Buffer[], method: string) {
  const socket = openPeer();
  // A connection uses only what sockets share with other streams, and resets.
  const connection = new Http1ClientConnection(socket as unknown as Socket, {
    limits: { headBytes: 64 * 1024, ...testLimits },
    onClosed: () => undefined,
  });
  let response: SeenResponse = { status: undefined, fields: [], body: "" };
  let seen: SeenResponse | undefined;
  const end = { isOver: false };
  connection.send({ method, path: "/", fields: ["host", "a"], body: undefined, upgrade: undefined }, 0, {
    onInterimHead: () => undefined,
    onHead: (status, fields) => (response = { ...response, status, fields }),
    onData: (part) => (response = { ...response, body: response.body + part.toString("latin1") }),
    onEnd: () => {
      seen = response;
      end.isOver = true;
    },
    onFailure: () => (end.isOver = true),
    onSwitched: () => (end.isOver = true),
  });
  let bytes = 0;
  for (const part of parts) {
    bytes += part.length;
    connection.receive(part, false);
    if (end.isOver) return { seen, bytes };
  }
  socket.emit("end");
  return { seen, bytes };
}

test("llhttp reads every accepted response in the same way, and byte by byte it is the same", async () => {
  await fc.assert(
    fc.asyncProperty(responseStream, fc.constantFrom("GET", "POST", "HEAD"), async (text, method) => {
      const { seen } = readResponse([Buffer.from(text)], method);
      const split = readResponse(
        Array.from(text, (byte) => Buffer.of(byte)),
        method,
      );
      expect(split.seen).toEqual(seen);
      if (seen !== undefined) expect(await readResponseByNode(text.subarray(0, split.bytes), method)).toEqual(seen);
    }),
    { numRuns: Number(process.env["HTTP_RUNS"] ?? 300) },
  );
});

test("llhttp reads every accepted request in the same way", async () => {
  await fc.assert(
    fc.asyncProperty(requestStream, async (bytes) => {
      const { requests, end } = readRequests([Buffer.from(bytes)]);
      const ours = requests.filter(({ isComplete }) => isComplete);
      expect(await readByNode(bytes.subarray(0, end))).toEqual(ours.map(seenOf));
    }),
    { numRuns: Number(process.env["HTTP_RUNS"] ?? 300) },
  );
});
