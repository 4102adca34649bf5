/**
 * The connections to a Redis, whatever its topology: what the store needs of them, and the options that all of them
 * share. A link never queues: what cannot be written now is refused, because a caller of a rate limiter has no time.
 */
import type { SecureContextOptions } from "node:tls";
import type { ConnectionCounts } from "./connection-counts.ts";
import type { RedisAuth, RedisOptions } from "./redis-options.ts";

/** What our commands answer: a number for INCRBY and scripts, a text or nothing for GET. */
export type RedisReply = number | string | null;

export interface RedisLink {
  /** Connects, once: rejects when it cannot, and may be called again. Once open, a link reconnects by itself for ever. */
  open(): Promise<void>;
  /** Whether a command would be written now. */
  isReady(): boolean;
  /** Writes a command, which is the link's from then on, with the others of this turn of the event loop, to where `key` is. */
  send(key: string, command: string[]): Promise<RedisReply>;
  /** The connection that serves a key: commands of one lane are answered in order. */
  laneOf(key: string): string;
  /** All lanes now, each with a way to see whether it answers. */
  lanes(): readonly RedisLane[];
  /** Connections now and so far. */
  readonly connections: ConnectionCounts;
  /** Drops all connections, because they answer no more; the link is as before `open`. */
  reset(): void;
  /** Final: `open` rejects from here on. */
  close(): Promise<void>;
}

export interface RedisLane {
  readonly name: string;
  readonly ping: () => Promise<unknown>;
}

/** How to connect, with the certificates at hand. */
export interface LinkOptions extends Omit<RedisOptions, "tls"> {
  readonly tls?: TlsSocketOptions;
}

/** In the words of node:tls. */
export interface TlsSocketOptions extends Pick<SecureContextOptions, "cert" | "key" | "ca"> {
  readonly tls: true;
  readonly checkServerIdentity?: () => undefined;
}

/** Told of every fault of a connection, for the log and for the text of refusals. */
export type OnLinkError = (error: Error) => void;

/** Longest pause between two attempts to reconnect, in ms. */
const maxReconnectMs = 1_000;

/** Options of every connection. RESP 2 is what all versions and relatives of Redis speak. */
export function clientOptions(auth: RedisAuth | undefined) {
  return {
    RESP: 2,
    disableOfflineQueue: true,
    // The package would make an AbortSignal per command; the store watches the time for all of a turn at once.
    commandOptions: { timeout: 0 },
    ...(auth?.username === undefined ? {} : { username: auth.username }),
    ...(auth === undefined ? {} : { password: auth.password }),
  } as const;
}

/**
 * Socket options of every connection, without its address.
 * @param repeats whether an attempt that fails is to be repeated
 */
export function socketOptions(options: LinkOptions, repeats: () => boolean) {
  return {
    connectTimeout: options.timeoutMs,
    reconnectStrategy: (retries: number, cause: Error) =>
      repeats() ? Math.min(50 * 2 ** Math.min(retries, 10), maxReconnectMs) : cause,
    ...options.tls,
  };
}
