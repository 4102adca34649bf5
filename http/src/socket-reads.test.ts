/** What the reads of sockets receive. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
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
