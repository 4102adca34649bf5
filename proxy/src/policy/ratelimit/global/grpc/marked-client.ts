/**
 * Marks the calls to rate limit services in `CDN-Loop` (RFC 8586). A service may lead back to this Gateway, or to
 * another one, where each call would cause further calls.
 */
import type { UnaryClient } from "./unary-client.ts";

/** The member of `CDN-Loop`. Gateways reject it where they would call a service for it (`filters/loop.ts`). */
const mark = ["cdn-loop", "gateway-proxy; rate-limit"] as const;

/** Returns a client that marks all of its calls. */
export function markedClient(client: UnaryClient): UnaryClient {
  return {
    update: (endpoints) => client.update(endpoints),
    call(path, message, timeoutMs, done, fields) {
      client.call(path, message, timeoutMs, done, fields === undefined ? mark : [...mark, ...fields]);
    },
    close: () => client.close(),
  };
}
