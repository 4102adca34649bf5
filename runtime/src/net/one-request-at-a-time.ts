import type { RequestListener } from "node:http";
import type { Socket } from "node:net";

/**
 * Serves one request of a connection at a time. A request that arrives before the response to the previous one has ended
 * (pipelining, RFC 9112 §9.3.2) closes the connection; the client may retry on another. Node parses all requests of a
 * packet at once, so a few kilobytes could otherwise start thousands of responses.
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
