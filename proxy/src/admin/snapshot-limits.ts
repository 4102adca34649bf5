/** The distinct limits of a snapshot. */
import type { GlobalLimit } from "../ir/global-limit.ts";
import type { LocalLimit } from "../ir/limit.ts";
import type { RouteRule, Snapshot, StreamRoute } from "../ir/snapshot.ts";

/**
 * Returns each local limit once: by its counter and key expression, and in a bucket by its policy, entry and target.
 */
export function localLimitsOf(snapshot: Pick<Snapshot, "binds">): readonly LocalLimit[] {
  const limits = [...rulesOf(snapshot), ...streamRoutesOf(snapshot)].flatMap((rule) => rule.limits);
  return [...new Map(limits.map((limit) => [identityOf(limit), limit])).values()];
}

/** Entries of a bucket have their counter in common. */
function identityOf({ counter, key = "", bucket, policy, entry, target }: LocalLimit): string {
  return bucket === undefined ? `${counter}\n${key}` : `${counter}\n${policy} ${entry} ${target}`;
}

/** Returns each global limit once, by its id. */
export function globalLimitsOf(snapshot: Pick<Snapshot, "binds">): readonly GlobalLimit[] {
  const limits = rulesOf(snapshot).flatMap((rule) => rule.globalLimits ?? []);
  return [...new Map(limits.map((limit) => [limit.id, limit])).values()];
}

/** Returns every stream route of every listener. */
export function streamRoutesOf({ binds }: Pick<Snapshot, "binds">): readonly StreamRoute[] {
  return binds.flatMap(({ streams = [] }) => streams.flatMap(({ routes }) => routes));
}

/** Returns every rule of every listener. */
export function rulesOf({ binds }: Pick<Snapshot, "binds">): readonly RouteRule[] {
  const listeners = binds.flatMap((bind) => bind.listeners);
  return listeners.flatMap(({ routes }) => routes.flatMap(({ rules }) => rules));
}
