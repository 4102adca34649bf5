/** Clients that stop reading or sending within a request, on a clock that the test advances. */
import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
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
import { endHeaders, endStream, frame, framesOf, frameType, openRawHttp2, rootRequest } from "../support/raw-http2.ts";
import { requestUpgrade, startUpgradeBackend } from "../support/upgrades.ts";

const timeoutMs = 80_000;
/** The time after which a stall that began before is detected. */
const detectedMs = timeoutMs * 1.25;

function serve(port: number): Promise<TestGateway> {
  const route = routeManifest("r", [`{ backendRefs: [${backendRef("b")}] }`]);
  const all = manifests(gatewayManifest(), backendManifest("b", port), route);
  return startGateway(all, { streamIdleTimeoutMs: timeoutMs, upgradeProtocols: ["echo", "flood"] });
}

/** A backend whose responses exceed all buffers on the way, and that counts its reset requests. */
async function endlessBackend() {
  let broken = 0;
  const chunk = Buffer.alloc(64 * 1024);
  const { port } = await startBackend((_request, response) => {
    const pump = (): void => {
      while (response.write(chunk));
    };
    response.on("drain", pump).on("close", () => broken++);
    pump();
  });
  return { port, broken: () => broken };
}

function openSocket(gateway: TestGateway, text: string): Socket {
  const { hostname, port } = new URL(gateway.url());
  const socket = connect(Number(port), hostname);
  socket.on("error", () => undefined);
  onTestFinished(() => void socket.destroy());
  socket.write(text);
  return socket;
}

/** Advances the clock until a request has ended: bytes that are sent before may still pass. */
async function nextEnded(gateway: TestGateway) {
  await expect
    .poll(() => {
      gateway.clock.advance(detectedMs);
      return gateway.records.length;
    })
    .toBeGreaterThan(0);
  return gateway.records[0];
}

function requestsOf(gateway: TestGateway) {
  const [listener] = gateway.dataPlane.tasks();
  return listener?.children.flatMap(({ children }) => children) ?? [];
}

/** The number of requests in progress. */
function inProgress(gateway: TestGateway): number {
  return requestsOf(gateway).length;
}

/** Resolves when the response of the only request has begun: before that, an advance of the clock ends it otherwise. */
async function responseBegun(gateway: TestGateway): Promise<void> {
  await expect.poll(() => requestsOf(gateway).map(({ detail }) => detail?.["status"])).toEqual([200]);
}

