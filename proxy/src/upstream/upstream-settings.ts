/** What operators set of the calls to backends. Plain data: it crosses threads. All of it is per worker. */

export interface UpstreamSettings {
  /** To one endpoint; further calls wait in line. */
  readonly maxConnections: number;
  /** Calls to one endpoint that may switch protocols; they have connections besides `maxConnections`. Absent: as many. */
  readonly maxTunnels?: number;
  /** A backend that has this many calls under way, those that wait included, gets no more. */
  readonly maxRequests: number;
  /** Nor does one of which this many wait for a connection. */
  readonly maxWaiting: number;
  /** Longest wait of a call for a connection. */
  readonly maxWaitMs: number;
  /** Absent: endpoints are judged by the answers to clients alone. */
  readonly healthChecks?: HealthCheckSettings;
}

export interface HealthCheckSettings {
  readonly intervalMs: number;
  /** Of one check, connecting included. */
  readonly timeoutMs: number;
  /** Asked with GET; any answer below 500 is a good one. */
  readonly path: string;
}

export const defaultUpstream: UpstreamSettings = {
  maxConnections: 1_024,
  maxRequests: 16_384,
  maxWaiting: 1_024,
  maxWaitMs: 5_000,
};
