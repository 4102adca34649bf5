/**
 * Bodies in pieces of one byte: the buffered part uses the memory of its bytes, not that of its pieces. A connection
 * that sends a flood of frames is closed.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import { connect as connectHttp2, constants } from "node:http2";
import { type AddressInfo, connect, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { BodyBudget, createBodyMemory } from "../../proxy/src/pipeline/body/body-budget.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";
import { usedMemory } from "../support/memory.ts";
import { frame, frameType } from "../support/raw-http2.ts";

const mib = 1024 * 1024;
/** A piece that Node keeps separately takes some 800 bytes. */
const pieces = 8 * 1024;
/** The memory that 8 KiB in pieces of one byte may take, with everything else in the process. */
const maxBytes = 4 * mib;

/** A backend that reads no body and sends no response; `/v1` is an LLM's. */
async function start() {
  const server = createServer(() => undefined).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const llm = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: { model: m } }, host: 127.0.0.1, port: ${port} } }
`;
  const rules = [
    `{ matches: [{ path: { type: PathPrefix, value: /v1 } }], backendRefs: [${backendRef("llm")}] }`,
    `{ backendRefs: [${backendRef("b")}] }`,
  ];
  const bodies = new BodyBudget(createBodyMemory(1), 1, 64 * mib);
  const gateway = await startGateway(
    manifests(gatewayManifest(), llm, backendManifest("b", port), routeManifest("r", rules)),
    { bodies, upstream: { maxConnections: 1, maxRequests: 100, maxWaiting: 100, maxWaitMs: 3_600_000 } },
  );
  return { gateway, bodies };
}

function open(gateway: TestGateway): Socket {
  const { hostname, port } = new URL(gateway.url());
  const socket = connect(Number(port), hostname);
  socket.on("error", () => undefined);
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** Requests that reached a backend or are pending. */
function pending(gateway: TestGateway): number {
  return gateway.dataPlane.endpoints().reduce((sum, endpoint) => sum + endpoint.pending, 0);
}

const chunked = (path: string): string => `POST ${path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`;
const tinyChunks = Buffer.from("1\r\nx\r\n".repeat(pieces));

/** Resolves when the peer accepts no more, or has all. */
async function fill(socket: Socket, bytes: Buffer): Promise<void> {
  socket.write(bytes);
  let before = -1;
  for (let same = 0; same < 5; ) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    same = socket.bytesWritten - socket.writableLength === before ? same + 1 : 0;
    before = socket.bytesWritten - socket.writableLength;
  }
}

/** The memory that `act` allocates. */
async function takenBy(act: () => Promise<void>): Promise<number> {
  const before = await usedMemory();
  await act();
  return (await usedMemory()) - before;
}

test("a buffered body, in chunks", async () => {
  const { gateway, bodies } = await start();
  const socket = open(gateway);
  const taken = await takenBy(async () => {
    socket.write(chunked("/v1/chat/completions"));
    await fill(socket, tinyChunks);
  });
  expect(taken).toBeLessThan(maxBytes);
  expect(bodies.heldBytes).toBeGreaterThanOrEqual(pieces);
});

test("a body that the backend does not read, in chunks", async () => {
  const { gateway } = await start();
  open(gateway).write("GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
  await expect.poll(() => pending(gateway)).toBe(1);
  const socket = open(gateway);
  const taken = await takenBy(async () => {
    socket.write(chunked("/waits"));
    await fill(socket, tinyChunks);
  });
  expect(taken).toBeLessThan(maxBytes);
});

test("a body of a pipelined request, in chunks", async () => {
  const { gateway } = await start();
  const socket = open(gateway);
  const taken = await takenBy(async () => {
    socket.write(`GET /first HTTP/1.1\r\nHost: a\r\n\r\n${chunked("/second")}`);
    await fill(socket, tinyChunks);
  });
  expect(taken).toBeLessThan(maxBytes);
});

test.each(["/v1/chat/completions", "/waits"])("a body of %s, in frames", async (path) => {
  const { gateway } = await start();
  open(gateway).write("GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
  await expect.poll(() => pending(gateway)).toBe(1);
  let socket: Socket | undefined;
  const session = connectHttp2(gateway.url(), { createConnection: () => (socket = open(gateway)) });
  session.on("error", () => undefined);
  onTestFinished(() => session.destroy());
  const request = session.request({ ":method": "POST", ":path": path });
  request.on("error", () => undefined);
  await new Promise((resolve) => session.once("localSettings", resolve));
  const tinyFrames = Buffer.concat(Array.from({ length: pieces }, () => frame(frameType.data, 0, 1, Buffer.from("x"))));
  const taken = await takenBy(async () => {
    if (socket !== undefined) await fill(socket, tinyFrames);
  });
  expect(taken).toBeLessThan(maxBytes);
});

/** More small pieces than a connection may send at once. The clock of the gateway does not advance. */
const flood = 10_100;

test("chunks of one byte are not limited, since all chunks of one read are delivered together", async () => {
  const { gateway, bodies } = await start();
  const socket = open(gateway);
  socket.write(chunked("/v1/chat/completions") + "1\r\nx\r\n".repeat(flood));
  await expect.poll(() => bodies.heldBytes).toBeGreaterThanOrEqual(flood - (flood % 1_024));
  expect(socket.readyState).toBe("open");
});

test("a flood of DATA frames closes its connection by GOAWAY with ENHANCE_YOUR_CALM", async () => {
  const { gateway } = await start();
  let socket: Socket | undefined;
  const session = connectHttp2(gateway.url(), { createConnection: () => (socket = open(gateway)) });
  session.on("error", () => undefined);
  const goaway = once(session, "goaway");
  session.request({ ":method": "POST", ":path": "/waits" }).on("error", () => undefined);
  await once(session, "localSettings");
  socket?.write(Buffer.concat(Array.from({ length: flood }, () => frame(frameType.data, 0, 1, Buffer.from("x")))));
  expect((await goaway)[0]).toBe(constants.NGHTTP2_ENHANCE_YOUR_CALM);
});

test("frames of 64 bytes are not limited", async () => {
  const { gateway, bodies } = await start();
  let socket: Socket | undefined;
  const session = connectHttp2(gateway.url(), { createConnection: () => (socket = open(gateway)) });
  session.on("error", () => undefined);
  onTestFinished(() => session.destroy());
  session.request({ ":method": "POST", ":path": "/v1/chat/completions" }).on("error", () => undefined);
  await once(session, "localSettings");
  const piece = frame(frameType.data, 0, 1, Buffer.alloc(64));
  socket?.write(Buffer.concat(Array.from({ length: flood }, () => piece)));
  // The last 16 KiB may not be counted yet.
  await expect.poll(() => bodies.heldBytes).toBeGreaterThan((flood - 256) * 64);
  expect(session.closed).toBe(false);
});
