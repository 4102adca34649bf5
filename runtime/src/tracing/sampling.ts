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
 * @param byTraceId decides by the trace id, with the same result in all processes with the same ratio.
 */
export function samplerOf(
  { isParentBased, ratio }: SamplerSettings,
  isCallerIgnored: boolean,
  byTraceId: (traceId: string) => boolean,
  random: () => number,
): Sample {
  const decide = (traceId: string, isOwn: boolean): boolean => {
    if (ratio === 0 || ratio === 1) return ratio === 1;
    return isCallerIgnored && !isOwn ? random() < ratio : byTraceId(traceId);
  };
  if (!isParentBased || isCallerIgnored) return (traceId, parent) => decide(traceId, parent === undefined);
  return (traceId, parent) => parent?.isSampled ?? decide(traceId, parent === undefined);
}
