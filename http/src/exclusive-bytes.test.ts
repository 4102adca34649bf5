/** When the memory of long buffers is released. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { releaseMemory, writeExclusive } from "./exclusive-bytes.ts";

const longBytes = 64 * 1024;

/** Returns both ends of a connection. */
async function connected(): Promise<readonly [Socket, Socket]> {
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  // A listening TCP server has an address with a port.
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const [peer] = (await once(server, "connection")) as [Socket];
  onTestFinished(() => {
    client.destroy();
    peer.destroy();
    server.close();
  });
  return [client, peer];
}

test("bytes are in memory until they are sent, and not after that", async () => {
  const [client, peer] = await connected();
  const parts = Array.from({ length: 200 }, (_, part) => Buffer.alloc(longBytes, part));
  const expected = Buffer.concat(parts);
  // More than the kernel takes before the peer reads.
  for (const part of parts) writeExclusive(client, part);
  client.end();
  expect(parts.at(-1)).toHaveLength(longBytes);
  const received: Buffer[] = [];
  for await (const chunk of peer) received.push(chunk as Buffer);
  expect(Buffer.concat(received).equals(expected)).toBe(true);
  expect(parts.map(({ length }) => length)).toEqual(parts.map(() => 0));
});

test.each([
  ["a short buffer", Buffer.allocUnsafeSlow(1_024)],
  ["a buffer of the pool", Buffer.allocUnsafe(Buffer.poolSize / 2 - 1)],
  ["a part of a longer buffer", Buffer.allocUnsafeSlow(2 * longBytes).subarray(longBytes)],
])("%s keeps its memory, which others may use", (_name, bytes) => {
  const { length } = bytes;
  releaseMemory(bytes);
  expect(bytes).toHaveLength(length);
});
