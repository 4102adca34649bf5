/** The memory bound of connections and request heads, and which connections are closed when it is reached. */
import { once } from "node:events";
import { constants, createServer, type ServerHttp2Stream } from "node:http2";
import type { ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "../support/gateway.ts";
import { startHttp2Gateway } from "../support/http2-gateway.ts";
import { usedMemory } from "../support/memory.ts";
import { openFrom, type ProxiedClient } from "../support/proxied-client.ts";
import { clientPreface, endHeaders, endStream, frame, framesOf, frameType } from "../support/raw-http2.ts";

const kib = 1024;
/** The memory of an idle connection without TLS. */
const unit = 16 * kib;

/**
 * A gateway behind a load balancer that sends client addresses; its backend responds to `/held` when `respond` is
 * called.
 */
async function start(connections: number, requestBytes = 1024 * kib, options: TestGatewayOptions = {}) {
  const held: ServerResponse[] = [];
  const backend = await startBackend((request, response) => {
    if (request.url === "/held") held.push(response);
    else response.end("ok");
  });
  const matches = "matches: [{ path: { value: /held } }, { path: { value: /, type: Exact } }]";
  const route = routeManifest("r", [`{ ${matches}, backendRefs: [${backendRef("b")}] }`]);
  const gateway = await startGateway(manifests(gatewayManifest(), backendManifest("b", backend.port), route), {
    clientMemory: { connectionBytes: connections * unit, requestBytes },
    expectsProxyHeader: true,
    ...options,
  });
  const respond = (): void => {
    for (const response of held.splice(0)) response.end("ok");
  };
  return { gateway, backend, held, respond };
}

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const getHeld = "GET /held HTTP/1.1\r\nHost: a\r\n\r\n";

/** Opens a connection and waits for the response to one request on it. */
async function openIdle(gateway: TestGateway, address: string): Promise<ProxiedClient> {
  const client = openFrom(gateway, address, get);
  await receivesStatus(client);
  return client;
}

async function receivesStatus({ text }: ProxiedClient, status = 200): Promise<void> {
  await expect.poll(text).toContain(`HTTP/1.1 ${status}`);
}

async function isClosed({ socket }: ProxiedClient): Promise<void> {
  if (!socket.closed) await once(socket, "close");
}

const others = (length: number): readonly string[] => Array.from({ length }, (_, i) => `10.0.1.${i}`);

test("below the bound one address may have all connections, as a load balancer does", async () => {
  const { gateway } = await start(8);
  const clients = await Promise.all(Array.from({ length: 8 }, () => openIdle(gateway, "10.0.0.1")));
  for (const { socket } of clients) expect(socket.destroyed).toBe(false);
  expect(gateway.shed).toEqual([]);
});

test("the address with the most connections loses its oldest idle one to another address", async () => {
  const { gateway } = await start(4);
  const few = await openIdle(gateway, "10.0.0.2");
  const many: ProxiedClient[] = [];
  for (let i = 0; i < 3; i++) many.push(await openIdle(gateway, "10.0.0.1"));
  await openIdle(gateway, "10.0.0.3");
  await isClosed(many[0] as ProxiedClient);
  expect(gateway.shed).toEqual([{ reason: "idle", client: "10.0.0.1" }]);
  expect([few, ...many.slice(1)].map(({ socket }) => socket.destroyed)).toEqual([false, false, false]);
});

test("connections that never send a request are closed first", async () => {
  const { gateway } = await start(8);
  const silent = Array.from({ length: 40 }, () => openFrom(gateway, "10.0.0.1", ""));
  await expect.poll(() => gateway.shed.length).toBe(32);
  for (const address of others(4)) await openIdle(gateway, address);
  expect(silent.filter(({ socket }) => socket.destroyed).length).toBeGreaterThanOrEqual(32);
});

test("one address whose connections are all in use gets no more, and keeps its connections", async () => {
  const { gateway, held, respond } = await start(4);
  const busy = Array.from({ length: 4 }, () => openFrom(gateway, "10.0.0.1", getHeld));
  await expect.poll(() => held.length).toBe(4);
  const further = openFrom(gateway, "10.0.0.1", get);
  await isClosed(further);
  expect(gateway.shed.map(({ reason }) => reason)).toEqual(["newest"]);
  respond();
  for (const client of busy) await receivesStatus(client);
});

test("requests of an address with many connections do not block another address", async () => {
  const { gateway, held, respond } = await start(4);
  const busy: ProxiedClient[] = [];
  for (let i = 0; i < 4; i++) {
    busy.push(openFrom(gateway, "10.0.0.1", getHeld));
    await expect.poll(() => held.length).toBe(i + 1);
  }
  await openIdle(gateway, "10.0.0.2");
  await isClosed(busy[3] as ProxiedClient);
  expect(gateway.shed).toContainEqual({ reason: "newest", client: "10.0.0.1" });
  respond();
  for (const client of busy.slice(0, 3)) await receivesStatus(client);
});

test("addresses of one IPv6 network count together", async () => {
  const { gateway } = await start(4);
  for (const address of ["2001:db8::1", "2001:db8::2", "10.0.0.2"]) await openIdle(gateway, address);
  for (const address of ["10.0.0.3", "10.0.0.4"]) await openIdle(gateway, address);
  expect(gateway.shed).toEqual([{ reason: "idle", client: "2001:db8::/64" }]);
});

/** Most of a head, without its end. */
const unfinished = (bytes: number, fields = ""): string =>
  `GET /held HTTP/1.1\r\nHost: a\r\n${fields}${`x-a: ${"v".repeat(993)}\r\n`.repeat(bytes / 1_000)}`;

/** Lets the gateway count the heads, again and again, until `isDone`. */
async function countHeads({ clock }: TestGateway, isDone: () => boolean): Promise<void> {
  await expect
    .poll(() => {
      clock.advance(100);
      return isDone();
    })
    .toBe(true);
}

const open = (clients: readonly ProxiedClient[]): number => clients.filter(({ socket }) => !socket.destroyed).length;
/** Whether the open ones, with this number of bytes for requests on each, take no more than all of the memory. */
const fits = (clients: readonly ProxiedClient[], bytes: number, connections = 42): boolean =>
  open(clients) * (unit + bytes) <= 1_024 * kib + connections * unit;

test("incomplete heads of one address are bounded, and another address is served at that time", async () => {
  const { gateway } = await start(42, 1_024 * kib);
  const before = openFrom(gateway, "10.0.0.2", "GET / HTTP/1.1\r\nHost: ");
  const many = Array.from({ length: 40 }, () => openFrom(gateway, "10.0.0.1", unfinished(50_000)));
  await countHeads(gateway, () => fits(many, 50_000));
  expect(open(many)).toBeGreaterThan(10);
  for (const shed of gateway.shed) expect(shed).toEqual({ reason: "head", client: "10.0.0.1" });
  before.socket.write("a\r\n\r\n");
  await receivesStatus(before);
  await openIdle(gateway, "10.0.0.2");
});

test("a head that follows a complete request in one write counts", async () => {
  const { gateway } = await start(42, 1_024 * kib);
  const many = Array.from({ length: 40 }, () => openFrom(gateway, "10.0.0.1", `${get}${unfinished(50_000)}`));
  await countHeads(gateway, () => fits(many, 50_000));
});

const chunked = (path: string, body: string, trailers = ""): string =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${chunks(body)}0\r\n${trailers}\r\n`;
const chunks = (body: string): string => (body === "" ? "" : `${body.length.toString(16)}\r\n${body}\r\n`);

test.each([
  { name: "a request in chunks that is in progress", before: chunked("/held", "x") },
  { name: "a request in chunks that has its response", before: chunked("/", "x".repeat(3_000)) },
  { name: "an empty request in chunks", before: chunked("/held", "") },
  { name: "a request with trailers", before: chunked("/held", "x", "a: b\r\n") },
  { name: "two requests in chunks", before: chunked("/held", "x") + chunked("/held", "y") },
  { name: "a request in chunks that no rule matches", before: chunked("/unknown", "x".repeat(3_000)) },
])("a head that arrives in one write with the end of $name counts", async ({ before }) => {
  const { gateway } = await start(42, 1_024 * kib);
  const many = Array.from({ length: 40 }, () => openFrom(gateway, "10.0.0.1", `${before}${unfinished(50_000)}`));
  await countHeads(gateway, () => fits(many, 50_000));
});

test.each([
  { name: "the last chunk", path: "/held", rest: "0\r\n\r\n" },
  { name: "the last bytes of a chunk", path: "/held", rest: `${"x".repeat(500)}\r\n0\r\n\r\n` },
  { name: "the last chunk of a body that no backend reads", path: "/unknown", rest: `${"x".repeat(500)}\r\n0\r\n\r\n` },
])("a head that arrives in one write with $name counts", async ({ path, rest }) => {
  const { gateway } = await start(42, 1_024 * kib);
  const [body] = rest.split("\r\n");
  const size = (4_000 + (body === "0" ? 0 : 500)).toString(16);
  const end = body === "0" ? "\r\n" : "";
  const begun = `POST ${path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${size}\r\n${"x".repeat(4_000)}${end}`;
  const many = Array.from({ length: 40 }, () => openFrom(gateway, "10.0.0.1", begun));
  await expect.poll(() => gateway.dataPlane.tasks().length).toBeGreaterThan(0);
  await countHeads(gateway, () => many.every(({ socket }) => socket.writableLength === 0));
  for (const { socket } of many) socket.write(`${rest}${unfinished(50_000)}`);
  await countHeads(gateway, () => fits(many, 50_000));
});

test("a head after one that arrived in small parts counts", async () => {
  const { gateway } = await start(42, 1_024 * kib);
  const many = Array.from({ length: 40 }, () => openFrom(gateway, "10.0.0.1", unfinished(20_000)));
  for (let i = 0; i < 3; i++) gateway.clock.advance(100);
  for (const { socket } of many) socket.write(`\r\n${unfinished(50_000)}`);
  await countHeads(gateway, () => fits(many, 50_000));
});

test("bodies in chunks of any size, with trailers, do not count after their end", async () => {
  const { gateway, held, respond } = await start(100, 64 * kib);
  const body = [1, 15, 16, 255, 256, 4_095, 4_096, 20_000].map((size) => chunks("x".repeat(size))).join("");
  const request = `POST /held HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${body}0\r\na: b\r\nc: d\r\n\r\n`;
  const clients = others(40).map((address) => openFrom(gateway, address, request));
  await expect.poll(() => held.length).toBe(40);
  for (let i = 0; i < 3; i++) gateway.clock.advance(100);
  respond();
  for (const client of clients) await receivesStatus(client);
  for (let i = 0; i < 3; i++) gateway.clock.advance(100);
  for (const { socket } of clients) socket.write(request.replace("/held", "/unknown"));
  await expect.poll(() => clients.every(({ text }) => text().includes("HTTP/1.1 404"))).toBe(true);
  for (let i = 0; i < 3; i++) gateway.clock.advance(100);
  expect(gateway.shed).toEqual([]);
});

test("an incomplete trailer section of a body in chunks counts", async () => {
  const { gateway, held } = await start(42, 1_024 * kib);
  const begun = "POST /held HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n";
  const trailers = `x-a: ${"v".repeat(993)}\r\n`.repeat(50);
  const many = Array.from({ length: 40 }, () => openFrom(gateway, "10.0.0.1", begun + trailers));
  await expect.poll(() => held.length).toBeGreaterThan(0);
  await countHeads(gateway, () => fits(many, 50_000));
  expect(open(many)).toBeGreaterThan(5);
  for (const shed of gateway.shed) expect(shed).toEqual({ reason: "head", client: "10.0.0.1" });
  await openIdle(gateway, "10.0.0.2");
});

test("heads of requests in progress are bounded with 503, and another address is served at that time", async () => {
  const { gateway, held, respond } = await start(152, 2_048 * kib);
  const other = openFrom(gateway, "10.0.0.2", getHeld);
  // Of a length that the backend accepts too.
  const many = Array.from({ length: 150 }, () => openFrom(gateway, "10.0.0.1", `${unfinished(12_000)}\r\n`));
  const denied = (): number => many.filter(({ text }) => text().startsWith("HTTP/1.1 503 ")).length;
  // Connections with a 503 are idle, and are closed before further requests are denied.
  await countHeads(gateway, () => open(many) * unit + (150 - denied()) * 20_000 <= 152 * unit + 2_048 * kib);
  expect(gateway.records.at(0)).toMatchObject({ status: 503, reason: "HeadMemoryFull" });
  const [denial] = many.filter(({ text }) => text() !== "");
  expect(denial?.text()).toMatch(/\r\nretry-after: 1\r\n[^]*\r\n\r\ntoo many requests or too large headers at once$/i);
  expect(denied()).toBeLessThan(100);
  await expect.poll(() => held.length).toBeGreaterThan(0);
  respond();
  await receivesStatus(other);
  await openIdle(gateway, "10.0.0.2");
});

test("pipelined requests that wait for earlier ones count", async () => {
  const { gateway } = await start(42, 1_024 * kib);
  const two = `${getHeld}${unfinished(50_000)}\r\n`;
  const many = Array.from({ length: 40 }, () => openFrom(gateway, "10.0.0.1", two));
  await countHeads(gateway, () => fits(many, 50_000));
});

const postHeld = (body: string): string =>
  `POST /held HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;

test("bodies that end between two counts do not count, before and after their responses", async () => {
  const { gateway, held, respond } = await start(42, 1_024 * kib);
  const clients = others(40).map((address) => openFrom(gateway, address, ""));
  await countHeads(gateway, () => clients.every(({ socket }) => socket.writableLength === 0));
  // 40 × 60 KB are more than the bound, and all arrives between two counts.
  for (const { socket } of clients) socket.write(postHeld("x".repeat(60_000)));
  await expect.poll(() => held.length).toBe(40);
  for (let i = 0; i < 3; i++) gateway.clock.advance(100);
  respond();
  for (const client of clients) await receivesStatus(client);
  for (let i = 0; i < 3; i++) gateway.clock.advance(100);
  expect(gateway.shed).toEqual([]);
});

test("heads of one address end no request of other addresses, even if those use most of the bound", async () => {
  const { gateway, held, respond } = await start(101, 1_536 * kib);
  const clients = others(60).map((address) => openFrom(gateway, address, `${unfinished(12_000)}\r\n`));
  await expect.poll(() => held.length).toBe(60);
  const greedy = Array.from({ length: 40 }, () => openFrom(gateway, "10.0.0.1", `${unfinished(12_000)}\r\n`));
  await countHeads(gateway, () => greedy.some(({ text }) => text().startsWith("HTTP/1.1 503 ")));
  respond();
  for (const client of clients) await receivesStatus(client);
  expect(gateway.shed.filter(({ client }) => client !== "10.0.0.1")).toEqual([]);
});

test("of addresses with equal use, no more connections are closed than necessary", async () => {
  const { gateway } = await start(21, 1_024 * kib);
  const clients = others(20).map((address) => openFrom(gateway, address, unfinished(60_000)));
  await countHeads(gateway, () => open(clients) < 20);
  expect(open(clients)).toBeGreaterThan(10);
});

test("bytes of uploads and tunnels do not count, however many", async () => {
  const { gateway, held, respond } = await start(100, 512 * kib);
  const head = "POST /held HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n";
  const uploads = Array.from({ length: 20 }, () => openFrom(gateway, "10.0.0.1", head));
  await expect.poll(() => held.length).toBe(20);
  gateway.clock.advance(100);
  for (const { socket } of uploads) socket.write(`40000\r\n${"x".repeat(0x40000)}\r\n`);
  await expect.poll(() => gateway.dataPlane.endpoints()).toMatchObject([{ pending: 20 }]);
  await countHeads(gateway, () => uploads.every(({ socket }) => socket.writableLength === 0));
  for (let i = 0; i < 5; i++) gateway.clock.advance(100);
  for (const { socket } of uploads) socket.write("0\r\n\r\n");
  respond();
  for (const upload of uploads) await receivesStatus(upload);
  expect(gateway.shed).toEqual([]);
});

/** `GET path http` with the authority `a`, by HPACK's static table (RFC 7541 §A). */
const block = (path: string): Buffer =>
  Buffer.concat([Buffer.from([0x82, 0x86, 0x41, 0x01, 0x61, 0x04, path.length]), Buffer.from(path)]);
/** SETTINGS_INITIAL_WINDOW_SIZE 0: no response body may be sent. */
const noWindow = frame(frameType.settings, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0]));

