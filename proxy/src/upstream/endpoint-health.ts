/**
 * The health of an endpoint by its last responses, as moving averages in which the newest response counts 0.3, so that
 * about the last ten matter.
 */

import { FailuresByClient } from "./failures-by-client.ts";

/** The weight of the newest response in the averages. */
const alpha = 0.3;
/** The score from which an endpoint is displayed as 1.00, and its previous ejections are ignored. */
const recovered = 0.995;

/** A client may send requests that any endpoint rejects. An endpoint that rejects those of several fails. */
const clientsOfFailure = 3;

/** The health of one endpoint as one worker sees it. A status of 500 or more counts as a failure. */
export class EndpointHealth {
  /** 0 to 1: the share of successful responses; 1 before the first. */
  score = 1;
  /** Time until the head of a response; 0 before the first. */
  latencyMs = 0;
  /** The number of requests, each counted once for all its attempts. */
  requests = 0;
  /** Failures since the last success. */
  consecutiveFailures = 0;
  /** The number of ejections since it was last healthy. */
  timesEjected = 0;
  /** The time of the last result, on the monotonic clock. */
  notedMs = Number.NEGATIVE_INFINITY;
  /** The clients whose requests were rejected since the last success, up to `clientsOfFailure`. */
  #rejected: Set<string | undefined> | undefined;
  #byClient: FailuresByClient | undefined;

  /** Records the start of a response to a client. */
  responded(isGood: boolean, latencyMs: number, nowMs: number, client?: string): void {
    this.latencyMs = this.latencyMs === 0 ? latencyMs : this.latencyMs + alpha * (latencyMs - this.latencyMs);
    if (isGood) this.#succeeded(nowMs, client);
    else this.failedFor(client, nowMs);
  }

  /** Consecutive failures, without those that may be the fault of their client. */
  failuresToEject(nowMs: number): number {
    return this.consecutiveFailures - (this.#byClient?.uncounted(nowMs) ?? 0);
  }

  /** Records a failed, missing or truncated response to a client. */
  failedFor(client: string | undefined, nowMs: number): void {
    this.#ownByClient.failed(client);
    this.failed(nowMs);
  }

  get #ownByClient(): FailuresByClient {
    return (this.#byClient ??= new FailuresByClient());
  }

  /** Records a failure that no client has caused. */
  failed(nowMs: number): void {
    this.notedMs = nowMs;
    this.score -= alpha * this.score;
    this.consecutiveFailures++;
  }

  /**
   * Records a reset of a request that blames its client.
   *
   * @returns whether it is a failure, since the requests of several clients were rejected, and none was successful.
   */
  rejected(client: string | undefined, nowMs: number): boolean {
    this.#rejected ??= new Set();
    if (this.#rejected.size < clientsOfFailure) this.#rejected.add(client);
    if (this.#rejected.size < clientsOfFailure) return false;
    this.failed(nowMs);
    return true;
  }

  #succeeded(nowMs: number, client: string | undefined): void {
    this.#ownByClient.succeeded(client, nowMs);
    this.#rejected = undefined;
    this.notedMs = nowMs;
    this.score += alpha * (1 - this.score);
    this.consecutiveFailures = 0;
    if (this.score >= recovered) this.timesEjected = 0;
  }
}

/** The same for readers. */
export type EndpointFigures = Readonly<
  Pick<EndpointHealth, "consecutiveFailures" | "latencyMs" | "notedMs" | "requests" | "score" | "timesEjected">
>;

/** The health of an endpoint before its first call. */
export const unmeasured: EndpointFigures = new EndpointHealth();
