/** Decides which traces are exported (OpenTelemetry specification, "Trace SDK", Sampling). */
import type { RemoteContext } from "./trace-context.ts";

/** A sampler of OTEL_TRACES_SAMPLER. */
export interface SamplerSettings {
  /** Whether the decision of the caller counts, if it has sent one. */
  readonly isParentBased: boolean;
  /** The share of the other traces, from 0 to 1. */
  readonly ratio: number;
}

/** The values of OTEL_TRACES_SAMPLER that are accepted. */
export const samplerNames = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio",
] as const;

/** Decides about a trace. */
export type Sample = (traceId: string, parent: RemoteContext | undefined) => boolean;

/**
 * Returns the decisions of a sampler.
 *
 * @param isCallerIgnored callers do not decide. The ratio is then random and not computed from the trace id, since a
 *   caller chooses its trace id.
 */
export function samplerOf(
  { isParentBased, ratio }: SamplerSettings,
  isCallerIgnored: boolean,
  random: () => number,
): Sample {
  const threshold = thresholdOf(ratio);
  const decide = (traceId: string, isOwn: boolean): boolean => {
    if (ratio === 0 || ratio === 1) return ratio === 1;
    return isCallerIgnored && !isOwn ? random() < ratio : randomnessOf(traceId) >= threshold;
  };
  if (!isParentBased || isCallerIgnored) return (traceId, parent) => decide(traceId, parent === undefined);
  return (traceId, parent) => parent?.isSampled ?? decide(traceId, parent === undefined);
}

/**
 * The 32 upper bits of the 56 random ones at the end of a trace id ("TraceState: Probability Sampling"). Programs that
 * compare them with the same threshold export the same traces. The sampler of the SDK hashes the whole id, which no
 * other SDK does alike and takes as long as the rest of a request that is not sampled.
 */
function randomnessOf(traceId: string): string {
  return traceId.slice(18, 26);
}

const maxRandomness = 2 ** 32 - 1;

/** Returns the least randomness of an exported trace, in as many digits: texts of one length compare as numbers do. */
function thresholdOf(ratio: number): string {
  const rejected = Math.ceil((1 - ratio) * (maxRandomness + 1));
  return Math.min(rejected, maxRandomness).toString(16).padStart(8, "0");
}
