/**
 * Long bodies arrive unchanged, however they are framed and split, and whatever else keeps them: a retry, a mirror or
 * the reader of a usage. The memory of their buffers is released while others are in use.
 */
import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { assert, asyncProperty, array, boolean, constantFrom, integer, record } from "fast-check";
import { expect, onTestFinished, test } from "vitest";
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

/** One stream of bytes, of which each body is a part. */
const source = randomBytes(2 * 1024 * 1024);

const rules = {
  "/plain": "",
  "/retried": "retry: { codes: [503], attempts: 2, backoff: 1ms },",
  "/mirrored": `filters: [{ type: RequestMirror, requestMirror: { backendRef: { group: gatewayproxy.dev, kind: Backend, name: b } } }],`,
};

const uploads = record({
  path: constantFrom("/plain", "/retried", "/mirrored", "/counted"),
  start: integer({ min: 0, max: source.length / 2 }),
  length: integer({ min: 1, max: 300_000 }),
  isChunked: boolean(),
  chunkBytes: integer({ min: 1_000, max: 200_000 }),
  fails: boolean(),
});
type Sent = typeof uploads extends { generate: (...args: never[]) => { value: infer T } } ? T : never;

const bodyOf = ({ start, length }: Sent): Buffer => source.subarray(start, start + length);

/** The request as bytes on the wire. */
function render(sent: Sent): Buffer {
  const body = bodyOf(sent);
  const fails = sent.fails && sent.path === "/retried" ? "x-fail: once\r\n" : "";
  const head = `POST ${sent.path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/octet-stream\r\n${fails}`;
  if (!sent.isChunked) return Buffer.concat([Buffer.from(`${head}Content-Length: ${body.length}\r\n\r\n`), body]);
  const parts: Buffer[] = [Buffer.from(`${head}Transfer-Encoding: chunked\r\n\r\n`)];
  for (let at = 0; at < body.length; at += sent.chunkBytes) {
    const chunk = body.subarray(at, at + sent.chunkBytes);
    parts.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from("\r\n"));
  }
  return Buffer.concat([...parts, Buffer.from("0\r\n\r\n")]);
}

/** Sends pipelined requests, and returns the bodies of the responses. */
async function exchange(url: string, requests: Buffer, writeBytes: number): Promise<readonly Buffer[]> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  for (let at = 0; at < requests.length; at += writeBytes) socket.write(requests.subarray(at, at + writeBytes));
  const received: Buffer[] = [];
  for await (const chunk of socket) received.push(chunk as Buffer);
  const bodies: Buffer[] = [];
  let rest = Buffer.concat(received);
  while (rest.length > 0) {
    const end = rest.indexOf("\r\n\r\n") + 4;
    const length = Number(/^content-length: (\d+)\r$/im.exec(rest.toString("latin1", 0, end))?.[1]);
    bodies.push(rest.subarray(end, end + length));
    rest = rest.subarray(end + length);
  }
  return bodies;
}

test("a body returns as it was sent", async () => {
  const failed = new Set<string>();
  const backend = await startBackend((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const id = String(request.headers["x-request-id"]);
      const failsNow = request.headers["x-fail"] !== undefined && !failed.has(id);
      failed.add(id);
      const body = Buffer.concat(chunks);
      response.writeHead(failsNow ? 503 : 200, { "content-length": body.length });
      response.end(body);
    });
  });
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", backend.port),
      routeManifest(
        "r",
        Object.entries(rules).map(
          ([path, more]) =>
            `{ matches: [{ path: { type: PathPrefix, value: ${path} } }], ${more} backendRefs: [${backendRef("b")}] }`,
        ),
      ),
      routeManifest("counted", [
        `{ matches: [{ path: { type: PathPrefix, value: /counted } }], backendRefs: [${backendRef("b")}] }`,
      ]),
      policyManifest("p", "kind: HTTPRoute, name: counted", ["{ tokens: 1000000000, unit: Hours }"]),
    ),
  );
  // Retries wait for the clock.
  const waits = setInterval(() => gateway.clock.advance(1), 1);
  onTestFinished(() => clearInterval(waits));
  await assert(
    asyncProperty(
      array(uploads, { minLength: 1, maxLength: 4 }),
      integer({ min: 5_000, max: 400_000 }),
      async (sent, writeBytes) => {
        const requests = Buffer.concat(sent.map((each) => render(each)));
        const last = Buffer.from("GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        const bodies = await exchange(gateway.url(), Buffer.concat([requests, last]), writeBytes);
        const wrong = sent.filter((each, index) => bodies[index]?.equals(bodyOf(each)) !== true);
        expect(wrong).toEqual([]);
      },
    ),
    { numRuns: 40 },
  );
});
