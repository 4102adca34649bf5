/** Explains which rule a descriptor matches and why, for `/match`, step by step as the limiter matches. */
import { type DescriptorLevel, type DescriptorNode, type RateLimitConfig, shownComposite } from "../../config/rule.ts";
import { shownEntryValue } from "../../limiter/keys.ts";
import { findNode } from "../../limiter/match.ts";
import type { DescriptorEntry } from "../../model/rate-limit.ts";
import { ruleDump } from "./config-dump.ts";

/** The explanation for one descriptor, as the response of `/match`. */
export interface MatchExplanation {
  /** One step per entry that was matched; the last one says why matching ended. */
  readonly steps: readonly string[];
  /** The result in one sentence. */
  readonly outcome: string;
  /** The matched rule; absent without a limit. */
  readonly rule?: object;
}

/** Maximum number of names in an explanation; a level may have thousands. */
const maxNames = 20;

/** Matches the entries as the limiter does. */
export function explainMatch(
  config: RateLimitConfig | undefined,
  domain: string,
  entries: readonly DescriptorEntry[],
): MatchExplanation {
  const level = config?.domains.get(domain);
  if (level === undefined) {
    const domains = config === undefined ? "no configuration is loaded" : `there are ${listed(config.domains.keys())}`;
    return { steps: [], outcome: `no limit: domain ${JSON.stringify(domain)} is not configured; ${domains}` };
  }
  if (entries.length === 0) return { steps: [], outcome: "no limit: a descriptor without entries matches nothing" };
  return walk(level, entries);
}

function walk(top: DescriptorLevel, entries: readonly DescriptorEntry[]): MatchExplanation {
  const steps: string[] = [];
  let level = top;
  let node: DescriptorNode | undefined;
  for (const entry of entries) {
    node = findNode(level, entry);
    steps.push(stepOf(entry, level, node));
    if (node === undefined) {
      const outcome = "no limit: the entries leave the tree, and there is no way back to a less exact branch";
      return { steps, outcome };
    }
    level = node.children;
  }
  return { steps, ...outcomeAt(node) };
}

function stepOf(entry: DescriptorEntry, level: DescriptorLevel, node: DescriptorNode | undefined): string {
  const text = `${entry.key}=${shownEntryValue(entry)}`;
  const exact = `${entry.key}_${entry.value}`;
  if (node === undefined) {
    const present = level.byComposite.size === 0 ? "nothing" : listed(namesOf(level));
    return `${text}: no match for ${entry.key}_${shownEntryValue(entry)}, any wildcard or ${entry.key}; at this level there is ${present}`;
  }
  if (node.wildcardParts !== undefined && node.composite !== exact) {
    const shared = node.shareThreshold ? ", whose matching values share one counter" : "";
    return `${text}: matches the wildcard ${nameOf(node)}${shared}`;
  }
  return node.composite === exact && node.value !== ""
    ? `${text}: matches ${nameOf(node)} exactly`
    : `${text}: matches ${nameOf(node)}, which takes every value without a more exact match`;
}

function outcomeAt(node: DescriptorNode | undefined): Omit<MatchExplanation, "steps"> {
  const rule = node?.rule;
  if (rule === undefined) {
    const below = node === undefined || node.children.byComposite.size === 0;
    const deeper = below ? "" : `; limits are deeper, below ${listed(namesOf(node.children))}`;
    return { outcome: `no limit: the last entry matches a node without rate_limit${deeper}` };
  }
  if (rule.limit === undefined) return { outcome: `unlimited by ${rule.path}`, rule: ruleDump(rule) };
  const { requestsPerUnit, unit, unitMultiplier = 1 } = rule.limit;
  const unitText = unitMultiplier === 1 ? unit.toLowerCase() : `${unitMultiplier} ${unit.toLowerCase()}s`;
  const mode = rule.shadowMode ? ", in shadow mode, so never denied" : "";
  return { outcome: `limited to ${requestsPerUnit} per ${unitText} by ${rule.path}${mode}`, rule: ruleDump(rule) };
}

function namesOf({ byComposite }: DescriptorLevel): Iterable<string> {
  return byComposite.values().map(nameOf);
}

function nameOf({ key, value }: DescriptorNode): string {
  return shownComposite(key, value);
}

function listed(names: Iterable<string>): string {
  const all = [...names];
  const shown = all.slice(0, maxNames).join(", ");
  return all.length > maxNames ? `${shown} and ${all.length - maxNames} more` : shown;
}
