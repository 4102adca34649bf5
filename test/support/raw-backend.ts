/** A backend without an HTTP server: responds to each request with the given bytes. */
import { type AddressInfo, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/**
 * Listens on a free port of 127.0.0.1 until the test ends; returns the port.
 *
 * @param responseTo the response in latin1, by the request's path and method; called for each head that was received.
 */
export function startRawBackend(responseTo: (path: string, method: string) => string): Promise<number> {
  return startRawServer((socket) => {
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      for (let end = text.indexOf("\r\n\r\n"); end !== -1; end = text.indexOf("\r\n\r\n")) {
        const [method = "", path = ""] = text.split(" ", 2);
        text = text.slice(end + 4);
        socket.write(responseTo(path, method), "latin1");
      }
    });
  });
}

/**
 * Listens on a free port of 127.0.0.1 until the test ends; returns the port.
 *
 * @param serve is called with each connection.
 */
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
  // A listening TCP server has such an address.
  return (server.address() as AddressInfo).port;
}
