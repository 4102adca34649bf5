/**
 * Translates local limit entries. The identity of a counter decides whether it is kept after an edit, and which targets
 * share it.
 */
import { hash } from "node:crypto";
import { amountOf, countsOf, type FallbackEntry, type LocalEntry, type ProxyPolicy } from "../../api/proxy-policy.ts";
import type { LimitWindow, LocalLimit } from "../../ir/limit.ts";
import { bucketCounter } from "./buckets.ts";
import { responsesOf } from "./limit-responses.ts";
import { nameKey } from "../index/object-names.ts";

/**
 * Returns the entries of a policy at one of its targets, in the order of the policy.
 *
 * The identity of a counter is the policy, the target and the limit. A policy with two routes as targets therefore has
 * separate counters for each, one on a Gateway has a counter for all its routes, and neither the order of the entries
 * nor their mode resets a counter. Equal entries are distinguished by their number.
 *
 * @param target `HTTPRoute/namespace/name` or `Gateway/namespace/name`, with `#section` for a section name.
 */
export function localLimits(policy: ProxyPolicy, target: string, sharing: Sharing): readonly LocalLimit[] {
  const name = nameKey(policy);
  const place = counterPlace(name, target);
  const timesSeen = new Map<string, number>();
  const { local, refundOn, usageChunk } = policy.spec.traffic.rateLimit;
  return local.map((localEntry, entry): LocalLimit => {
    const amounts = amountsOf(localEntry);
    const identity = `${place} ${countedBy(amounts)}`;
    const times = (timesSeen.get(identity) ?? 0) + 1;
    timesSeen.set(identity, times);
    const counter = times === 1 ? identity : `${identity} #${times}`;
    return {
      counter,
      policy: name,
      entry,
      ...nameOf(localEntry),
      target,
      ...amounts,
      ...sharedBy(policy, localEntry, amounts, sharing),
      mode: localEntry.mode,
      ...(refundOn === undefined ? {} : { refundOn }),
      ...(usageChunk === undefined ? {} : { usageChunk }),
      ...responsesOf(policy),
    };
  });
}

/** How entries share their counters and amounts. */
export interface Sharing {
  /** The ready replicas of the proxy, this one included; at least 1. */
  readonly readyReplicas: number;
  /** The entries that use the counter of their bucket. */
  readonly inBucket: ReadonlySet<LocalEntry | FallbackEntry>;
}

/**
 * Returns what differs in an entry that shares its counter or its amounts. A share is rounded down, so that all
 * replicas together do not exceed the limit, as far as it can be divided. The identity of the counter uses the whole
 * amount, so that a change of the replicas does not start a new counter.
 */
export function sharedBy(
  policy: ProxyPolicy,
  entry: LocalEntry | FallbackEntry,
  { amount, burst }: Amounts,
  { readyReplicas, inBucket }: Sharing,
): Partial<LocalLimit> {
  const { bucket } = entry;
  const ofBucket =
    bucket === undefined || !inBucket.has(entry) ? {} : { counter: bucketCounter(policy, entry, bucket), bucket };
  const replicas = Math.max(1, readyReplicas);
  if (!entry.shareAcrossReplicas) return ofBucket;
  return {
    ...ofBucket,
    amount: Math.max(1, Math.floor(amount / replicas)),
    burst: Math.floor(burst / replicas),
    replicas,
  };
}

/** The counted units of an entry, and the requests to which it applies. */
export type Amounts = Pick<
  LocalLimit,
  | "counts"
  | "allowsUnpriced"
  | "reserves"
  | "amount"
  | "burst"
  | "unit"
  | "unitCount"
  | "window"
  | "key"
  | "when"
  | "amountFrom"
  | "cost"
>;

/** Returns the amounts of an entry as in the manifest. */
export function amountsOf(entry: LocalEntry | FallbackEntry): Amounts {
  const { unpriced, reserve, burst = 0, unit, every = 1, key, when, limit, cost } = entry;
  const window = windowOf(entry.window, entry.timeZone);
  return {
    counts: countsOf(entry),
    ...(unpriced === "Allow" && { allowsUnpriced: true }),
    ...(reserve === "Estimate" && { reserves: true }),
    amount: amountOf(entry),
    burst,
    ...(unit === undefined ? {} : { unit }),
    ...(every === 1 ? {} : { unitCount: every }),
    ...(window === undefined ? {} : { window }),
    ...(key === undefined ? {} : { key }),
    ...(when === undefined ? {} : { when }),
    ...(limit === undefined ? {} : { amountFrom: limit }),
    ...(cost === undefined ? {} : { cost }),
  };
}

/** Returns how the windows of an entry follow one another, in the form of the snapshot. */
function windowOf(window: LocalEntry["window"], timeZone = "UTC"): LimitWindow | undefined {
  if (window === "Sliding") return { kind: window };
  return window === "Calendar" ? { kind: window, timeZone } : undefined;
}

/**
 * Describes the windows of a limit, if it has any: `/Hours`, `2 Hours`, `sliding Hours`, `Months of the calendar in
 * Europe/Berlin`.
 */
function describeWindows({ unit, unitCount, window }: Pick<LocalLimit, "unit" | "unitCount" | "window">): string {
  if (unit === undefined) return "";
  const units = unitCount === undefined ? unit : `${unitCount} ${unit}`;
  switch (window?.kind) {
    case undefined:
      return `/${units}`;
    case "Sliding":
      return `/sliding ${units}`;
    case "Calendar":
      return `/${units} of the calendar in ${window.timeZone}`;
  }
}

/** Returns the name of an entry, if it has one. */
export function nameOf({ name }: LocalEntry | FallbackEntry): Pick<LocalLimit, "name"> {
  return name === undefined ? {} : { name };
}

/**
 * A policy and target with more characters together, or an expression with more, are replaced by their digest, since a
 * policy may have many expressions of 1,024 characters at 16 targets, with each limit in every worker.
 */
const [longestPlace, longestExpression] = [128, 64];

/** Returns the policy and target in the identity of a counter: `default/chat HTTPRoute/default/chat`. */
export function counterPlace(policy: string, target: string): string {
  return shortened(`${policy} ${target}`, longestPlace);
}

/**
 * Returns the limit in the identity of a counter: `requests 10/Minutes+5 by source.address`. An edit of anything in it
 * starts a new counter.
 */
export function countedBy(amounts: Amounts): string {
  const { counts, amount, burst, key, when, amountFrom, cost } = amounts;
  const part = (word: string, source: string | undefined): string =>
    source === undefined ? "" : ` ${word} ${shortened(source, longestExpression)}`;
  const capacity = `${counts} ${amount}${describeWindows(amounts)}${burst === 0 ? "" : `+${burst}`}`;
  return `${capacity}${part("by", key)}${part("when", when)}${part("limit", amountFrom)}${part("cost", cost)}`;
}

function shortened(text: string, longest: number): string {
  return text.length > longest ? `sha256:${hash("sha256", text)}` : text;
}
