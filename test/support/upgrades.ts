/** Servers that switch protocols: a real WebSocket server, and one with a protocol that the test implements. */
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { onTestFinished } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";

export interface UpgradeBackend {
  readonly port: number;
  /** Heads of the requests for a switch of protocols, in that order. */
  readonly requests: readonly IncomingMessage[];
}

/** A WebSocket server on 127.0.0.1 until the test ends. */
export function startWebSocketBackend(serve: (client: WebSocket) => void = echoMessages): Promise<UpgradeBackend> {
  const server = new WebSocketServer({ noServer: true });
  return startUpgradeBackend((request, socket, head) => server.handleUpgrade(request, socket, head, serve));
}

/** A server whose handler receives every connection with a request for a switch of protocols. */
export async function startUpgradeBackend(
  onUpgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void,
): Promise<UpgradeBackend> {
  const requests: IncomingMessage[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((_request, response) => response.end("not switched"));
  server.on("connection", (socket) => sockets.add(socket));
  server.on("upgrade", (request, socket, head) => {
    requests.push(request);
    // Tests reset connections on purpose.
    socket.on("error", () => undefined);
    onUpgrade(request, socket, head);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  // A listening TCP server has such an address.
  return { port: (server.address() as AddressInfo).port, requests };
}

/** Sends every message back, text as text. */
export function echoMessages(client: WebSocket): void {
  client.on("message", (data, isBinary) => client.send(data, { binary: isBinary }));
}

/** Requests a switch to `protocol`; resolves with the socket, the head of the response and the bytes after it. */
export function requestUpgrade(
  url: string,
  protocol: string,
  fields = "",
  target = "/",
): Promise<{ readonly socket: Socket; readonly head: string; readonly rest: string }> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    let text = "";
    const socket = connect(Number(port), hostname);
    onTestFinished(() => void socket.destroy());
    socket.on("error", reject);
    socket.write(
      `GET ${target} HTTP/1.1\r\nHost: a.example\r\nConnection: keep-alive, Upgrade\r\nUpgrade: ${protocol}\r\n${fields}\r\n`,
    );
    socket.on("data", function read(chunk: Buffer) {
      text += chunk.toString("latin1");
      const end = text.indexOf("\r\n\r\n");
      if (end === -1) return;
      socket.off("data", read);
      resolve({ socket, head: text.slice(0, end), rest: text.slice(end + 4) });
    });
  });
}
