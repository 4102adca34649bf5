/**
 * What the last answers of an endpoint say of it. Moving averages in which the newest answer counts 0.3, so that about
 * the last ten matter.
 */

/** Share of the newest answer in the averages. */
const alpha = 0.3;
/** From here on an endpoint shows as 1.00, and what it was punished for is forgotten. */
const recovered = 0.995;

export class EndpointHealth {
  /** 0 to 1: the share of good answers; 1 before the first. */
  score = 1;
  /** Until the head of an answer; 0 before the first. */
  latencyMs = 0;
  /** Requests that were sent here, each once however often it was tried. */
  requests = 0;
  /** Since the last good answer. */
  consecutiveFailures = 0;
  /** How often it was left out, until it was well again. */
  timesEjected = 0;
  /** When the last outcome was noted, monotonic. */
  notedMs = Number.NEGATIVE_INFINITY;

  /** An answer has begun. */
  answered(isGood: boolean, latencyMs: number, nowMs: number): void {
    this.latencyMs = this.latencyMs === 0 ? latencyMs : this.latencyMs + alpha * (latencyMs - this.latencyMs);
    if (isGood) this.#succeeded(nowMs);
    else this.failed(nowMs);
  }

  /** There was no answer, or it broke off. */
  failed(nowMs: number): void {
    this.notedMs = nowMs;
    this.score -= alpha * this.score;
    this.consecutiveFailures++;
  }

  #succeeded(nowMs: number): void {
    this.notedMs = nowMs;
    this.score += alpha * (1 - this.score);
    this.consecutiveFailures = 0;
    if (this.score >= recovered) this.timesEjected = 0;
  }
}

/** The same for readers, who change nothing. */
export type EndpointFigures = Readonly<
  Pick<EndpointHealth, "consecutiveFailures" | "latencyMs" | "notedMs" | "requests" | "score" | "timesEjected">
>;
