/**
 * Which rule a descriptor hits. The entries are walked from left to right; at each level the exact `key_value` wins, then
 * the first wildcard of the configuration that fits, then the bare `key`. There is no way back: a level that was entered
 * is kept, even if nothing below it fits. A rule counts only at the depth of the last entry.
 */
import type { DescriptorLevel, DescriptorNode, Rule } from "../config/rule.ts";
import type { DescriptorEntry } from "./rate-limit.ts";

/** The rule at the end of the entries' way; `undefined` where there is none. Allocates one string per entry. */
export function findRule(domain: DescriptorLevel, entries: readonly DescriptorEntry[]): Rule | undefined {
  let level = domain;
  let node: DescriptorNode | undefined;
  for (const entry of entries) {
    node = findNode(level, entry);
    if (node === undefined) return undefined;
    level = node.children;
  }
  return node?.rule;
}

/** The node of a level that an entry enters. */
export function findNode(level: DescriptorLevel, entry: DescriptorEntry): DescriptorNode | undefined {
  const composite = `${entry.key}_${entry.value}`;
  const exact = level.byComposite.get(composite);
  if (exact !== undefined) return exact;
  for (const node of level.wildcards) {
    if (node.wildcardParts !== undefined && matchesWildcard(node.wildcardParts, composite)) return node;
  }
  return level.byComposite.get(entry.key);
}

/**
 * Whether `text` is made of the parts with anything, or nothing, between them. `["a_bar", "b"]`, written `bar*b`, fits
 * `a_barb` and `a_bar/x/b`. Takes the first place for each part, which is enough: the last is tied to the end.
 */
export function matchesWildcard(parts: readonly string[], text: string): boolean {
  const first = parts[0] ?? "";
  const last = parts[parts.length - 1] ?? "";
  if (!text.startsWith(first)) return false;
  const end = text.length - last.length;
  let at = first.length;
  for (let i = 1; i < parts.length - 1; i++) {
    const part = parts[i] ?? "";
    const found = text.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return at <= end && text.endsWith(last);
}
