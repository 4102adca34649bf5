/** A server of `node:http` for operators and tools: few connections, and one request of each at a time. */
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerOptions } from "node:http";
import type { Socket } from "node:net";
import { FairConnectionLimit } from "./fair-connection-limit.ts";

/** Options of `createServer` in node:http, and the number of connections. */
export interface BoundedServerOptions extends ServerOptions {
  /** Maximum number of connections at one time; `FairConnectionLimit` shares them between networks. */
  readonly maxConnections: number;
}

/**
 * Creates a server that serves one request of a connection at a time. A request that arrives before the response to the
 * previous one has ended (pipelining, RFC 9112 §9.3.2) closes the connection; the client may retry on another. Node
 * parses all requests of a packet at once, so a few kilobytes could otherwise start thousands of responses.
 *
 * If all connections are taken, a client of another network displaces the oldest one without a complete request: that
 * of a client that sends its request slowly, or only keeps its connection open.
 */
export function createBoundedServer(
  { maxConnections, ...options }: BoundedServerOptions,
  serve: RequestListener,
): Server {
  const inProgress = new WeakMap<Socket, IncomingMessage>();
  const server = createServer(options, (request, response) => {
    const { socket } = request;
    if (inProgress.has(socket)) {
      socket.destroy();
      return;
    }
    inProgress.set(socket, request);
    response.once("close", () => inProgress.delete(socket));
    serve(request, response);
  });
  const limit = new FairConnectionLimit(maxConnections, (socket) => inProgress.get(socket)?.complete !== true);
  server.on("connection", (socket: Socket) => limit.accept(socket));
  return server;
}
