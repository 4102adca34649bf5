/** Settings of calls to backends, per worker. Plain data, which can be sent to threads. */

export interface UpstreamSettings {
  /** Maximum number of connections to an endpoint. Further calls wait. */
  readonly maxConnections: number;
  /**
   * Maximum number of connections to an endpoint that finish their calls and take no others, in addition. Default:
   * 1,024.
   */
  readonly maxLeaving?: number;
  /**
   * Maximum number of calls to an endpoint that may switch protocols, in addition to `maxConnections`. Default: as
   * many.
   */
  readonly maxTunnels?: number;
  /** Maximum number of connections to all endpoints together, tunnels included. Default: no maximum. */
  readonly maxSockets?: number;
  /** The most local ports of closed connections that are kept for an endpoint. Default: no maximum. */
  readonly maxKeptPorts?: number;
  /** Maximum number of calls to a backend, including pending ones. */
  readonly maxRequests: number;
  /** Maximum number of calls to a backend that wait for a connection. */
  readonly maxWaiting: number;
  /** Maximum time that a call waits for a connection. */
  readonly maxWaitMs: number;
  /** Absent: only responses to clients determine the health of endpoints. */
  readonly healthChecks?: HealthCheckSettings;
}

/** Active health checks of endpoints, except those of LLM providers. */
export interface HealthCheckSettings {
  /** Milliseconds between the checks of an endpoint. */
  readonly intervalMs: number;
  /** Timeout of a check, including connecting. */
  readonly timeoutMs: number;
  /** The path of the GET request. Any status below 500 is a success. */
  readonly path: string;
}

/**
 * 1,024 connections to an endpoint, 16,384 calls to a backend, 1,024 of them waiting for at most 5 s; no health checks.
 */
export const defaultUpstream: UpstreamSettings = {
  maxConnections: 1_024,
  maxRequests: 16_384,
  maxWaiting: 1_024,
  maxWaitMs: 5_000,
};
