/**
 * The states of endpoints and providers, for operators. Plain data, since that of an endpoint is sent between threads.
 */
import type { Backend } from "./snapshot.ts";

/** The state of a provider in all workers, for operators. */
export interface ProviderFigures {
  /** Time until the reset of its quota, in milliseconds; 0 if it is not out of quota. */
  readonly outOfQuotaForMs: number;
  /** Time for which it gets no requests since it fails, in milliseconds; 0 if it does not. */
  readonly failingForMs: number;
  /** The number of failures since the last success. */
  readonly consecutiveFailures: number;
}

/** The state of one endpoint in one worker. */
export interface EndpointState {
  readonly backend: Pick<Backend, "key" | "kind" | "namespace" | "name">;
  /** The name of the pod, or `backend` for an address in a Backend. */
  readonly endpoint: string;
  /** `host:port` */
  readonly address: string;
  /** 0 to 1: the moving average of successful responses. 1 is healthy. */
  readonly health: number;
  /** The number of requests since the endpoint was added. Retries of a request at the endpoint count once. */
  readonly requests: number;
  /** The moving average of the time to the head of a response, in milliseconds. 0 before the first. */
  readonly latencyMs: number;
  /** The number of attempts in progress and in the pending queue. */
  readonly pending: number;
  /** The number of failures since the last successful response. */
  readonly consecutiveFailures: number;
  /** The number of ejections since it was last healthy. */
  readonly timesEjected: number;
  /** The time until the ejection ends, in milliseconds. 0 if it is not ejected. */
  readonly ejectedForMs: number;
  /** Whether active health checks fail. */
  readonly failsChecks: boolean;
}
