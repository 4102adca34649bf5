/** Header blocks of HTTP/2 and trailers of HTTP/1 that do not end, or are too large. */
import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";
import { openFrom, type ProxiedClient } from "../support/proxied-client.ts";
import { clientPreface, endHeaders, endStream, frame, framesOf, frameType } from "../support/raw-http2.ts";

/** A gateway whose backend responds to `/held` when `respond` is called, and to other paths at once. */
async function start() {
  const held: ServerResponse[] = [];
  const backend = await startBackend((request, response) => {
    if (request.url === "/held") held.push(response);
    else response.end("ok");
  });
  const matches = "matches: [{ path: { value: /held } }, { path: { value: /, type: Exact } }]";
  const route = routeManifest("r", [`{ ${matches}, backendRefs: [${backendRef("b")}] }`]);
  const gateway = await startGateway(manifests(gatewayManifest(), backendManifest("b", backend.port), route), {
    expectsProxyHeader: true,
  });
  const respond = (): void => {
    for (const response of held.splice(0)) response.end("ok");
  };
  return { gateway, backend, held, respond };
}

/** Advances the clock in steps; the gateway reads what a step sends before the next. */
async function advance({ clock }: TestGateway, seconds: number, step: () => void = () => undefined): Promise<void> {
  for (let passed = 0; passed < seconds; passed++) {
    step();
    clock.advance(1_000);
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
  }
}

const isClosed = ({ socket }: ProxiedClient): boolean => socket.readableEnded || socket.destroyed;
const framesIn = ({ text }: ProxiedClient) => framesOf(Buffer.from(text(), "latin1"));
const inProgress = ({ dataPlane }: TestGateway): number =>
  dataPlane.tasks().flatMap(({ children }) => children.flatMap((connection) => connection.children)).length;

const head = (path: string): string => `POST ${path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`;

test("HTTP/1 trailers that have not ended after 60 s end their request with 408, and the connection", async () => {
  const { gateway, held } = await start();
  const client = openFrom(gateway, "10.0.0.1", `${head("/held")}1\r\nx\r\n0\r\n`);
  await expect.poll(() => held.length).toBe(1);
  await advance(gateway, 55, () => client.socket.write("a: b\r\n"));
  expect(isClosed(client)).toBe(false);
  await advance(gateway, 15);
  await expect.poll(() => isClosed(client)).toBe(true);
  expect(client.text()).toMatch(/^HTTP\/1\.1 408 /);
  expect(gateway.shed).toEqual([{ reason: "timeout", client: "10.0.0.1" }]);
  expect(gateway.records).toMatchObject([{ status: 408, reason: "StreamIdleTimeout" }]);
});

test("trailers of a request that has its response are not waited for either", async () => {
  const { gateway } = await start();
  const client = openFrom(gateway, "10.0.0.1", `${head("/unknown")}1\r\nx\r\n0\r\n`);
  await expect.poll(client.text).toContain("HTTP/1.1 404");
  await advance(gateway, 70, () => client.socket.write("a: b\r\n"));
  await expect.poll(() => isClosed(client)).toBe(true);
  expect(gateway.shed).toEqual([{ reason: "timeout", client: "10.0.0.1" }]);
});

test("a slow upload in chunks is no slow trailer section, wherever its chunks are split", async () => {
  const { gateway, held, respond } = await start();
  const client = openFrom(gateway, "10.0.0.1", `${head("/held")}1\r\nx`);
  await expect.poll(() => held.length).toBe(1);
  // The size of a chunk arrives 40 s before its data.
  const writes = ["\r\n5;ext=", "y\r\nabcde\r\n1", "\r\nx\r\n2\r\n", "yz", "\r\n0\r\n", "a: b\r\n\r\n"];
  for (const write of writes) {
    client.socket.write(write);
    await advance(gateway, 40);
  }
  respond();
  await expect.poll(client.text).toContain("HTTP/1.1 200");
  expect(gateway.shed).toEqual([]);
});

test.each([
  { name: "longer than a head may be", trailers: `a: ${"v".repeat(1_000)}\r\n`.repeat(70) },
  { name: "of more fields than a head may have", trailers: "a: b\r\n".repeat(201) },
])("HTTP/1 trailers $name are rejected with 431", async ({ trailers }) => {
  const { gateway, held } = await start();
  const client = openFrom(gateway, "10.0.0.1", `${head("/held")}1\r\nx\r\n`);
  await expect.poll(() => held.length).toBe(1);
  client.socket.write(`0\r\n${trailers}\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n`);
  await expect.poll(() => isClosed(client)).toBe(true);
  expect(client.text().match(/^HTTP\/1\.1 \d+/gm)).toEqual(["HTTP/1.1 431"]);
  expect(gateway.records).toMatchObject([{ status: 431, reason: "BadRequest", path: "/held" }]);
});

