import { once } from "node:events";
import { connect, constants } from "node:http2";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { endHeaders, endStream, frame, frameType, openRawHttp2, rootRequest } from "../../../test/support/raw-http2.ts";
import { systemClock } from "@gatewayproxy/runtime/clock";
import type { Downstream } from "./downstream.ts";
import { HeadCounts } from "./connection.ts";
import { Http2Sessions } from "./http2-server.ts";

/** Connects to sessions that are idle after 50 ms; `requests` are those that have come. */
async function start() {
  const requests: Downstream[] = [];
  const events = { onDrain: () => undefined, onBodyRejected: () => undefined, onClose: () => undefined };
  const onRequest = (downstream: Downstream) => {
    requests.push(downstream);
    return events;
  };
  const sessions = new Http2Sessions(
    { onRequest, onRejected: () => undefined, onParsed: () => undefined, clock: systemClock },
    new Map(),
    50,
  );
  const connection = { sourceAddress: "127.0.0.1", peer: "a client", tls: undefined, heads: new HeadCounts() };
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    sessions.serve(socket, connection);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A TCP server that listens has such an address.
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = connect(url);
  onTestFinished(async () => {
    client.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return { url, client, requests, sockets };
}

test("an idle connection is closed with GOAWAY", async () => {
  const { client } = await start();
  const [goaway] = await Promise.all([once(client, "goaway"), once(client, "close")]);
  expect(goaway[0]).toBe(constants.NGHTTP2_NO_ERROR);
});

test("a stream that is open on it may finish", async () => {
  const { client, requests } = await start();
  const stream = client.request({ ":path": "/" });
  const chunks: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  const closed = once(stream, "close");
  await once(client, "goaway");
  requests[0]?.respond(200, [], "late");
  await closed;
  expect(Buffer.concat(chunks).toString()).toBe("late");
});

test("the server waits for a client that does not read neither for its responses nor for GOAWAY", async () => {
  const { url, client, requests, sockets } = await start();
  client.destroy();
  const { socket } = openRawHttp2(url);
  socket.pause();
  const wide = Buffer.from([0x7f, 0xff, 0xff, 0xff]);
  socket.write(frame(frameType.settings, 0, 0, Buffer.concat([Buffer.from([0, 4]), wide])));
  socket.write(frame(frameType.windowUpdate, 0, 0, Buffer.from([0x7f, 0, 0, 0])));
  socket.write(frame(frameType.headers, endStream | endHeaders, 1, rootRequest));
  await expect.poll(() => requests.length).toBe(1);
  requests[0]?.start(200, []);
  await expect.poll(() => requests[0]?.write(Buffer.alloc(2 ** 20))).toBe(false);
  for (let i = 0; i < 16; i++) requests[0]?.write(Buffer.alloc(2 ** 20));
  requests[0]?.reset();
  await expect.poll(() => sockets.size).toBe(0);
});
