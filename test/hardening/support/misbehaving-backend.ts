/** A backend whose responses fail in the way that the path names. */
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

const head = (length: number): string => `HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n`;

const partMs = 50;
const parts = 20;

/** Sends a part at a time, and keeps the connection. */
function respondSlowly(socket: Socket): void {
  socket.write(head(parts * 1_024));
  let sent = 0;
  const timer = setInterval(() => {
    if (!socket.destroyed) socket.write(Buffer.alloc(1_024, "x"));
    if (socket.destroyed || ++sent === parts) clearInterval(timer);
  }, partMs);
}

const responses: Readonly<Record<string, (socket: Socket) => void>> = {
  "/large": (socket) => socket.write(Buffer.concat([Buffer.from(head(4_000_000)), Buffer.alloc(4_000_000, "x")])),
  "/slow": respondSlowly,
  "/reset": (socket) => socket.write(`${head(100)}part`, () => socket.resetAndDestroy()),
  "/truncated": (socket) => socket.end(`${head(100)}part`),
  "/stopped": (socket) => socket.write(`${head(100)}part`),
  "/silent": () => undefined,
};

/**
 * Starts the backend on a port of 127.0.0.1. It responds to any other path with 200, as soon as the head has arrived.
 */
export async function startMisbehavingBackend(): Promise<{ readonly port: number; readonly open: () => number }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
    socket.on("data", (bytes: Buffer) => {
      const path = /^[A-Z]+ (\S+) HTTP\/1\.1\r\n/.exec(bytes.toString("latin1"))?.[1];
      // Anything else is a part of a body.
      if (path !== undefined) (responses[path] ?? ((to: Socket) => to.write(`${head(2)}ok`)))(socket);
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the backend has no port");
  return { port: address.port, open: () => sockets.size };
}
