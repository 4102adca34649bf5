import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, onTestFinished, test } from "vitest";
import { MemcacheServer } from "./memcache-server.ts";

/** Starts a server that responds to the first command of each connection, and then calls `afterwards`. */
async function start(afterwards: (socket: Socket) => void) {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => undefined);
    socket.once("data", () => socket.write("VERSION 1.6.0\r\n", () => afterwards(socket)));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  // A TCP server that listens has such an address.
  const { port } = server.address() as AddressInfo;
  const clock = new FakeClock();
  const memcached = new MemcacheServer({ address: { host: "127.0.0.1", port }, timeoutMs: 500, clock });
  onTestFinished(() => {
    memcached.close();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { memcached, sockets, clock };
}

test("a server that floods an idle connection loses it", async () => {
  const flood = (socket: Socket): void => {
    if (!socket.destroyed) socket.write(Buffer.alloc(65_536, "x"), () => flood(socket));
  };
  const { memcached, sockets, clock } = await start(flood);
  await memcached.probe();
  await expect.poll(() => sockets[0]?.closed).toBe(true);
  await expect(memcached.probe()).rejects.toThrow("sent more than 1048576 bytes without a response");
  clock.advance(250);
  await memcached.probe();
});

test("many responses are no flood", async () => {
  const { memcached, sockets } = await start((socket) => {
    socket.on("data", (bytes: Buffer) => {
      const commands = bytes.toString().split("\r\n").length - 1;
      socket.write(`VERSION ${"1".repeat(1_000)}\r\n`.repeat(commands));
    });
  });
  await memcached.probe();
  for (let round = 0; round < 20; round++) await Promise.all(Array.from({ length: 100 }, () => memcached.probe()));
  expect(sockets).toHaveLength(1);
});