test("too large trailers end the connection if the request has its response", async () => {
  const { gateway } = await start();
  const client = openFrom(gateway, "10.0.0.1", `${head("/unknown")}1\r\nx\r\n`);
  await expect.poll(client.text).toContain("HTTP/1.1 404");
  client.socket.write(`0\r\n${"a: b\r\n".repeat(201)}\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n`);
  await expect.poll(() => isClosed(client)).toBe(true);
  expect(client.text().match(/^HTTP\/1\.1 \d+/gm)).toEqual(["HTTP/1.1 404"]);
});

test("too large trailers of a pending request end its connection when its turn comes", async () => {
  const { gateway, held, backend, respond } = await start();
  const client = openFrom(gateway, "10.0.0.1", "GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
  await expect.poll(() => held.length).toBe(1);
  client.socket.write(`${head("/unknown")}1\r\nx\r\n0\r\n${"a: b\r\n".repeat(201)}\r\n`);
  respond();
  await expect.poll(() => isClosed(client)).toBe(true);
  expect(client.text().match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 404"]);
  expect(backend.requests.map(({ url }) => url)).toEqual(["/held"]);
});

test("trailers as large as a head may be are accepted", async () => {
  const { gateway } = await start();
  const trailers = `a: ${"v".repeat(300)}\r\n`.repeat(200);
  const client = openFrom(gateway, "10.0.0.1", `${head("/")}1\r\nx\r\n0\r\n${trailers}\r\n${head("/")}0\r\n\r\n`);
  await expect.poll(() => client.text().match(/HTTP\/1\.1 200/g)?.length).toBe(2);
});

/** `METHOD path http` with the authority `a`, by HPACK's static table (RFC 7541 §A). */
const block = (path: string, method = 0x82): Buffer =>
  Buffer.concat([Buffer.from([method, 0x86, 0x41, 0x01, 0x61, 0x04, path.length]), Buffer.from(path)]);
const post = 0x83;
const settings = frame(frameType.settings, 0, 0);
/** A POST that the backend begins to receive. */
const postHeld = Buffer.concat([
  frame(frameType.headers, endHeaders, 1, block("/held", post)),
  frame(frameType.data, 0, 1, Buffer.from("x")),
]);
/** A header field `x: y`, without indexing. */
const field = Buffer.from([0, 1, 0x78, 1, 0x79]);

function openHttp2(gateway: TestGateway, ...frames: readonly Buffer[]): ProxiedClient {
  const client = openFrom(gateway, "10.0.0.1", clientPreface);
  client.socket.setNoDelay(true);
  client.socket.write(Buffer.concat([settings, ...frames]));
  return client;
}

test.each([
  {
    name: "a request",
    before: Buffer.alloc(0),
    open: frame(frameType.headers, endStream, 1, block("/held")),
    stream: 1,
  },
  {
    name: "a request after another one",
    before: frame(frameType.headers, endHeaders | endStream, 1, block("/held")),
    open: frame(frameType.headers, endStream, 3, block("/held")),
    stream: 3,
  },
  {
    name: "trailers",
    before: postHeld,
    open: frame(frameType.headers, endStream, 1, field),
    stream: 1,
  },
])("an HTTP/2 header block without END_HEADERS ends its connection after 60 s: $name", async (each) => {
  const { gateway } = await start();
  const client = openHttp2(gateway, each.before, each.open);
  await expect.poll(() => framesIn(client).length).toBeGreaterThan(0);
  // A frame that arrives in small parts, because only few CONTINUATION frames are accepted.
  client.socket.write(frame(frameType.continuation, 0, each.stream, Buffer.alloc(10_000)).subarray(0, 9));
  await advance(gateway, 55, () => client.socket.write(field));
  expect(isClosed(client)).toBe(false);
  await advance(gateway, 15);
  await expect.poll(() => isClosed(client)).toBe(true);
  expect(gateway.shed).toEqual([{ reason: "timeout", client: "10.0.0.1" }]);
  expect(inProgress(gateway)).toBe(0);
});

test("an HTTP/2 header block that ends within 60 s is served", async () => {
  const { gateway } = await start();
  const client = openHttp2(gateway, frame(frameType.headers, endStream, 1, block("/")));
  await expect.poll(() => framesIn(client).length).toBeGreaterThan(0);
  await advance(gateway, 50);
  client.socket.write(frame(frameType.continuation, endHeaders, 1, field));
  await expect.poll(() => framesIn(client).some(({ type }) => type === frameType.headers)).toBe(true);
  expect(gateway.shed).toEqual([]);
});

test("an HTTP/2 connection without a header block stays open for 5 minutes, and then gets GOAWAY", async () => {
  const { gateway } = await start();
  const client = openHttp2(gateway, frame(frameType.headers, endHeaders | endStream, 1, block("/")));
  await expect.poll(() => framesIn(client).some(({ type }) => type === frameType.headers)).toBe(true);
  client.socket.write(frame(frameType.windowUpdate, 0, 0, Buffer.from([0, 0, 0, 1])));
  await advance(gateway, 290);
  expect(framesIn(client).some(({ type }) => type === frameType.goaway)).toBe(false);
  client.socket.write(frame(frameType.headers, endHeaders | endStream, 3, block("/")));
  await expect.poll(() => framesIn(client).filter(({ type }) => type === frameType.headers).length).toBe(2);
  await advance(gateway, 310);
  await expect.poll(() => framesIn(client).some(({ type }) => type === frameType.goaway)).toBe(true);
  expect(gateway.shed).toEqual([]);
});

test("an upload over HTTP/2 shows that the client is alive, even if it acknowledges no PING", async () => {
  const { gateway, held, respond } = await start();
  const client = openHttp2(gateway, postHeld);
  await expect.poll(() => held.length).toBe(1);
  await advance(gateway, 200, () => client.socket.write(frame(frameType.data, 0, 1, Buffer.from("x"))));
  client.socket.write(frame(frameType.data, endStream, 1));
  respond();
  await expect.poll(() => framesIn(client).some(({ type }) => type === frameType.headers)).toBe(true);
  expect(gateway.shed).toEqual([]);
});

/** A literal `x` with a value of 16,000 bytes; RFC 7541 §5.1 encodes the length. */
const largeField = Buffer.concat([Buffer.from([0, 1, 0x78, 127, 0x81, 0x7c]), Buffer.alloc(16_000, "v")]);

/** HEADERS and CONTINUATION that end the stream. */
function sectionOf(stream: number, parts: readonly Buffer[]): Buffer {
  const frames = parts.map((part, i) => {
    const type = i === 0 ? frameType.headers : frameType.continuation;
    const flags = (i === 0 ? endStream : 0) | (i === parts.length - 1 ? endHeaders : 0);
    return frame(type, flags, stream, part);
  });
  return Buffer.concat(frames);
}

const tooLong = Array.from({ length: 5 }, () => largeField);
const tooMany = [Buffer.concat(Array.from({ length: 210 }, () => field))];
const settingsAck = frame(frameType.settings, 1, 0);
test.each([
  { name: "longer than a head may be", parts: tooLong, ack: settingsAck },
  {
    name: "longer than a head may be, of a client that acknowledges no SETTINGS,",
    parts: tooLong,
    ack: Buffer.alloc(0),
  },
  { name: "of more fields than a head may have", parts: tooMany, ack: settingsAck },
])("HTTP/2 trailers and heads $name are rejected with 431 or a reset", async ({ parts, ack }) => {
  const { gateway, held } = await start();
  const client = openHttp2(gateway, postHeld);
  await expect.poll(() => held.length).toBe(1);
  client.socket.write(Buffer.concat([ack, sectionOf(1, parts)]));
  const isRejected = (id: number, path: string): boolean =>
    framesIn(client).some(({ type, stream }) => type === frameType.rstStream && stream === id) ||
    gateway.records.some((record) => record.path === path && record.status === 431);
  await expect.poll(() => isRejected(1, "/held")).toBe(true);
  await expect.poll(() => inProgress(gateway)).toBe(0);
  client.socket.write(sectionOf(3, [block("/"), ...parts]));
  await expect.poll(() => isRejected(3, "/")).toBe(true);
  client.socket.write(frame(frameType.headers, endHeaders | endStream, 5, block("/")));
  await expect
    .poll(() => framesIn(client).some(({ type, stream }) => type === frameType.headers && stream === 5))
    .toBe(true);
});