/** Sends 100 requests for `path` and reads none of the responses. */
function openWithoutReading(gateway: TestGateway, address: string, path: string): ProxiedClient {
  const client = openFrom(gateway, address, clientPreface);
  const requests = Array.from({ length: 100 }, (_, i) =>
    frame(frameType.headers, endHeaders | endStream, 2 * i + 1, block(path)),
  );
  client.socket.write(Buffer.concat([noWindow, ...requests]));
  return client;
}

const framesOfType = ({ text }: ProxiedClient, type: number): number =>
  framesOf(Buffer.from(text(), "latin1")).filter((each) => each.type === type).length;
const inProgress = ({ dataPlane }: TestGateway): number =>
  dataPlane.tasks().flatMap(({ children }) => children.flatMap((connection) => connection.children)).length;

/** `POST path`, as `block`. */
const postBlock = (path: string): Buffer => Buffer.concat([Buffer.from([0x83]), block(path).subarray(1)]);
/** A header field `x` of 16,000 bytes, without indexing; RFC 7541 §5.1 encodes the length. */
const largeField = Buffer.concat([Buffer.from([0, 1, 0x78, 127, 0x81, 0x7c]), Buffer.alloc(16_000, "v")]);

/** HEADERS and CONTINUATION with 48,000 bytes of fields and no END_HEADERS. */
function openBlock(stream: number, flags: number, start: Buffer): Buffer {
  const first = frame(frameType.headers, flags, stream, Buffer.concat([start, largeField]));
  const more = frame(frameType.continuation, 0, stream, largeField);
  return Buffer.concat([first, more, more]);
}

