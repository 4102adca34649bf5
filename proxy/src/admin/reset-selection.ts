/** Finds the entries that an operator resets. Pure functions. */
import type { LocalLimit } from "../ir/limit.ts";
import type { Snapshot } from "../ir/snapshot.ts";
import { type AdminError, reject } from "./endpoint.ts";
import { globalLimitsOf, rulesOf } from "./snapshot-limits.ts";

/** The counters that an operator names. */
export interface ResetRequest {
  /** `NAME`, or `NAMESPACE/NAME`, of a ProxyPolicy. */
  readonly policy: string;
  /** Name or index of an entry; undefined for all entries. */
  readonly entry: string | undefined;
  /** Value of the key, or its fingerprint as `/limits` shows it; undefined for all counters. */
  readonly key: string | undefined;
}

/** An entry at one target, with the list that it is in. */
export interface SelectedLimit {
  readonly limit: LocalLimit;
  readonly source: "local" | "fallback";
}

/** The entries of a policy that are reset, and those that are not. */
export interface ResetSelection {
  /** `namespace/name`. */
  readonly policy: string;
  readonly entries: readonly SelectedLimit[];
  /** Entries that count requests in progress. */
  readonly leftOut: readonly SelectedLimit[];
}

/** Policies and entries that an error lists. */
const maxListed = 10;

/** Returns the selected entries of the configuration, at least one of which is reset, or the error. */
export function selectLimits(snapshot: Snapshot, request: ResetRequest): ResetSelection | AdminError {
  const all = limitsOf(snapshot);
  const policies = [...new Set(all.map(({ limit }) => limit.policy))].sort();
  const matching = policies.filter((name) => name === request.policy || name.endsWith(`/${request.policy}`));
  const [policy] = matching;
  const attempt = `reset the counters of policy ${JSON.stringify(request.policy)}`;
  if (policy === undefined) {
    return reject(400, `${attempt}: no such policy limits a route`, `accepted: ${list(policies)}`);
  }
  if (matching.length > 1) {
    return reject(400, `${attempt}: several policies have this name`, `accepted: ${list(matching)}`);
  }
  const ofPolicy = all.filter(({ limit }) => limit.policy === policy);
  const ofEntry = entriesOf(ofPolicy, request.entry);
  const entryAttempt = `${attempt}, entry ${JSON.stringify(request.entry)}`;
  if (ofEntry.length === 0) {
    return reject(400, `${entryAttempt}: the policy has no such entry`, `accepted: ${list(ofPolicy.map(describe))}`);
  }
  const [entries, leftOut] = [ofEntry.filter(hasWindow), ofEntry.filter((selected) => !hasWindow(selected))];
  if (entries.length === 0) {
    const hint = "a request in progress is counted until it ends; accepted are entries that count requests or tokens";
    return reject(
      400,
      `${request.entry === undefined ? attempt : entryAttempt}: only requests in progress are counted`,
      hint,
    );
  }
  if (request.key === undefined) return { policy, entries, leftOut };
  const keyed = entries.filter(({ limit }) => limit.key !== undefined);
  if (keyed.length > 0) {
    return { policy, entries: keyed, leftOut: leftOut.filter(({ limit }) => limit.key !== undefined) };
  }
  return reject(
    400,
    `${attempt}, with a key: no selected entry has a key`,
    "without a key, the one counter of each is reset",
  );
}

/** The name of an entry is not a number, since it begins with a letter. */
function entriesOf(limits: readonly SelectedLimit[], entry: string | undefined): readonly SelectedLimit[] {
  if (entry === undefined) return limits;
  return limits.filter(({ limit }) => limit.name === entry || String(limit.entry) === entry);
}

function hasWindow({ limit }: SelectedLimit): boolean {
  return limit.counts !== "concurrent" && limit.counts !== "connections";
}

function describe({ limit }: SelectedLimit): string {
  return limit.name ?? String(limit.entry);
}

function list(names: readonly string[]): string {
  const distinct = [...new Set(names)];
  if (distinct.length === 0) return "none, since no policy has local limits";
  const rest = distinct.length > maxListed ? `, and ${distinct.length - maxListed} more` : "";
  return distinct.slice(0, maxListed).join(", ") + rest;
}

/** Returns each entry once at each target. */
function limitsOf(snapshot: Snapshot): readonly SelectedLimit[] {
  const local = rulesOf(snapshot).flatMap(({ limits }) => limits);
  const fallback = globalLimitsOf(snapshot).flatMap((global) => global.fallback);
  const all = [
    ...local.map((limit): SelectedLimit => ({ limit, source: "local" })),
    ...fallback.map((limit): SelectedLimit => ({ limit, source: "fallback" })),
  ];
  return [
    ...new Map(
      all.map((each) => [`${each.source} ${each.limit.policy} ${each.limit.entry} ${each.limit.target}`, each]),
    ).values(),
  ];
}
