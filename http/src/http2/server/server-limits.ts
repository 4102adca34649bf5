import type { LivenessLimits } from "./liveness.ts";

/** The bounds of one peer; see `defaultHttp2Limits`. */
export interface Http2Limits extends LivenessLimits {
  /**
   * Maximum number of requests in progress. Further ones are rejected with REFUSED_STREAM, which a client may retry.
   */
  readonly maxConcurrentStreams: number;
  /** Maximum header bytes of one request, compressed or not. A request with more gets 431. */
  readonly maxHeaderListBytes: number;
  /** Maximum number of fields of a trailer section. More have the same effect as too large ones. Absent: any number. */
  readonly maxTrailers?: number;
  /** Receive window of a stream, in bytes. */
  readonly streamWindowBytes: number;
  /** Receive window of the connection, in bytes. */
  readonly connectionWindowBytes: number;
  /** Whether requests may have the method CONNECT (RFC 9113 §8.5), also with `:protocol` (RFC 8441). Default: false. */
  readonly allowsConnect?: boolean;
  /** Time without a request after which the connection is drained, in milliseconds. Absent: any time. */
  readonly idleTimeoutMs?: number;
  /**
   * Maximum number of small DATA frames, at once (`burst`) and then per second. Frames of fewer `bytes` that do not end
   * their stream are small. Absent: frames of fewer than 256 bytes count as frames that do not advance a request.
   */
  readonly smallFrames?: { readonly bytes: number; readonly burst: number; readonly perSecond: number };
  /**
   * Maximum number of requests that the client resets before their end, at once and then per second. Absent: any
   * number.
   */
  readonly resets?: { readonly burst: number; readonly perSecond: number };
  /** Maximum bytes of responses that the peer does not read. More end the connection. */
  readonly maxWaitingBytes: number;
}

/** Bounds that suffice for Envoy (a connection per worker, up to 1024 requests in progress), with little memory. */
export const defaultHttp2Limits: Http2Limits = {
  maxConcurrentStreams: 1_024,
  maxHeaderListBytes: 16_384,
  streamWindowBytes: 262_144,
  connectionWindowBytes: 1_048_576,
  maxWaitingBytes: 8_388_608,
  prefaceTimeoutMs: 10_000,
  keepaliveTimeMs: 300_000,
  keepaliveTimeoutMs: 20_000,
};
