/** Selects the endpoint of the next call. */
import type { EndpointFigures } from "./endpoint-health.ts";

/** The state of an endpoint that the selection considers. */
export interface Candidate {
  /** Calls in progress and pending. */
  readonly inFlight: number;
  readonly health: EndpointFigures;
}

/** Older measurements are ignored. Otherwise an endpoint with bad ones would never be measured again. */
const staleMs = 10_000;
/** Smaller differences of latency are ignored, since otherwise the slower endpoints would get no requests. */
const likeLatency = 2;
/** A failing endpoint still gets some requests. */
const worstScore = 0.05;

/**
 * Returns the better one of two random endpoints, by calls in progress, health and latency. This distributes load
 * almost as well as a comparison of all, without overloading one (Mitzenmacher, "The Power of Two Choices", 2001).
 *
 * @param random 0 ≤ random() < 1
 * @param nowMs monotonic
 * @returns undefined if there is none.
 */
export function pickEndpoint<T extends Candidate>(
  candidates: readonly T[],
  random: () => number,
  nowMs: number,
): T | undefined {
  if (candidates.length < 2) return candidates[0];
  const first = Math.floor(random() * candidates.length);
  const second = (first + 1 + Math.floor(random() * (candidates.length - 1))) % candidates.length;
  const [a, b] = [candidates[first], candidates[second]];
  return a !== undefined && b !== undefined && isBetter(b, a, nowMs) ? b : a;
}

function isBetter(candidate: Candidate, than: Candidate, nowMs: number): boolean {
  let mine = burden(candidate, nowMs);
  let other = burden(than, nowMs);
  const mineMs = candidate.health.latencyMs;
  const otherMs = than.health.latencyMs;
  if (isFresh(candidate, nowMs) && isFresh(than, nowMs) && mineMs > 0 && otherMs > 0) {
    if (mineMs > otherMs * likeLatency) mine *= mineMs / otherMs;
    else if (otherMs > mineMs * likeLatency) other *= otherMs / mineMs;
  }
  return mine < other;
}

function burden(candidate: Candidate, nowMs: number): number {
  const score = isFresh(candidate, nowMs) ? Math.max(candidate.health.score, worstScore) : 1;
  return (candidate.inFlight + 1) / score;
}

function isFresh({ health }: Candidate, nowMs: number): boolean {
  return nowMs - health.notedMs < staleMs;
}