const settings = frame(frameType.settings, 0, 0);
const postHeldH2 = frame(frameType.headers, endHeaders, 1, postBlock("/held"));

test.each([
  { name: "without another request", before: Buffer.alloc(0), incomplete: openBlock(3, endStream, block("/held")) },
  {
    name: "after a request whose body does not arrive",
    before: postHeldH2,
    incomplete: openBlock(3, endStream, block("/held")),
  },
  {
    name: "after a request that waits for its response",
    before: frame(frameType.headers, endHeaders | endStream, 1, block("/held")),
    incomplete: openBlock(3, endStream, block("/held")),
  },
  { name: "that is a trailer section", before: postHeldH2, incomplete: openBlock(1, endStream, Buffer.alloc(0)) },
])("an incomplete header block of HTTP/2 $name counts", async ({ before, incomplete }) => {
  const { gateway } = await start(42, 1_024 * kib);
  const many = Array.from({ length: 40 }, () => openFrom(gateway, "10.0.0.1", clientPreface));
  for (const { socket } of many) socket.write(Buffer.concat([settings, before, incomplete]));
  await countHeads(gateway, () => fits(many, 48_000));
  expect(open(many)).toBeGreaterThan(5);
  for (const shed of gateway.shed) expect(shed).toEqual({ reason: "head", client: "10.0.0.1" });
  await openIdle(gateway, "10.0.0.2");
});

