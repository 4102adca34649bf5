/** Uploads of several clients over one connection to an HTTP/2 endpoint: none holds up, or ends, those of others. */
import { request } from "node:http";
import type { Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { startHttp2Gateway } from "../support/http2-gateway.ts";
import { openFrom, type ProxiedClient } from "../support/proxied-client.ts";
import { endHeaders, endStream, frame, frameType, okHead, startRawHttp2Backend, uint32 } from "../support/raw-http2.ts";

/** RFC 9113 §7 */
const internalError = 2;
const enhanceYourCalm = 11;

test("an upload whose endpoint opens its windows often does not end the connection", async () => {
  const windowBytes = 1 << 20;
  const settings = Buffer.alloc(6);
  settings.writeUInt16BE(4, 0);
  settings.writeUInt32BE(windowBytes, 2);
  const sockets = new Set<Socket>();
  let headers = 0;
  // As Go does: two frames for 4 KiB.
  const port = await startRawHttp2Backend((frames, socket) => {
    if (!sockets.has(socket)) {
      socket.write(frame(frameType.settings, 0, 0, settings));
      socket.write(frame(frameType.windowUpdate, 0, 0, uint32(windowBytes)));
    }
    sockets.add(socket);
    for (const { type, flags, stream, payload } of frames) {
      if (type === frameType.headers) headers++;
      if (type !== frameType.data) continue;
      for (let start = 0; start < payload.length; start += 4_096) {
        const bytes = uint32(Math.min(4_096, payload.length - start));
        socket.write(Buffer.concat([0, stream].map((id) => frame(frameType.windowUpdate, 0, id, bytes))));
      }
      const isEnd = stream === 3 && (flags & endStream) !== 0;
      if (isEnd) socket.write(frame(frameType.headers, endHeaders | endStream, 3, okHead));
    }
  });
  const gateway = await startHttp2Gateway([port]);
  const waiting = fetch(`${gateway.url()}/waits`, { method: "POST", body: "a" });
  await expect.poll(() => headers).toBe(1);
  const upload = await fetch(`${gateway.url()}/upload`, { method: "POST", body: Buffer.alloc(64 << 20) });
  expect(upload.status).toBe(200);
  for (const socket of sockets) socket.write(frame(frameType.headers, endHeaders | endStream, 1, okHead));
  expect((await waiting).status).toBe(200);
  expect(sockets.size).toBe(1);
});

/** As with a server whose handler sends a stream, and does not read the body of the request. */
test("an upload that a server does not read delays no others", async () => {
  const uploads = new Map<Socket, number>();
  const port = await startRawHttp2Backend((frames, socket) => {
    for (const { type, flags, stream, payload } of frames) {
      if (type === frameType.data) uploads.set(socket, (uploads.get(socket) ?? 0) + payload.length);
      if (type !== frameType.data || (flags & endStream) === 0) continue;
      socket.write(frame(frameType.headers, endHeaders | endStream, stream, okHead));
    }
  });
  const gateway = await startHttp2Gateway([port]);
  const unread = request(`${gateway.url()}/unread`, { method: "POST" }).on("error", () => undefined);
  onTestFinished(() => void unread.destroy());
  unread.write(Buffer.alloc(200_000));
  // The first window of a connection.
  await expect.poll(() => [...uploads.values()]).toEqual([65_535]);
  const responses = Array.from({ length: 3 }, () => fetch(`${gateway.url()}/other`, { method: "POST", body: "a" }));
  expect((await Promise.all(responses)).map(({ status }) => status)).toEqual([200, 200, 200]);
  expect(uploads.size).toBe(2);
});

test("uploads that begin together do not wait for each other, and a server that pauses ends none of them", async () => {
  const uploads = new Map<Socket, number>();
  const streams: { readonly socket: Socket; readonly stream: number }[] = [];
  const port = await startRawHttp2Backend((frames, socket) => {
    for (const { type, stream, payload } of frames) {
      if (type === frameType.headers) streams.push({ socket, stream });
      if (type === frameType.data) uploads.set(socket, (uploads.get(socket) ?? 0) + payload.length);
    }
  });
  const gateway = await startHttp2Gateway([port]);
  // The gateway knows the window of an endpoint from an earlier connection.
  const first = fetch(gateway.url());
  await expect.poll(() => streams.length).toBe(1);
  const windowBytes = 65_535;
  const responses = Array.from({ length: 4 }, () =>
    fetch(gateway.url(), { method: "POST", body: Buffer.alloc(2 * windowBytes) }),
  );
  await expect.poll(() => [...uploads.values()]).toEqual(responses.map(() => windowBytes));
  for (let second = 0; second < 20; second++) gateway.clock.advance(1_000);
  for (const { socket, stream } of streams) {
    socket.write(frame(frameType.headers, endHeaders | endStream, stream, okHead));
  }
  expect((await Promise.all(responses)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  expect((await first).status).toBe(200);
});

/** A server of Go returns the window of a connection as its handlers read. */
test("uploads of one client that a server does not read leave window of the connection to others", async () => {
  const windowBytes = 65_535;
  const received = new Map<number, number>();
  const port = await startRawHttp2Backend((frames, socket) => {
    for (const { type, stream, payload } of frames) {
      if (type === frameType.headers) received.set(stream, 0);
      if (type !== frameType.data) continue;
      received.set(stream, (received.get(stream) ?? 0) + payload.length);
      if (stream !== 1) continue;
      const bytes = uint32(payload.length);
      socket.write(Buffer.concat([0, stream].map((id) => frame(frameType.windowUpdate, 0, id, bytes))));
    }
  });
  const gateway = await startHttp2Gateway([port], { expectsProxyHeader: true });
  const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  const open = async (address: string): Promise<ProxiedClient> => {
    const { size } = received;
    const client = openFrom(gateway, address, head);
    await expect.poll(() => received.size).toBe(size + 1);
    return client;
  };
  const write = ({ socket }: ProxiedClient, bytes: number): void => {
    socket.write(`${bytes.toString(16)}\r\n${"a".repeat(bytes)}\r\n`);
  };
  const read = await open("10.0.0.2");
  const unread: ProxiedClient[] = [];
  for (let count = 0; count < 10; count++) unread.push(await open("10.0.0.1"));
  for (const upload of unread) write(upload, windowBytes);
  const unreadBytes = (): number => [...received].reduce((sum, [stream, bytes]) => sum + (stream === 1 ? 0 : bytes), 0);
  await expect.poll(unreadBytes).toBeGreaterThan(windowBytes / 2);
  write(read, 4 * windowBytes);
  await expect.poll(() => received.get(1)).toBe(4 * windowBytes);
  expect(unread.map(({ text }) => text())).toEqual(unread.map(() => ""));
});

/** Tomcat ends a connection for small parts of an upload, and Kestrel for a slow one. */
test.each([
  ["Tomcat", enhanceYourCalm],
  ["Kestrel", internalError],
])(
  "a client during whose upload %s has ended the connection of several has connections of its own",
  async (_, code) => {
    const begun: { readonly socket: Socket; readonly stream: number }[] = [];
    const port = await startRawHttp2Backend((frames, socket) => {
      for (const { type, flags, stream } of frames) {
        if (type === frameType.headers && (flags & endStream) !== 0) begun.push({ socket, stream });
        if (type !== frameType.data) continue;
        socket.end(frame(frameType.goaway, 0, 0, Buffer.concat([uint32(stream), uint32(code)])));
        return;
      }
    });
    const gateway = await startHttp2Gateway([port], { expectsProxyHeader: true });
    const wait = async (count: number): Promise<ProxiedClient> => {
      // A method that is not repeated.
      const waiting = openFrom(gateway, "10.0.0.2", "DELETE /waits HTTP/1.1\r\nHost: a\r\n\r\n");
      await expect.poll(() => begun.length).toBe(count);
      return waiting;
    };
    const upload = async (): Promise<void> => {
      const head = "POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
      const uploading = openFrom(gateway, "10.0.0.1", `${head}1\r\na\r\n`);
      await expect.poll(uploading.text).toContain("HTTP/1.1 502");
    };
    const first = await wait(1);
    await upload();
    await expect.poll(first.text).toContain("HTTP/1.1 502");
    const second = await wait(2);
    for (let count = 0; count < 3; count++) await upload();
    begun[1]?.socket.write(frame(frameType.headers, endHeaders | endStream, begun[1].stream, okHead));
    await expect.poll(second.text).toContain("HTTP/1.1 200");
    gateway.clock.advance(300_000);
    const third = await wait(3);
    await upload();
    await expect.poll(third.text).toContain("HTTP/1.1 502");
  },
);
