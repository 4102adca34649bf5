/** The usage of the limits of a snapshot, for metrics. Pure. */
import type { LocalLimit } from "../ir/limit.ts";
import type { Snapshot } from "../ir/snapshot.ts";
import type { EntryUsage } from "../policy/ratelimit/counter-table.ts";
import type { LimitUsage } from "../telemetry/process-metrics.ts";
import { localLimitsOf } from "./snapshot-limits.ts";

/**
 * Returns the local limits with an open window. Entries of a bucket have the same usage.
 *
 * @param labelOf As `CounterTable.labelOf`, which is the key of `usage`.
 */
export function usageOfLimits(
  snapshot: Pick<Snapshot, "binds">,
  usage: ReadonlyMap<string, EntryUsage>,
  labelOf: (limit: LocalLimit) => string,
): readonly LimitUsage[] {
  if (usage.size === 0) return [];
  return localLimitsOf(snapshot).flatMap((limit) => {
    const found = usage.get(labelOf(limit));
    if (found === undefined) return [];
    // A limit of 0 has nothing left.
    const capacity = Math.max(1, limit.amount + limit.burst);
    return { limit, used: found.used, remainingRatio: Math.max(0, capacity - found.most) / capacity };
  });
}
