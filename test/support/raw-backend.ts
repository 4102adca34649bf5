/** A backend without an HTTP server in between: answers each request with the bytes that it is given. */
import { type AddressInfo, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/**
 * Listens on a free port of 127.0.0.1 until the test ends; returns the port.
 *
 * @param answerTo in latin1, by the request's path; asked for each head that has come.
 */
export function startRawBackend(answerTo: (path: string) => string): Promise<number> {
  return startRawServer((socket) => {
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      for (let end = text.indexOf("\r\n\r\n"); end !== -1; end = text.indexOf("\r\n\r\n")) {
        const [, path = ""] = text.split(" ", 2);
        text = text.slice(end + 4);
        socket.write(answerTo(path), "latin1");
      }
    });
  });
}

/** Listens on a free port of 127.0.0.1 until the test ends; returns the port. @param serve takes each connection. */
export async function startRawServer(serve: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    serve(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  // A TCP server that listens has such an address.
  return (server.address() as AddressInfo).port;
}
