/** Bounds of a connection to a server. */
import type { ResetLimits } from "./reset-budget.ts";

/** The maximums of one connection. */
export interface ClientLimits {
  /** Receive window of a stream, which also bounds the bytes that are buffered for a paused receiver. */
  readonly streamWindowBytes: number;
  /** Receive window of the connection. */
  readonly connectionWindowBytes: number;
  /** Maximum header bytes of one response, compressed or not. */
  readonly maxHeaderListBytes: number;
  /** A shorter DATA frame that does not end its stream counts as a frame without progress. */
  readonly smallFrameBytes: number;
  /**
   * Maximum bytes of requests that the server has not read. Beyond it, no more requests are sent. If the unread bytes,
   * acknowledgements included, exceed twice this bound, the connection is closed.
   */
  readonly maxWaitingBytes: number;
  /**
   * Requests that this side may reset. At the maximum the connection takes no more requests, and further resets wait.
   * Absent: any number.
   */
  readonly resets?: ResetLimits;
  /** The highest stream identifier, 2^31 − 1 by the protocol (RFC 9113 §5.1.1). */
  readonly maxStreamId: number;
  /** Time without a byte of the server after which `sweep` sends a PING, while it has requests, in milliseconds. */
  readonly silenceMs: number;
  /** Time for the server to acknowledge a PING, in milliseconds. */
  readonly pingTimeoutMs: number;
}

/** Bounds for many small calls: windows of 256 KiB and 1 MiB, 4 MiB of unread requests, and 1 s for a PING. */
export const defaultClientLimits: ClientLimits = {
  streamWindowBytes: 262_144,
  connectionWindowBytes: 1_048_576,
  maxHeaderListBytes: 16_384,
  smallFrameBytes: 256,
  maxWaitingBytes: 4_194_304,
  maxStreamId: 2 ** 31 - 1,
  silenceMs: 10_000,
  pingTimeoutMs: 1_000,
};

/** Bounds for any response: 64 KiB of head, any number of small parts, few resets, and 20 s for a PING. */
export const defaultHttp2ClientLimits: ClientLimits = {
  ...defaultClientLimits,
  maxHeaderListBytes: 65_536,
  // Only empty frames count, because an event stream consists of small ones.
  smallFrameBytes: 1,
  // The strictest servers accept these: Tomcat the first ones, hyper the burst, and Netty the rate.
  resets: { first: 3, burst: 16, perSecond: 1 },
  pingTimeoutMs: 20_000,
};
