/**
 * Compares this parser with that of node:http (llhttp) on random streams. Whatever this parser accepts, the other reads in
 * the same way, so that no request means one thing to the proxy and another to a server behind it. What only this parser
 * rejects is of no interest: it may be stricter.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { Duplex } from "node:stream";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readRequests, type ReadRequest } from "./testing/read-requests.ts";
import { requestStream } from "./testing/streams.ts";

interface SeenRequest {
  readonly method: string;
  readonly target: string;
  readonly fields: readonly string[];
  readonly body: string;
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
  const socket = new Duplex({
    read: () => undefined,
    write: (_chunk, _encoding, done) => done(),
    final: (done) => done(),
  });
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

test("what is accepted, llhttp reads in the same way", async () => {
  await fc.assert(
    fc.asyncProperty(requestStream, async (bytes) => {
      const { requests, end } = readRequests([Buffer.from(bytes)]);
      const ours = requests.filter(({ isComplete }) => isComplete);
      expect(await readByNode(bytes.subarray(0, end))).toEqual(ours.map(seenOf));
    }),
    { numRuns: Number(process.env["HTTP_RUNS"] ?? 300) },
  );
});
