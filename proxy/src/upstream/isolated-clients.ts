/**
 * The clients whose requests to an endpoint have connections of their own for a while, since the endpoint has ended a
 * connection by an error during an upload of theirs, or has rejected requests of others on a connection while they did
 * not read a response. Servers do so for slow uploads (Kestrel), for small parts of them (Tomcat), and for responses
 * that wait (Node), and the gateway cannot know it before. See ADR 66.
 */
import type { Connection, ConnectionCall } from "./connection.ts";
import type { UpstreamFailure } from "./failure.ts";

const isolationMs = 300_000;
/** Beyond it, the client that was isolated first is removed. */
const maxClients = 1_000;

/** The clients of one endpoint. */
export class IsolatedClients {
  /** By client, until when, on the monotonic clock; in the order of these times. */
  readonly #clients = new Map<string | undefined, number>();
  /** Connections that were ended so while several clients used them. */
  readonly #ended = new WeakSet<Connection>();

  has(client: string | undefined, nowMs: number): boolean {
    return (this.#clients.get(client) ?? Number.NEGATIVE_INFINITY) > nowMs;
  }

  /** A call has failed. It is still one of the calls of its connection. */
  failed(call: ConnectionCall, connection: Connection, { isUpload }: UpstreamFailure, nowMs: number): void {
    if (isUpload === undefined) return;
    const { client } = call;
    // Where all requests come from one address, there are no others to protect.
    const isShared = connection.calls.values().some((other) => other.client !== client);
    if (isShared) this.#ended.add(connection);
    if (!isUpload) return;
    if (this.#ended.has(connection) || this.has(client, nowMs)) this.#isolate(client, nowMs);
  }

  /** The endpoint has too much to do for a connection: responses wait on it that were not read fast. */
  exhausted({ calls }: Connection, nowMs: number): void {
    const clients = new Set(calls.values().map(({ client }) => client));
    if (clients.size < 2) return;
    for (const { client, hasPaused } of calls) if (hasPaused) this.#isolate(client, nowMs);
  }

  #isolate(client: string | undefined, nowMs: number): void {
    this.#clients.delete(client);
    this.#clients.set(client, nowMs + isolationMs);
    if (this.#clients.size <= maxClients) return;
    const [oldest] = this.#clients.keys();
    this.#clients.delete(oldest);
  }
}
