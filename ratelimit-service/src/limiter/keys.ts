/**
 * Names of counters and metrics. In Redis the default form of counter keys is exactly envoyproxy/ratelimit's, so that
 * both can share a store during a migration: `<prefix><domain>_<key>_<value>_<key>_<value>_<window start>`. In that
 * form, different descriptors get the same name when a key or a value contains `_`; the escaped form keeps them apart.
 *
 * Counters of calendar and sliding windows and of `rate_limits` are unknown to envoyproxy/ratelimit. Their keys are
 * always escaped, and end in the name of the window: `{<prefix><domain>_<key>_<value>_}calendar-1-Months-UTC-<window
 * start>`. The braces are the hash tag of Redis Cluster, so that all counters of a descriptor have one slot. No key of
 * the other form ends like that: after its last `_` it has digits only.
 */
import { isSecretName, redactValue } from "@gatewayproxy/runtime/redaction";
import { type DescriptorNode, type Rule, shownComposite } from "../config/rule.ts";
import { type LimitWindow, windowName } from "../model/limit-window.ts";
import type { DescriptorEntry } from "../model/rate-limit.ts";

/** `escaped` writes `_` within parts as `%5F`, and `%` as `%25`. */
export type KeyForm = "reference" | "escaped";

/** The form of counter keys. */
export interface KeyOptions {
  /** Prefix of every counter key (CACHE_KEY_PREFIX). */
  readonly cacheKeyPrefix: string;
  /** In Redis, the form of REDIS_KEY_FORM; in memory always `escaped`. */
  readonly keyForm: KeyForm;
}

/**
 * Returns the key of the counter for a descriptor that matches `rule`, in the window that begins at `windowStart`
 * (seconds since the epoch).
 */
export function counterKey(
  { cacheKeyPrefix, keyForm }: KeyOptions,
  rule: Rule,
  entries: readonly DescriptorEntry[],
  windowStart: number,
): string {
  return descriptorKey(cacheKeyPrefix, keyForm, rule, entries) + String(windowStart);
}

/** Returns the common part of the keys of a descriptor's counters, up to the name of the window. */
export function taggedKey({ cacheKeyPrefix }: KeyOptions, rule: Rule, entries: readonly DescriptorEntry[]): string {
  return `{${descriptorKey(cacheKeyPrefix, "escaped", rule, entries).replaceAll("{", "%7B").replaceAll("}", "%7D")}}`;
}

/**
 * Returns the key of the counter for a window, below the key of its descriptor (`taggedKey`).
 * @param windowStart seconds since the epoch; absent for a sliding window
 */
export function windowKey(tagged: string, window: LimitWindow, windowStart?: number): string {
  const name = tagged + escaped(windowName(window));
  return windowStart === undefined ? name : `${name}-${windowStart}`;
}

function descriptorKey(
  cacheKeyPrefix: string,
  keyForm: KeyForm,
  rule: Rule,
  entries: readonly DescriptorEntry[],
): string {
  const shared = rule.sharesThreshold ? rule.levels : undefined;
  const part = keyForm === "escaped" ? escaped : verbatim;
  let key = `${part(cacheKeyPrefix + rule.domain)}_`;
  for (let i = 0; i < entries.length; i++) {
    const entry = entries[i];
    if (entry === undefined) continue;
    const level = shared?.[i];
    if (level?.shareThreshold !== true) key += `${part(entry.key)}_${part(entry.value)}_`;
    // The escaped form distinguishes `a=b_c` from `a_b=c`, but a wildcard matches both, and they share its budget.
    else if (keyForm === "escaped") key += `${part(level.key)}_${part(level.value)}_`;
    else key += `${entry.key}_${patternValue(level, entry)}_`;
  }
  return key;
}

/** Returns the beginnings of the keys of all counters of a domain, in the escaped form. */
export function domainKeyPrefixes({ cacheKeyPrefix }: KeyOptions, domain: string): readonly string[] {
  const prefix = `${escaped(cacheKeyPrefix + domain)}_`;
  return [prefix, `{${prefix.replaceAll("{", "%7B").replaceAll("}", "%7D")}`];
}

/** Formats an escaped counter key for operators: values that may be credentials become fingerprints. */
export function shownCounterKey(key: string): string {
  const parts = key.split("_");
  return parts
    .map((part, at) => {
      const isValue = at > 0 && at % 2 === 0;
      if (!isValue) return part;
      const { text, isSecret } = redactValue(unescaped(part), isSecretName(unescaped(parts[at - 1] ?? "")));
      return isSecret ? text : part;
    })
    .join("_");
}

function verbatim(text: string): string {
  return text;
}

function escaped(text: string): string {
  return text.includes("_") || text.includes("%") ? text.replaceAll("%", "%25").replaceAll("_", "%5F") : text;
}

function unescaped(text: string): string {
  return text.replaceAll("%7D", "}").replaceAll("%7B", "{").replaceAll("%5F", "_").replaceAll("%25", "%");
}

/**
 * Returns the parts of a metric name with the values of the call in place of the configured ones; secrets become
 * fingerprints.
 */
export function runtimeSegments(rule: Rule, entries: readonly DescriptorEntry[]): readonly string[] {
  return entries.map((entry, i) => {
    const level = rule.levels[i];
    if (level?.shareThreshold === true) return `${entry.key}_${patternValue(level, entry)}`;
    if (rule.detailedMetric && !rule.sharesThreshold) return `${entry.key}_${shownEntryValue(entry)}`;
    if (rule.detailedMetric || level === undefined || level.valueToMetric) return compositeOf(entry);
    return shownComposite(level.key, level.value);
  });
}

function compositeOf(entry: DescriptorEntry): string {
  return entry.value === "" ? entry.key : `${entry.key}_${shownEntryValue(entry)}`;
}

/** Formats a value of a call for operators. Without a key, the value is treated as a secret. */
export function shownEntryValue({ key, value }: DescriptorEntry): string {
  const { text, isSecret } = redactValue(value, key === "" || isSecretName(key));
  return isSecret ? text : value;
}

/** Returns the pattern that replaces every value at a level with `share_threshold`, without the key of the entry. */
function patternValue({ composite }: DescriptorNode, { key }: DescriptorEntry): string {
  return composite.startsWith(`${key}_`) ? composite.slice(key.length + 1) : composite;
}
