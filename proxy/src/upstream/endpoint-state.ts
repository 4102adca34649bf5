/** The figures of one endpoint in one worker, as operators see them. Plain data: it crosses threads. */
import type { Backend } from "../ir/snapshot.ts";

export interface EndpointState {
  readonly backend: Pick<Backend, "key" | "kind" | "namespace" | "name">;
  /** Pod name, or `backend` for an address that a Backend names itself. */
  readonly endpoint: string;
  /** `host:port` */
  readonly address: string;
  /** 0 to 1: moving average of good answers; 1 is healthy. */
  readonly health: number;
  /** Requests since the endpoint is known, each once however often it was tried here. */
  readonly requests: number;
  /** Moving average until the head of an answer; 0 before the first. */
  readonly latencyMs: number;
  /** Calls under way and waiting for a connection. */
  readonly pending: number;
  /** Since the last good answer. */
  readonly consecutiveFailures: number;
  /** How often it was left out since it was last well. */
  readonly timesEjected: number;
  /** Until it is asked again; 0 where it is not left out. */
  readonly ejectedForMs: number;
  /** Active health checks find it down. */
  readonly failsChecks: boolean;
}
