/** Which endpoint gets the next call. */
import type { EndpointFigures } from "./endpoint-health.ts";

/** What is weighed of an endpoint. */
export interface Candidate {
  /** Calls under way and waiting. */
  readonly inFlight: number;
  readonly health: EndpointFigures;
}

/** What has not been measured for so long is not held against an endpoint, or it would never be measured again. */
const staleMs = 10_000;
/** Endpoints of like latency are told apart by load alone: to follow every small difference would starve the others. */
const likeLatency = 2;
/** So that an endpoint that fails is asked now and then. */
const worstScore = 0.05;

/**
 * Of two endpoints drawn at random the better one, by calls under way, health and latency: that spreads load almost as
 * well as asking all and never stampedes onto one (Mitzenmacher, "The Power of Two Choices", 2001).
 *
 * @param random 0 ≤ random() < 1
 * @param nowMs monotonic
 * @returns nothing when there is none.
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
