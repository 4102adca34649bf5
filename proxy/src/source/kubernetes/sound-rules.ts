/**
 * An HTTPRoute of which some rules are refused, without them: the others are served (Gateway API, `PartiallyInvalid`).
 * What is left of a refused rule are its name and those of its matches that are sound. It answers 500, as a rule does
 * that translation refuses: were it left out, its requests could reach another rule's backend without its filters.
 */
import type { FieldFault } from "../../api/issue.ts";
import { parseResource } from "../../api/parse-resource.ts";
import type { Resource } from "../../api/resource.ts";
import { fieldsOf, isObject, type KubeObject } from "../../kube/object.ts";

/** Undefined for an object of another kind, for faults elsewhere, and where no rule is sound. */
export function parseSoundRules(object: KubeObject, faults: readonly FieldFault[]): Resource | undefined {
  const { kind, spec } = object;
  const rules = fieldsOf(spec)["rules"];
  if (kind !== "HTTPRoute" || !isObject(spec) || !Array.isArray(rules)) return undefined;
  const byRule = Map.groupBy(faults, ({ path }) => ruleOf(path));
  if (byRule.has(undefined) || byRule.size >= rules.length) return undefined;
  const left = rules.map((rule: unknown, index) => leftOf(rule, byRule.get(index)));
  const parsed = parseResource({ ...object, spec: { ...spec, rules: left } });
  if (parsed.kind !== "resource" || parsed.resource.kind !== "HTTPRoute") return undefined;
  const route = parsed.resource;
  const silenced = route.spec.rules.map((rule, index) => {
    // To the parser no match is any request; here none is left.
    return hasNoMatchLeft(rules[index], left[index]) ? { ...rule, matches: [] } : rule;
  });
  return { ...route, spec: { ...route.spec, rules: silenced } };
}

function ruleOf([spec, rules, index]: FieldFault["path"]): number | undefined {
  return spec === "spec" && rules === "rules" && typeof index === "number" ? index : undefined;
}

function leftOf(rule: unknown, faults: readonly FieldFault[] | undefined): unknown {
  if (faults === undefined || !isObject(rule)) return rule;
  const faulty = new Set(faults.map(({ path }) => (path[3] === "matches" ? path[4] : path[3])));
  const { name } = rule;
  return {
    ...(name !== undefined && !faulty.has("name") && { name }),
    matches: matchesOf(rule).filter((_, index) => !faulty.has(index)),
  };
}

function hasNoMatchLeft(before: unknown, after: unknown): boolean {
  return matchesOf(after).length === 0 && matchesOf(before).length > 0;
}

function matchesOf(rule: unknown): readonly unknown[] {
  const { matches } = fieldsOf(rule);
  return Array.isArray(matches) ? matches : [];
}