describe("a client that stops reading its response", () => {
  test("over HTTP/1.1 is disconnected, and so is the backend", async () => {
    const backend = await endlessBackend();
    const gateway = await serve(backend.port);
    const socket = openSocket(gateway, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    await responseBegun(gateway);
    expect(await nextEnded(gateway)).toMatchObject({ status: 200, reason: "StreamIdleTimeout" });
    await expect.poll(backend.broken).toBe(1);
    socket.resume();
    await expect.poll(() => socket.closed).toBe(true);
  });

  test("over HTTP/2 by a window of zero has its stream reset, and may use others", async () => {
    const backend = await endlessBackend();
    const gateway = await serve(backend.port);
    const client = openRawHttp2(gateway.url());
    const noWindow = Buffer.from([0, 4, 0, 0, 0, 0]);
    client.socket.write(frame(frameType.settings, 0, 0, noWindow));
    client.socket.write(frame(frameType.headers, endStream | endHeaders, 1, rootRequest));
    await responseBegun(gateway);
    expect(await nextEnded(gateway)).toMatchObject({ status: 200, reason: "StreamIdleTimeout" });
    const resets = () => framesOf(client.received()).filter(({ type }) => type === frameType.rstStream);
    await expect.poll(() => resets().map(({ stream }) => stream)).toEqual([1]);
    await expect.poll(backend.broken).toBe(1);
    client.socket.write(frame(frameType.headers, endStream | endHeaders, 3, rootRequest));
    const heads = () => framesOf(client.received()).filter(({ type }) => type === frameType.headers);
    await expect.poll(() => heads().map(({ stream }) => stream)).toEqual([1, 3]);
  });

  test("over HTTP/2 by not reading its connection is disconnected", async () => {
    const backend = await endlessBackend();
    const gateway = await serve(backend.port);
    const client = openRawHttp2(gateway.url());
    client.socket.pause();
    const wide = Buffer.from([0, 4, 0x7f, 0xff, 0xff, 0xff]);
    client.socket.write(frame(frameType.settings, 0, 0, wide));
    client.socket.write(frame(frameType.windowUpdate, 0, 0, Buffer.from([0x7f, 0, 0, 0])));
    client.socket.write(frame(frameType.headers, endStream | endHeaders, 1, rootRequest));
    await responseBegun(gateway);
    expect(await nextEnded(gateway)).toMatchObject({ status: 200, reason: "StreamIdleTimeout" });
    await expect.poll(backend.broken).toBe(1);
  });

  test("after a switch of protocols is disconnected, and so is the backend", async () => {
    let isClosed = false;
    const { port } = await startUpgradeBackend((_request, socket) => {
      socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: flood\r\n\r\n");
      socket.on("close", () => {
        isClosed = true;
      });
      const pump = (): void => {
        while (socket.write(Buffer.alloc(64 * 1024)));
      };
      socket.on("drain", pump);
      pump();
    });
    const gateway = await serve(port);
    const { socket } = await requestUpgrade(gateway.url(), "flood");
    socket.pause();
    expect(await nextEnded(gateway)).toMatchObject({ status: 101, reason: "StreamIdleTimeout" });
    await expect.poll(() => isClosed).toBe(true);
  });
});

describe("a client that stops sending its request", () => {
  test.each([
    ["whose body is buffered first", "Content-Length: 5\r\n\r\nab", 2, 0],
    ["whose body is streamed", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 3, 1],
  ])("over HTTP/1.1, %s, gets a 408 and is disconnected", async (_what, rest, requestBytes, calls) => {
    const backend = await startBackend((request) => void request.resume());
    const gateway = await serve(backend.port);
    const socket = openSocket(gateway, `POST / HTTP/1.1\r\nHost: a\r\n${rest}`);
    await expect.poll(() => inProgress(gateway) + backend.requests.length).toBe(1 + calls);
    const response = socket.toArray() as Promise<Buffer[]>;
    const expected = { status: 408, reason: "StreamIdleTimeout", requestBytes, attempts: calls };
    expect(await nextEnded(gateway)).toMatchObject(expected);
    const text = Buffer.concat(await response).toString();
    expect(text).toMatch(/^HTTP\/1\.1 408 /);
    expect(text).toContain("connection: close");
    await expect.poll(() => backend.requests.every(({ closed }) => closed)).toBe(true);
  });

  test("over HTTP/2 gets a 408", async () => {
    const backend = await startBackend((request) => void request.resume());
    const gateway = await serve(backend.port);
    const session = connectHttp2(gateway.url());
    onTestFinished(() => session.destroy());
    const stream = session.request({ ":method": "POST" });
    const status = new Promise((resolve) => stream.on("response", (headers) => resolve(headers[":status"])));
    stream.on("error", () => undefined);
    stream.write("abc");
    await expect.poll(() => backend.requests.length).toBe(1);
    expect(await nextEnded(gateway)).toMatchObject({ status: 408, reason: "StreamIdleTimeout" });
    expect(await status).toBe(408);
  });

  test("because the backend does not read it, gets a 504", async () => {
    const backend = await startBackend((request) => void request.pause());
    const gateway = await serve(backend.port);
    const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    const socket = openSocket(gateway, head);
    const chunk = Buffer.concat([Buffer.from("10000\r\n"), Buffer.alloc(65_536), Buffer.from("\r\n")]);
    const pump = (): void => {
      while (socket.write(chunk));
    };
    socket.on("drain", pump);
    pump();
    let written = 0;
    // Until the buffers on the way are full.
    await expect
      .poll(async () => {
        // The proxy reads uploads over several turns of the event loop.
        for (let turn = 0; turn < 50; turn++) await nextTurn();
        const isFull = socket.bytesWritten > 0 && socket.bytesWritten === written;
        written = socket.bytesWritten;
        return isFull && backend.requests.length === 1;
      })
      .toBe(true);
    expect(await nextEnded(gateway)).toMatchObject({ status: 504, reason: "UpstreamTimeout" });
    await expect.poll(() => gateway.dataPlane.endpoints().map(({ pending }) => pending)).toEqual([0]);
  });
});

describe("does not count as a stall of the client", () => {
  test("a backend that sends nothing, before its response and within it", async () => {
    const backend = await startBackend((_request, response) => void response.write("first"));
    const gateway = await serve(backend.port);
    const reply = await fetch(gateway.url());
    const reader = reply.body?.getReader();
    await reader?.read();
    gateway.clock.advance(10 * detectedMs);
    expect(inProgress(gateway)).toBe(1);
    await reader?.cancel();
  });

  test("an upload that continues after the response has begun", async () => {
    const backend = await startBackend((request, response) => {
      response.write("begun");
      request.resume().on("end", () => response.end());
    });
    const gateway = await serve(backend.port);
    const session = connectHttp2(gateway.url());
    onTestFinished(() => session.destroy());
    const stream = session.request({ ":method": "POST" });
    stream.write("abc");
    await new Promise((resolve) => stream.once("data", resolve));
    gateway.clock.advance(10 * detectedMs);
    stream.end("last");
    await stream.resume().toArray();
    await expect.poll(() => gateway.records[0]).toMatchObject({ status: 200, reason: undefined, requestBytes: 7 });
  });

  test("a slow upload, while some bytes arrive", async () => {
    const backend = await startBackend((request, response) => {
      request.resume().on("end", () => response.end("done"));
    });
    const gateway = await serve(backend.port);
    const socket = openSocket(gateway, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nConnection: close\r\n\r\n");
    await expect.poll(() => inProgress(gateway)).toBe(1);
    for (const letter of "slow") {
      gateway.clock.advance(timeoutMs * 0.8);
      socket.write(letter);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(Buffer.concat((await socket.toArray()) as Buffer[]).toString()).toMatch(/^HTTP\/1\.1 200 /);
  });

  test("a switched protocol without data", async () => {
    const { port } = await startUpgradeBackend((_request, socket) => {
      socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
      socket.pipe(socket);
    });
    const gateway = await serve(port);
    const { socket } = await requestUpgrade(gateway.url(), "echo");
    gateway.clock.advance(10 * detectedMs);
    socket.write("still here");
    const [echoed] = (await socket.take(1).toArray()) as Buffer[];
    expect(String(echoed)).toBe("still here");
  });
});

test("without the setting a client may take as long as it likes", async () => {
  const backend = await startBackend();
  const route = routeManifest("r", [`{ backendRefs: [${backendRef("b")}] }`]);
  const gateway = await startGateway(manifests(gatewayManifest(), backendManifest("b", backend.port), route));
  expect(gateway.clock.pendingTimers).toBe(0);
});
