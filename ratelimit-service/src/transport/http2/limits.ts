/** What a peer may use at most. */
import type { LivenessLimits } from "./liveness.ts";

/** What a peer may use at most; see `defaultHttp2Limits`. */
export interface Http2Limits extends LivenessLimits {
  /** Requests in progress; more are refused with REFUSED_STREAM, which a client may retry. */
  readonly maxConcurrentStreams: number;
  /** Header bytes of one request, compressed or not; more is answered 431. */
  readonly maxHeaderListBytes: number;
  /** Body bytes under way on one stream. */
  readonly streamWindowBytes: number;
  /** Body bytes under way on all streams together. */
  readonly connectionWindowBytes: number;
  /** Answers that the peer does not read; more ends the connection. */
  readonly maxWaitingBytes: number;
}

/** Room for Envoy (one connection a worker, up to 1024 calls under way) and far below what would hurt. */
export const defaultHttp2Limits: Http2Limits = {
  maxConcurrentStreams: 1_024,
  maxHeaderListBytes: 16_384,
  streamWindowBytes: 262_144,
  connectionWindowBytes: 1_048_576,
  maxWaitingBytes: 8_388_608,
  greetingTimeoutMs: 10_000,
  keepaliveTimeMs: 300_000,
  keepaliveTimeoutMs: 20_000,
};
