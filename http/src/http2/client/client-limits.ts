/** Limits for a connection of a client, such as one to a rate limit service. */

export interface ClientLimits {
  /** Response bytes in flight on one stream. */
  readonly streamWindowBytes: number;
  /** Response bytes in flight on all streams together. */
  readonly connectionWindowBytes: number;
  /** Bytes of requests that the server has not read; beyond it no more requests are sent. */
  readonly maxWaitingBytes: number;
  /** The highest stream identifier, 2^31 − 1 by the protocol (RFC 9113 §5.1.1). */
  readonly maxStreamId: number;
  /** Time for the server to acknowledge a ping after a request timed out, in milliseconds. */
  readonly pingTimeoutMs: number;
}

/** Maximum header bytes of one response, compressed or not. */
export const maxHeaderListBytes = 16_384;

/** 256 KiB for each stream, 1 MiB for a connection, 4 MiB of unsent requests, and 1 s for a ping. */
export const defaultClientLimits: ClientLimits = {
  streamWindowBytes: 262_144,
  connectionWindowBytes: 1_048_576,
  maxWaitingBytes: 4_194_304,
  maxStreamId: 2 ** 31 - 1,
  pingTimeoutMs: 1_000,
};
