/** Creates connections to endpoints, by their protocol. */
import type { Connection, ConnectionOptions, ConnectionOwner, ConnectionTarget, SessionStore } from "./connection.ts";
import { Http1Connection } from "./http1-connection.ts";
import { Http2Connection } from "./http2-connection.ts";

/**
 * Creates a connection, which connects with its first call.
 *
 * @param sessions shared by the connections to the endpoint.
 */
export function createConnection(
  target: ConnectionTarget,
  options: ConnectionOptions,
  sessions: SessionStore,
  owner: ConnectionOwner,
): Connection {
  if (target.protocol === "h2") return new Http2Connection(target, options, sessions, owner);
  return new Http1Connection(target, options, sessions, owner);
}
