/**
 * The buckets of policies: counters that entries of one namespace share. The oldest policy with a bucket determines
 * what it counts and in which windows; an entry that differs has a finding, and a counter of its own, so that it still
 * limits.
 */
import type { FieldPath } from "../../api/issue.ts";
import { countsOf, type FallbackEntry, type LocalEntry, type ProxyPolicy } from "../../api/proxy-policy.ts";
import { nameKey } from "../index/object-names.ts";
import type { Finding, Found } from "../status/finding.ts";

/** Maximum number of buckets of one namespace. */
export const maxBuckets = 1_024;

type Entry = LocalEntry | FallbackEntry;

/** The counted units and windows of a bucket, and the policy that determines them. */
interface Bucket {
  readonly counts: string;
  readonly owner: string;
}

/** The buckets of all namespaces. Policies are added in their order, oldest first. */
export class Buckets {
  readonly #byNamespace = new Map<string, Map<string, Bucket>>();

  /** Adds the entries of a policy. Returns those that share the counter of their bucket. */
  add(policy: ProxyPolicy): Found<ReadonlySet<Entry>, "Invalid"> {
    const sharing = new Set<Entry>();
    const findings: Finding<"Invalid">[] = [];
    const { local, global } = policy.spec.traffic.rateLimit;
    const lists: readonly (readonly [FieldPath, readonly Entry[]])[] = [
      [["local"], local],
      [["global", "fallback"], global?.fallback ?? []],
    ];
    for (const [path, entries] of lists) {
      entries.forEach((entry, index) => {
        if (entry.bucket === undefined) return;
        const error = this.#join(policy, entry, entry.bucket);
        if (error === undefined) sharing.add(entry);
        else findings.push(findingOf(error, [...path, index, "bucket"]));
      });
    }
    return { value: sharing, findings };
  }

  /** Returns why an entry cannot use the bucket. */
  #join(policy: ProxyPolicy, entry: Entry, name: string): string | undefined {
    const { namespace } = policy.metadata;
    const buckets = this.#byNamespace.get(namespace) ?? new Map<string, Bucket>();
    this.#byNamespace.set(namespace, buckets);
    const counts = countedIn(entry);
    const bucket = buckets.get(name);
    if (bucket === undefined) {
      if (buckets.size >= maxBuckets) {
        return `namespace ${namespace} has ${maxBuckets} other buckets, accepted are no more`;
      }
      buckets.set(name, { counts, owner: nameKey(policy) });
      return undefined;
    }
    if (bucket.counts === counts) return undefined;
    return `bucket ${name} counts ${bucket.counts} in ProxyPolicy ${bucket.owner}, and ${counts} here`;
  }
}

function findingOf(error: string, path: FieldPath): Finding<"Invalid"> {
  const message = `${error}; until that changes, this entry has a counter of its own`;
  return { reason: "Invalid", message, path: ["spec", "traffic", "rateLimit", ...path] };
}

/** Returns the properties that all entries of a bucket must share: `tokens in windows of 2 Hours`. */
function countedIn({ unit, every = 1, window, timeZone = "UTC", ...entry }: Entry): string {
  if (unit === undefined) return countsOf(entry) === "connections" ? "open connections" : "requests in progress";
  const kind = window === "Sliding" ? "sliding " : "";
  const calendar = window === "Calendar" ? ` of the calendar in ${timeZone}` : "";
  return `${countsOf(entry)} in ${kind}windows of ${every} ${unit}${calendar}`;
}

/** Returns the identity of the counter of a bucket. */
export function bucketCounter({ metadata }: ProxyPolicy, entry: Entry, bucket: string): string {
  return `bucket ${metadata.namespace}/${bucket} ${countedIn(entry)}`;
}
