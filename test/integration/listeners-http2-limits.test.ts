/** The cost of one misbehaving HTTP/2 client is bounded: raw frames, and another client that is not affected. */
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { expect, onTestFinished, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";
import {
  endHeaders,
  endStream,
  frame,
  framesOf,
  frameType,
  openRawHttp2,
  type RawHttp2,
  rootRequest,
} from "../support/raw-http2.ts";
import { sendHttp2 } from "../support/tls.ts";

async function start(): Promise<TestGateway> {
  const { port } = await startBackend(respondWith(200, "ok"));
  return startGateway(
    manifests(gatewayManifest(), backendManifest("b", port), routeManifest("r", [`backendRefs: [${backendRef("b")}]`])),
  );
}

/** The number of RST_STREAM frames with REFUSED_STREAM. */
function unprocessedStreams(bytes: Buffer): number {
  return framesOf(bytes).filter(({ type, payload }) => type === frameType.rstStream && payload.readUInt32BE() === 7)
    .length;
}

/** Error codes of the GOAWAY frames among the bytes (RFC 9113 §7). */
function goaways(bytes: Buffer): readonly number[] {
  return framesOf(bytes)
    .filter(({ type }) => type === frameType.goaway)
    .map(({ payload }) => payload.readUInt32BE(4));
}

/** Writes until the server closes the connection, at most `times`. */
async function flood({ socket }: RawHttp2, times: number, piece: (index: number) => Buffer): Promise<void> {
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  for (let index = 0; index < times && !socket.destroyed; index++) {
    if (socket.write(piece(index))) continue;
    await Promise.race([new Promise<void>((resolve) => socket.once("drain", () => resolve())), closed]);
  }
  await closed;
}

const enhanceYourCalm = 11;
const internalError = 2;

test("a client that resets every stream that it opens is disconnected, and another one is served at that time", async () => {
  const gateway = await start();
  const session = connectHttp2(gateway.url());
  onTestFinished(() => session.destroy());
  const attacker = openRawHttp2(gateway.url());
  const flooding = flood(attacker, 20_000, (index) => {
    const stream = 2 * index + 1;
    const cancel = Buffer.from([0, 0, 0, 8]);
    return Buffer.concat([
      frame(frameType.headers, endStream | endHeaders, stream, rootRequest),
      frame(frameType.rstStream, 0, stream, cancel),
    ]);
  });
  const responses = [];
  for (let i = 0; i < 20; i++) responses.push(await sendHttp2(session, "a"));
  expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]));
  await flooding;
  expect([enhanceYourCalm, internalError]).toContain(goaways(attacker.received())[0]);
  // 1,000 at once and 100 a second, of 20,000.
  expect(gateway.records.length).toBeLessThan(5_000);
});

test("a head without end is bounded", async () => {
  const attacker = openRawHttp2((await start()).url());
  const piece = Buffer.alloc(1_024);
  await flood(attacker, 100_000, (index) =>
    index === 0 ? frame(frameType.headers, endStream, 1, rootRequest) : frame(frameType.continuation, 0, 1, piece),
  );
  expect(attacker.socket.bytesWritten).toBeLessThan(50 * 1024 * 1024);
});

test.each([
  ["SETTINGS", frame(frameType.settings, 0, 0, Buffer.from([0, 3, 0, 0, 0, 100]))],
  ["PING", frame(frameType.ping, 0, 0, Buffer.alloc(8))],
])(
  "a client that sends %s without end and reads nothing is disconnected before it uses much memory",
  async (_, piece) => {
    const gateway = await start();
    const attacker = openRawHttp2(gateway.url());
    attacker.socket.pause();
    const before = process.memoryUsage().rss;
    const many = Buffer.concat(Array.from({ length: 1_000 }, () => piece));
    const flooding = flood(attacker, 5_000, () => many);
    await expect
      .poll(() => {
        // The client is given a moment to read the GOAWAY.
        gateway.clock.advance(1_000);
        return attacker.socket.closed;
      })
      .toBe(true);
    await flooding;
    expect(process.memoryUsage().rss - before).toBeLessThan(128 * 1024 * 1024);
  },
);

test("streams beyond the limit of concurrent streams are reset, and the others are served", async () => {
  const { promise: goOn, resolve: respond } = Promise.withResolvers<undefined>();
  const { port } = await startBackend((_request, response) => void goOn.then(() => response.end("ok")));
  const gateway = await startGateway(
    manifests(gatewayManifest(), backendManifest("b", port), routeManifest("r", [`backendRefs: [${backendRef("b")}]`])),
  );
  const client = openRawHttp2(gateway.url());
  await once(client.socket, "data");
  // The client has not acknowledged the settings. One that has would violate the protocol and be disconnected.
  const streams = Array.from({ length: 110 }, (_, index) =>
    frame(frameType.headers, endStream | endHeaders, 2 * index + 1, rootRequest),
  );
  client.socket.write(Buffer.concat(streams));
  await expect.poll(() => unprocessedStreams(client.received())).toBe(10);
  respond(undefined);
  await expect.poll(() => gateway.records.length).toBe(100);
  expect(new Set(gateway.records.map(({ status }) => status))).toEqual(new Set([200]));
});

test("a request with too many header fields is rejected, and the connection stays open", async () => {
  const session = connectHttp2((await start()).url());
  onTestFinished(() => session.destroy());
  const fields = Object.fromEntries(Array.from({ length: 201 }, (_, index) => [`x-${index}`, "1"]));
  const stream = session.request({ ":path": "/", ...fields });
  const [headers] = (await once(stream, "response")) as [Record<string, unknown>];
  expect(headers[":status"]).toBe(431);
  expect((await sendHttp2(session, "a")).status).toBe(200);
});

test("a client may wait for the responses of all its streams at once, however slowly it reads", async () => {
  const { port } = await startBackend(respondWith(200, "x".repeat(400_000)));
  const gateway = await startGateway(
    manifests(gatewayManifest(), backendManifest("b", port), routeManifest("r", [`backendRefs: [${backendRef("b")}]`])),
  );
  const client = openRawHttp2(gateway.url());
  await once(client.socket, "data");
  const noWindow = frame(frameType.settings, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0]));
  const streams = Array.from({ length: 100 }, (_, index) =>
    frame(frameType.headers, endStream | endHeaders, 2 * index + 1, rootRequest),
  );
  client.socket.write(Buffer.concat([noWindow, ...streams]));
  const heads = (): number => framesOf(client.received()).filter(({ type }) => type === frameType.headers).length;
  await expect.poll(heads).toBe(100);
  // Each time the server reads, it bounds what waits.
  const pongs = (): number => framesOf(client.received()).filter(({ type }) => type === frameType.ping).length;
  for (let sent = 1; sent <= 20; sent++) {
    client.socket.write(frame(frameType.ping, 0, 0, Buffer.alloc(8)));
    await expect.poll(pongs).toBe(sent);
  }
  expect(goaways(client.received())).toEqual([]);
});
