/**
 * The names of counters and metrics. Counter keys are the reference's to the letter, so a store can be shared with it
 * while a deployment moves over: `<prefix><domain>_<key>_<value>_<key>_<value>_<window start>`.
 */
import type { DescriptorNode, Rule } from "../config/rule.ts";
import type { DescriptorEntry } from "./rate-limit.ts";

/** The counter of a descriptor that hits `rule`, in the window that begins at `windowStart` (seconds since the epoch). */
export function counterKey(
  prefix: string,
  rule: Rule,
  entries: readonly DescriptorEntry[],
  windowStart: number,
): string {
  const shared = rule.sharesThreshold ? rule.levels : undefined;
  let key = `${prefix}${rule.domain}_`;
  for (let i = 0; i < entries.length; i++) {
    const entry = entries[i];
    if (entry === undefined) continue;
    key += `${entry.key}_${sharedValue(shared?.[i], entry) ?? entry.value}_`;
  }
  return key + String(windowStart);
}

/** The parts of a metric name where values that came stand in place of what is configured. */
export function runtimeSegments(rule: Rule, entries: readonly DescriptorEntry[]): readonly string[] {
  return entries.map((entry, i) => {
    const level = rule.levels[i];
    const shared = sharedValue(level, entry);
    if (shared !== undefined) return `${entry.key}_${shared}`;
    if (rule.detailedMetric) return rule.sharesThreshold ? compositeOf(entry) : `${entry.key}_${entry.value}`;
    return level === undefined || level.valueToMetric ? compositeOf(entry) : level.composite;
  });
}

function compositeOf(entry: DescriptorEntry): string {
  return entry.value === "" ? entry.key : `${entry.key}_${entry.value}`;
}

/** The pattern that stands for every value at a level with `share_threshold`. */
function sharedValue(level: DescriptorNode | undefined, entry: DescriptorEntry): string | undefined {
  if (level?.shareThreshold !== true) return undefined;
  return level.key === entry.key ? level.value : level.composite;
}
