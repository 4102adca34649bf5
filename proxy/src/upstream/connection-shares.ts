/**
 * The shares of clients in connections, by which one makes room for another. The calls of an HTTP/2 connection have
 * equal parts of it. A connection that fewer calls of other clients use is closed before one that more use.
 */
import type { Connection, ConnectionCall } from "./connection.ts";

/** The shares of clients in connections, and the client with the largest. */
export interface Shares {
  readonly largest: string | undefined;
  of(client: string | undefined): number;
}

/** Returns the shares in connections. */
export function sharesOf(connections: Iterable<Connection>): Shares {
  const shares = new Map<string | undefined, number>();
  const of = (client: string | undefined): number => shares.get(client) ?? 0;
  for (const { calls } of connections) {
    for (const { client } of calls) shares.set(client, of(client) + 1 / calls.size);
  }
  let largest: string | undefined;
  for (const [client, share] of shares) if (share > of(largest)) largest = client;
  return { largest, of };
}

/**
 * Returns the calls of the connection that the client with the largest share loses, so that `client` gets another one;
 * none if `client` would then have as large a share.
 */
export function callsToDisplace(
  connections: Iterable<Connection>,
  shares: Shares,
  client: string | undefined,
): readonly ConnectionCall[] {
  const { largest } = shares;
  if (shares.of(largest) <= shares.of(client) + 1) return [];
  return [...(firstToClose(connections, largest)?.calls ?? [])];
}

/** Ends a call whose connection a client with a smaller share gets. */
export function displace(call: ConnectionCall): void {
  call.displace({ kind: "overloaded", message: "a client with fewer calls needs a connection" });
}

/** Returns the connection of `client` that the fewest calls of others use; of several, the newest one. */
function firstToClose(connections: Iterable<Connection>, client: string | undefined): Connection | undefined {
  let first: { readonly connection: Connection; readonly others: number; readonly sentMs: number } | undefined;
  for (const connection of connections) {
    const calls = [...connection.calls];
    const others = calls.filter((call) => call.client !== client).length;
    if (others === calls.length) continue;
    const sentMs = calls.at(-1)?.sentMs ?? 0;
    const isFirst = first === undefined || others < first.others || (others === first.others && sentMs >= first.sentMs);
    if (isFirst) first = { connection, others, sentMs };
  }
  return first?.connection;
}
