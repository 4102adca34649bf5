/** Bounds of a connection of a client. */

export interface ClientLimits {
  /** Response bytes in flight on one stream, and those that are held for a paused receiver. */
  readonly streamWindowBytes: number;
  /** Response bytes in flight on all streams together. */
  readonly connectionWindowBytes: number;
  /** Maximum header bytes of one response, compressed or not. */
  readonly maxHeaderListBytes: number;
  /** A shorter DATA frame that does not end its stream counts as a frame without progress. */
  readonly smallFrameBytes: number;
  /**
   * Bytes of requests that the server has not read; beyond it no more requests are sent. With acknowledgements, twice as many
   * end the connection.
   */
  readonly maxWaitingBytes: number;
  /** The highest stream identifier, 2^31 − 1 by the protocol (RFC 9113 §5.1.1). */
  readonly maxStreamId: number;
  /** Time without a byte of the server after which `sweep` sends a PING, while it has requests, in milliseconds. */
  readonly silenceMs: number;
  /** Time for the server to acknowledge a PING, in milliseconds. */
  readonly pingTimeoutMs: number;
}

/** For many small calls: 256 KiB for each stream, 1 MiB for a connection, 4 MiB of unsent requests, and 1 s for a PING. */
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

/** For any response: 64 KiB of head, any number of small parts, and 20 s for a PING. */
export const defaultHttp2ClientLimits: ClientLimits = {
  ...defaultClientLimits,
  maxHeaderListBytes: 65_536,
  // Empty ones. An event stream consists of small ones.
  smallFrameBytes: 1,
  pingTimeoutMs: 20_000,
};
