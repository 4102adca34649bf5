/** What the reads of sockets receive. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { readsOf } from "./socket-reads.ts";

const sent = randomBytes(2 * 1024 * 1024);

/** Starts a server that sends `sent`, and after a byte of the client `last`. @returns its port. */
async function startServer(last: Buffer): Promise<number> {
  const server = createServer({ noDelay: true }, (socket) => {
    socket.write(sent);
    socket.once("data", () => socket.end(last));
  });
  onTestFinished(() => void server.close());
  await once(server.listen(0, "127.0.0.1"), "listening");
  // A listening TCP server has an address with a port.
  return (server.address() as AddressInfo).port;
}

/** Receives all bytes: parts that are kept as they came, and copies of the others. */
async function receive(port: number) {
  const parts: { readonly bytes: Buffer; readonly isKept: boolean }[] = [];
  let length = 0;
  const receivePart = (bytes: Buffer, isKept: boolean): boolean => {
    parts.push({ bytes: isKept ? bytes : Buffer.from(bytes), isKept });
    length += bytes.length;
    if (length === sent.length) socket.write("x");
    return true;
  };
  const socket = connect({ port, host: "127.0.0.1", onread: readsOf(receivePart, false) });
  await once(socket, "close");
  return { parts, bytes: Buffer.concat(parts.map(({ bytes }) => bytes)) };
}

test("bytes that are kept do not change, while other sockets are read", async () => {
  const port = await startServer(Buffer.alloc(0));
  for (const { parts, bytes } of await Promise.all([receive(port), receive(port), receive(port)])) {
    expect(bytes.equals(sent)).toBe(true);
    expect(parts.some(({ isKept }) => isKept)).toBe(true);
  }
});

test("a short read is not kept, since it would keep a long buffer", async () => {
  const last = Buffer.from("the last part");
  const { parts, bytes } = await receive(await startServer(last));
  expect(bytes.equals(Buffer.concat([sent, last]))).toBe(true);
  expect(parts.at(-1)).toEqual({ bytes: last, isKept: false });
});

/** Sockets to a server that sends without end, and the bytes that they have received. */
async function openEndless(count: number, receive: (socket: Socket) => boolean) {
  const endless = Buffer.alloc(1024 * 1024);
  const server = createServer((socket) => {
    const send = (): void => {
      while (!socket.destroyed && socket.write(endless)) continue;
    };
    socket.on("drain", send).on("error", () => undefined);
    send();
  });
  onTestFinished(() => void server.close());
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const state = { bytes: 0 };
  const sockets = Array.from({ length: count }, () => {
    const receiveBytes = (bytes: Buffer): boolean => {
      state.bytes += bytes.length;
      return receive(socket);
    };
    const socket: Socket = connect({ port, host: "127.0.0.1", onread: readsOf(receiveBytes, false) });
    onTestFinished(() => void socket.destroy());
    return socket;
  });
  await Promise.all(sockets.map((socket) => once(socket, "connect")));
  return { state, sockets };
}

test("a turn of the event loop reads a bounded part of fast responses", async () => {
  const count = 40;
  const { state } = await openEndless(count, () => true);
  let most = 0;
  for (let turns = 0; turns < 300; turns++) {
    const before = state.bytes;
    await turn();
    most = Math.max(most, state.bytes - before);
  }
  // A quarter of a MiB of long reads, then one read of each socket.
  expect(most).toBeLessThanOrEqual(256 * 1024 + count * 64 * 1024);
  expect(state.bytes).toBeGreaterThan(10 * 1024 * 1024);
});

test("a turn of the event loop reads few responses whose reads take long", async () => {
  let reads = 0;
  await openEndless(40, () => {
    reads++;
    const endMs = performance.now() + 5;
    while (performance.now() < endMs);
    return true;
  });
  // Until all of them have been read once.
  while (reads < 100) await turn();
  let most = 0;
  for (let turns = 0; turns < 50; turns++) {
    const before = reads;
    await turn();
    most = Math.max(most, reads - before);
  }
  expect(most).toBeLessThanOrEqual(2);
});

test("a socket that its receiver has paused is not read again", async () => {
  let isPaused = false;
  const { state, sockets } = await openEndless(40, (socket) => {
    if (isPaused) socket.pause();
    return !isPaused;
  });
  while (state.bytes < 10 * 1024 * 1024) await turn();
  isPaused = true;
  for (const socket of sockets) socket.pause();
  const { bytes } = state;
  for (let turns = 0; turns < 50; turns++) await turn();
  expect(state.bytes).toBe(bytes);
  isPaused = false;
  for (const socket of sockets) socket.resume();
  await expect.poll(() => state.bytes).toBeGreaterThan(bytes + 10 * 1024 * 1024);
});
