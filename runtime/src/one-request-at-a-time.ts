import type { RequestListener } from "node:http";
import type { Socket } from "node:net";

/**
 * Serves one request of a connection at a time. A request that comes before the answer to the one before it (pipelining,
 * RFC 9112 §9.3.2) ends the connection; its client may ask again on another. Node reads all requests of a packet at once,
 * so that a few kilobytes would otherwise start thousands of answers.
 */
export function oneRequestAtATime(serve: RequestListener): RequestListener {
  const busy = new WeakSet<Socket>();
  return (request, response) => {
    const { socket } = request;
    if (busy.has(socket)) {
      socket.destroy();
      return;
    }
    busy.add(socket);
    response.once("close", () => busy.delete(socket));
    serve(request, response);
  };
}