test("frames and uploads of HTTP/2 do not count", async () => {
  const { gateway, held, respond } = await start(42, 512 * kib);
  const clients = others(40).map((address) => openFrom(gateway, address, clientPreface));
  const update = frame(frameType.windowUpdate, 0, 0, Buffer.from([0, 0, 0, 1]));
  const data = frame(frameType.data, 0, 1, Buffer.alloc(16_000));
  for (const client of clients) {
    const updates = Array.from({ length: 200 }, () => update);
    client.socket.write(Buffer.concat([settings, postHeldH2, ...updates, data, data, data]));
  }
  await expect.poll(() => held.length).toBe(40);
  for (let i = 0; i < 10; i++) gateway.clock.advance(100);
  for (const { socket } of clients) socket.write(frame(frameType.data, endStream, 1));
  respond();
  await expect.poll(() => clients.every((client) => framesOfType(client, frameType.headers) === 1)).toBe(true);
  for (let i = 0; i < 10; i++) gateway.clock.advance(100);
  expect(gateway.shed).toEqual([]);
});

test("HTTP/2 responses that cannot be sent count as requests in progress, and are reset at the bound", async () => {
  const { gateway } = await start(10, 512 * kib);
  const many = Array.from({ length: 8 }, () => openWithoutReading(gateway, "10.0.0.1", "/none"));
  // Does not advance the clock, because all may arrive in one turn of the event loop.
  await expect.poll(() => inProgress(gateway) + gateway.records.length).toBe(100 * many.length);
  await expect.poll(() => inProgress(gateway) * 8.5 * kib).toBeLessThan(1.5 * 512 * kib);
  expect(inProgress(gateway)).toBeGreaterThan(20);
  expect(gateway.records.filter(({ reason }) => reason === "HeadMemoryFull").length).toBeGreaterThan(600);
  await openIdle(gateway, "10.0.0.2");
});

