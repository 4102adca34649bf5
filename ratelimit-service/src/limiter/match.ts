/**
 * Finds the rule of a descriptor. The entries are matched from left to right. At each level the exact `key_value` wins,
 * then the first wildcard of the configuration that matches, then the bare `key`. There is no backtracking: once a
 * level is entered it is kept, even if nothing below it matches. A rule applies only at the depth of the last entry.
 */
import type { DescriptorLevel, DescriptorNode, Rule } from "../config/rule.ts";
import type { DescriptorEntry } from "../model/rate-limit.ts";

/** Returns the rule that the entries lead to, or `undefined`. Allocates one string per entry. */
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

/** Returns the node of a level that matches an entry. */
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
 * Whether `text` consists of the parts in order, with any text or none in between. `["a_bar", "b"]`, written `bar*b`,
 * matches `a_barb` and `a_bar/x/b`. Taking the first occurrence of each part is sufficient, because the last part is
 * anchored to the end.
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
