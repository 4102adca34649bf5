/** What a rate limit service may use of us at most, and how long it is waited for. */

export interface ClientLimits {
  /** Answer bytes under way on one stream. */
  readonly streamWindowBytes: number;
  /** Answer bytes under way on all streams together. */
  readonly connectionWindowBytes: number;
  /** Bytes of calls that the service does not read; beyond it no more are sent. */
  readonly maxWaitingBytes: number;
  /** The highest number of a stream, 2^31 − 1 by the protocol (RFC 9113 §5.1.1). */
  readonly maxStreamId: number;
  /** For the service to answer a ping, after a call has had no answer. */
  readonly pingTimeoutMs: number;
}

/** Header bytes of one answer, compressed or not. */
export const maxHeaderListBytes = 16_384;

export const defaultClientLimits: ClientLimits = {
  streamWindowBytes: 262_144,
  connectionWindowBytes: 1_048_576,
  maxWaitingBytes: 4_194_304,
  maxStreamId: 2 ** 31 - 1,
  pingTimeoutMs: 1_000,
};