test("responses of an HTTP/2 endpoint that wait for a client count, and end at the bound", async () => {
  const large = Buffer.alloc(300_000);
  const server = createServer({ maxSessionMemory: 1_000 }).on("stream", (stream: ServerHttp2Stream, headers) => {
    stream.on("error", () => undefined).respond({ ":status": 200 });
    stream.end(headers[":path"] === "/large" ? large : "ok");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  // A listening TCP server has such an address.
  const { port } = server.address() as AddressInfo;
  const requestBytes = 8_192 * kib;
  const gateway = await startHttp2Gateway([port], {
    clientMemory: { connectionBytes: 20 * unit, requestBytes },
    expectsProxyHeader: true,
  });
  for (let count = 1; count <= 2; count++) {
    openWithoutReading(gateway, "10.0.0.1", "/large");
    await expect.poll(() => inProgress(gateway) + gateway.records.length).toBe(100 * count);
  }
  const windowBytes = 256 * kib;
  const isBounded = (): boolean => {
    gateway.clock.advance(100);
    return inProgress(gateway) * windowBytes < requestBytes * 1.1;
  };
  await expect.poll(isBounded).toBe(true);
  expect(inProgress(gateway) * windowBytes).toBeGreaterThan(requestBytes / 2);
  await openIdle(gateway, "10.0.0.2");
});

test("the response to a rejected HTTP/2 request waits for no window", async () => {
  const { gateway } = await start(4);
  const client = openWithoutReading(gateway, "10.0.0.1", "/%zz");
  await expect.poll(() => framesOfType(client, frameType.headers)).toBe(100);
  const frames = framesOf(Buffer.from(client.text(), "latin1"));
  const ended = frames.filter(({ type, flags }) => type === frameType.headers && (flags & endStream) !== 0);
  expect(ended.length).toBe(100);
  expect(gateway.shed).toEqual([]);
});

test("an HTTP/2 connection that sends requests after 100 of them were ended is closed with ENHANCE_YOUR_CALM", async () => {
  const { gateway } = await start(1, 64 * kib);
  const client = openWithoutReading(gateway, "10.0.0.1", "/none");
  await expect.poll(() => gateway.records.length).toBeGreaterThan(90);
  expect(framesOfType(client, frameType.goaway)).toBe(0);
  const more = Array.from({ length: 50 }, (_, i) =>
    frame(frameType.headers, endHeaders | endStream, 201 + 2 * i, block("/none")),
  );
  client.socket.write(Buffer.concat(more));
  await isClosed(client);
  const goaway = framesOf(Buffer.from(client.text(), "latin1")).filter(({ type }) => type === frameType.goaway);
  expect(goaway.map(({ payload }) => payload.readUInt32BE(4))).toEqual([constants.NGHTTP2_ENHANCE_YOUR_CALM]);
  await openIdle(gateway, "10.0.0.2");
});

test("a response that the client does not read uses no more memory than it counts", async () => {
  const { gateway } = await start(200, 64 * 1_024 * kib);
  // Warms up: some things are compiled and cached once.
  openWithoutReading(gateway, "10.0.0.1", "/");
  await expect.poll(() => inProgress(gateway)).toBe(100);
  const before = await usedMemory();
  for (let i = 0; i < 40; i++) openWithoutReading(gateway, "10.0.0.1", "/");
  await expect.poll(() => inProgress(gateway), { timeout: 60_000 }).toBe(4_100);
  expect((await usedMemory()) - before).toBeLessThan(4_000 * 8.5 * kib);
});

test("pending HTTP/1 requests count by their bytes", async () => {
  const { gateway } = await start(42, 1_024 * kib);
  const pipelined = get.repeat(1_800);
  const many = Array.from({ length: 40 }, () => openFrom(gateway, "10.0.0.1", `${getHeld}${pipelined}`));
  await countHeads(gateway, () => fits(many, pipelined.length));
  expect(open(many)).toBeGreaterThan(0);
  for (const shed of gateway.shed) expect(shed).toEqual({ reason: "head", client: "10.0.0.1" });
  await openIdle(gateway, "10.0.0.2");
});

test("requests after a rejected one in one read are discarded", async () => {
  const { gateway } = await start(4, 256 * kib);
  const client = openFrom(gateway, "10.0.0.1", `GET / HTTP/1.1\r\n\r\n${get.repeat(600)}`);
  for (let i = 0; i < 3; i++) gateway.clock.advance(100);
  await isClosed(client);
  expect(gateway.shed).toEqual([]);
  expect(client.text().match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 400"]);
});

test("requests may use the memory that connections leave", async () => {
  // Requests alone have 128 KiB: 15 requests.
  const { gateway, held, respond } = await start(64, 128 * kib);
  const clients = others(40).map((address) => openFrom(gateway, address, getHeld));
  await expect.poll(() => held.length).toBe(40);
  for (let i = 0; i < 3; i++) gateway.clock.advance(100);
  respond();
  for (const client of clients) await receivesStatus(client);
  expect(gateway.shed).toEqual([]);
});

test("idle connections of one address are closed before requests of others are denied", async () => {
  // 60 idle connections leave 192 KiB to requests, of which 40 take 340 KiB.
  const { gateway, held, respond } = await start(64, 128 * kib);
  await Promise.all(Array.from({ length: 60 }, () => openIdle(gateway, "10.0.0.1")));
  const requests = Array.from({ length: 10 }, (_, i) =>
    frame(frameType.headers, endHeaders | endStream, 2 * i + 1, block("/held")),
  );
  const clients = others(4).map((address) => openFrom(gateway, address, clientPreface));
  for (const { socket } of clients) socket.write(Buffer.concat([settings, ...requests]));
  await expect.poll(() => held.length).toBe(40);
  await countHeads(gateway, () => gateway.shed.length > 0);
  for (let i = 0; i < 3; i++) gateway.clock.advance(100);
  for (const shed of gateway.shed) expect(shed).toEqual({ reason: "idle", client: "10.0.0.1" });
  // No more than necessary.
  expect(gateway.shed.length).toBeLessThan(25);
  respond();
  for (const client of clients) await expect.poll(() => framesOfType(client, frameType.headers)).toBe(10);
  expect(gateway.records.filter(({ reason }) => reason === "HeadMemoryFull")).toEqual([]);
});
