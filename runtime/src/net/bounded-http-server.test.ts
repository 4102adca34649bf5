import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createBoundedServer } from "./bounded-http-server.ts";

const maxConnections = 4;
const wholeRequest = "GET /whole HTTP/1.1\r\nhost: a\r\n\r\n";

/** A server whose test decides when it responds to a request. */
async function startServer() {
  const waiting: { request: IncomingMessage; response: ServerResponse }[] = [];
  const server = createBoundedServer({ maxConnections }, (request, response) => {
    waiting.push({ request, response });
    server.emit("waiting");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo; // A listening TCP server has such an address.
  const untilWaiting = async (count: number) => {
    while (waiting.length < count) await once(server, "waiting");
  };
  /** Waits for a request with this path, and responds. */
  const respondTo = async (path: string) => {
    for (;;) {
      const found = waiting.find(({ request }) => request.url === path);
      if (found !== undefined) return found.response.end("served");
      await once(server, "waiting");
    }
  };
  return { port, waiting, untilWaiting, respondTo };
}

/** Connects from an address of the loopback network and sends `text`. */
async function open(port: number, localAddress: string, text: string): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", localAddress });
  socket.on("error", () => undefined);
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect");
  socket.write(text);
  return socket;
}

/** Opens one connection from each of as many addresses as there are connections. */
async function fill(port: number, text: string): Promise<readonly Socket[]> {
  const sockets: Socket[] = [];
  for (let at = 1; at <= maxConnections; at++) sockets.push(await open(port, `127.0.0.${at + 1}`, text));
  return sockets;
}

test.each([
  ["an incomplete head", "GET / HTTP/1.1\r\nhost:"],
  ["an incomplete body", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nab"],
  ["no request", ""],
])("connections with %s of many addresses do not keep another client out", async (_name, text) => {
  const { port, respondTo } = await startServer();
  const [oldest] = await fill(port, text);
  const client = await open(port, "127.0.0.100", wholeRequest);
  await respondTo("/whole");
  const [received] = (await once(client, "data")) as [Buffer];
  expect(String(received)).toContain("served");
  if (oldest?.closed === false) await once(oldest, "close");
});

test("a client does not displace requests in progress, nor another client with its second connection", async () => {
  const { port, untilWaiting } = await startServer();
  const sockets = await fill(port, wholeRequest);
  await untilWaiting(maxConnections);
  await once(await open(port, "127.0.0.100", wholeRequest), "close");
  await once(await open(port, "127.0.0.2", ""), "close");
  expect(sockets.map(({ closed }) => closed)).toEqual([false, false, false, false]);
});

test("a second request before the response to the first closes the connection", async () => {
  const { port, waiting } = await startServer();
  const client = await open(port, "127.0.0.2", wholeRequest.repeat(2));
  await once(client, "close");
  expect(waiting).toHaveLength(1);
});
