/** Explains which rule a descriptor matches and why, for `/match`, step by step as the limiter matches. */
import { type DescriptorLevel, type DescriptorNode, type RateLimitConfig, shownComposite } from "../../config/rule.ts";
import { shownEntryValue } from "../../limiter/keys.ts";
import { findNode } from "../../limiter/match.ts";
import type { LimitWindow } from "../../model/limit-window.ts";
import type { CurrentLimit, DescriptorEntry } from "../../model/rate-limit.ts";
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
    const domains =
      config === undefined ? "no configuration is loaded" : `there are ${joinNames(config.domains.keys())}`;
    return { steps: [], outcome: `no limit: domain ${JSON.stringify(domain)} is not configured; ${domains}` };
  }
  if (entries.length === 0) return { steps: [], outcome: "no limit: a descriptor without entries matches nothing" };
  return matchEntries(level, entries);
}

function matchEntries(top: DescriptorLevel, entries: readonly DescriptorEntry[]): MatchExplanation {
  const steps: string[] = [];
  let level = top;
  let node: DescriptorNode | undefined;
  for (const entry of entries) {
    node = findNode(level, entry);
    steps.push(describeStep(entry, level, node));
    if (node === undefined) {
      const outcome = "no limit: no rule matches all entries, and matching does not go back to a less exact node";
      return { steps, outcome };
    }
    level = node.children;
  }
  return { steps, ...describeOutcome(node) };
}

function describeStep(entry: DescriptorEntry, level: DescriptorLevel, node: DescriptorNode | undefined): string {
  const text = `${entry.key}=${shownEntryValue(entry)}`;
  const exact = `${entry.key}_${entry.value}`;
  if (node === undefined) {
    const available = level.byComposite.size === 0 ? "nothing" : joinNames(namesOf(level));
    return `${text}: no match for ${entry.key}_${shownEntryValue(entry)}, any wildcard or ${entry.key}; at this level there is ${available}`;
  }
  if (node.wildcardParts !== undefined && node.composite !== exact) {
    const shared = node.shareThreshold ? ", whose matching values share one counter" : "";
    return `${text}: matches the wildcard ${nameOf(node)}${shared}`;
  }
  return node.composite === exact && node.value !== ""
    ? `${text}: matches ${nameOf(node)} exactly`
    : `${text}: matches ${nameOf(node)}, which takes every value without a more exact match`;
}

function describeOutcome(node: DescriptorNode | undefined): Omit<MatchExplanation, "steps"> {
  const rule = node?.rule;
  if (rule === undefined) {
    const isLeaf = node === undefined || node.children.byComposite.size === 0;
    const hint = isLeaf ? "" : `; limits are deeper, below ${joinNames(namesOf(node.children))}`;
    return { outcome: `no limit: the last entry matches a node without rate_limit${hint}` };
  }
  if (rule.limit === undefined) return { outcome: `unlimited by ${rule.path}`, rule: ruleDump(rule) };
  const limits =
    rule.group === undefined
      ? describeLimit(rule.limit, rule.calendar)
      : rule.group.limits.map(({ limit, window }) => describeLimit(limit, window)).join(" and to ");
  const mode = rule.shadowMode ? ", in shadow mode, so never denied" : "";
  return { outcome: `limited to ${limits} by ${rule.path}${mode}`, rule: ruleDump(rule) };
}

/**
 * Describes a limit: `10 per hour`, `10 per 2 hours`, `10 per calendar month in Europe/Berlin`, `10 per sliding hour`.
 */
function describeLimit({ requestsPerUnit, unit, unitMultiplier = 1 }: CurrentLimit, window?: LimitWindow): string {
  const kind = window === undefined || window.kind === "fixed" ? "" : `${window.kind} `;
  const units =
    unitMultiplier === 1 ? `${kind}${unit.toLowerCase()}` : `${unitMultiplier} ${kind}${unit.toLowerCase()}s`;
  const zone = window?.kind === "calendar" ? ` in ${window.timeZone}` : "";
  return `${requestsPerUnit} per ${units}${zone}`;
}

function namesOf({ byComposite }: DescriptorLevel): Iterable<string> {
  return byComposite.values().map(nameOf);
}

function nameOf({ key, value }: DescriptorNode): string {
  return shownComposite(key, value);
}

function joinNames(names: Iterable<string>): string {
  const all = [...names];
  const shown = all.slice(0, maxNames).join(", ");
  return all.length > maxNames ? `${shown} and ${all.length - maxNames} more` : shown;
}
