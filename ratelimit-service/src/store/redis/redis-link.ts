/**
 * The connections to a Redis of any topology: the interface for the store, and the options that all of them share. A
 * link never queues: a command that cannot be written now is rejected, because a call to a rate limiter has to be
 * decided at once.
 */
import type { SecureContextOptions } from "node:tls";
import type { ConnectionCounts } from "./connection-counts.ts";
import type { RedisAuth, RedisOptions } from "./redis-options.ts";

/** Replies to the commands of the store: a number for INCRBY and scripts, a string or null for GET. */
export type RedisReply = number | string | null;

/** The connections to one server, to a master that sentinels name, or to the nodes of a cluster. */
export interface RedisLink {
  /** Connects. Rejects when it cannot, and may be called again. Once open, a link reconnects by itself without end. */
  open(): Promise<void>;
  /** Whether a command would be written at once. */
  isReady(): boolean;
  /**
   * Writes a command to the server of `key`, together with the others of this turn of the event loop. The link takes
   * ownership of `command`.
   */
  send(key: string, command: string[]): Promise<RedisReply>;
  /** Returns the name of the connection for a key. Commands on one connection get their replies in order. */
  connectionOf(key: string): string;
  /** Returns all current connections, each with a way to probe it. */
  activeConnections(): readonly RedisConnection[];
  /** Counts of connections. */
  readonly connections: ConnectionCounts;
  /** Drops all connections, because they do not respond; the link is as before `open`. */
  reset(): void;
  /** Closes the link for good: `open` rejects from now on. */
  close(): Promise<void>;
}

/** One connection of a link. */
export interface RedisConnection {
  readonly name: string;
  readonly ping: () => Promise<unknown>;
}

/** Connection options, with certificates already read. */
export interface LinkOptions extends Omit<RedisOptions, "tls"> {
  /** Absent: plain text. */
  readonly tls?: TlsSocketOptions;
}

/** TLS options with the names of node:tls. */
export interface TlsSocketOptions extends Pick<SecureContextOptions, "cert" | "key" | "ca"> {
  /** Always true: it turns TLS on in the client library. */
  readonly tls: true;
  /** Accepts a certificate for any host; absent: the host must match. */
  readonly checkServerIdentity?: () => undefined;
}

/** Called for every error of a connection, for the log and for the messages of rejected calls. */
export type OnLinkError = (error: Error) => void;

/** Longest pause between two attempts to reconnect, in ms. */
const maxReconnectMs = 1_000;

/** Returns the options of every connection. All versions of Redis and compatible servers support RESP 2. */
export function clientOptions(auth: RedisAuth | undefined) {
  return {
    RESP: 2,
    disableOfflineQueue: true,
    // The package would create an AbortSignal per command; the store has one timer for all commands of a turn.
    commandOptions: { timeout: 0 },
    ...(auth?.username === undefined ? {} : { username: auth.username }),
    ...(auth === undefined ? {} : { password: auth.password }),
  } as const;
}

/**
 * Returns the socket options of every connection, without its address.
 * @param repeats whether to retry after a failed attempt
 */
export function socketOptions(options: LinkOptions, repeats: () => boolean) {
  return {
    connectTimeout: options.timeoutMs,
    reconnectStrategy: (retries: number, cause: Error) =>
      repeats() ? Math.min(50 * 2 ** Math.min(retries, 10), maxReconnectMs) : cause,
    ...options.tls,
  };
}
