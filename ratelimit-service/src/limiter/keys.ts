/**
 * The names of counters and metrics. In Redis counter keys are the reference's to the letter by default, so that a store
 * can be shared with it while a deployment moves over: `<prefix><domain>_<key>_<value>_<key>_<value>_<window start>`. That
 * form has one name for different descriptors where a key or a value holds `_`; the escaped form has not.
 */
import { isSecretName, shownValue } from "@gatewayproxy/runtime/redaction";
import { type DescriptorNode, type Rule, shownComposite } from "../config/rule.ts";
import type { DescriptorEntry } from "./rate-limit.ts";

/** `escaped` writes `_` in parts as `%5F`, and `%` as `%25`. */
export type KeyForm = "reference" | "escaped";

export interface KeyOptions {
  /** Stands before every counter key (CACHE_KEY_PREFIX). */
  readonly cacheKeyPrefix: string;
  /** In Redis as REDIS_KEY_FORM says; in memory always `escaped`. */
  readonly keyForm: KeyForm;
}

/** The counter of a descriptor that hits `rule`, in the window that begins at `windowStart` (seconds since the epoch). */
export function counterKey(
  { cacheKeyPrefix, keyForm }: KeyOptions,
  rule: Rule,
  entries: readonly DescriptorEntry[],
  windowStart: number,
): string {
  const shared = rule.sharesThreshold ? rule.levels : undefined;
  const part = keyForm === "escaped" ? escaped : verbatim;
  let key = `${part(cacheKeyPrefix + rule.domain)}_`;
  for (let i = 0; i < entries.length; i++) {
    const entry = entries[i];
    if (entry === undefined) continue;
    const level = shared?.[i];
    if (level?.shareThreshold !== true) key += `${part(entry.key)}_${part(entry.value)}_`;
    // The escaped form tells `a=b_c` from `a_b=c`, but a wildcard takes both, and its budget is one.
    else if (keyForm === "escaped") key += `${part(level.key)}_${part(level.value)}_`;
    else key += `${entry.key}_${patternValue(level, entry)}_`;
  }
  return key + String(windowStart);
}

/** An escaped counter key as operators see it: values that may be credentials as fingerprints. */
export function shownCounterKey(key: string): string {
  const parts = key.split("_");
  return parts
    .map((part, at) => {
      const isValue = at > 0 && at % 2 === 0;
      if (!isValue) return part;
      const { text, isSecret } = shownValue(unescaped(part), isSecretName(unescaped(parts[at - 1] ?? "")));
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
  return text.replaceAll("%5F", "_").replaceAll("%25", "%");
}

/** The parts of a metric name where values that came stand in place of what is configured; of secrets their fingerprint. */
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

/** A value that came, as operators see it. Without a key nothing says that it is no secret. */
export function shownEntryValue({ key, value }: DescriptorEntry): string {
  const { text, isSecret } = shownValue(value, key === "" || isSecretName(key));
  return isSecret ? text : value;
}

/** The pattern that stands for every value at a level with `share_threshold`, behind the key of the entry. */
function patternValue({ composite }: DescriptorNode, { key }: DescriptorEntry): string {
  return composite.startsWith(`${key}_`) ? composite.slice(key.length + 1) : composite;
}
