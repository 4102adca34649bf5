/**
 * The valid rules of a route with some rejected rules (Gateway API, `PartiallyInvalid`). A rejected rule keeps its
 * name and its valid matches and responds with 500, like a rule that the translation rejects. If it were left out, its
 * requests could reach the backend of another rule without its filters.
 */
import type { ErrorPlace } from "../../api/bounded-errors.ts";
import { parseResource } from "../../api/parse-resource.ts";
import type { Resource } from "../../api/resource.ts";
import { fieldsOf, isObject, type KubeObject } from "../../kube/object.ts";

/**
 * Returns the route with its valid rules; undefined for an object of another kind, if an error is outside of the rules,
 * and if no rule is valid.
 */
export function parseValidRules(object: KubeObject, errors: readonly ErrorPlace[]): Resource | undefined {
  const { kind, spec } = object;
  const rules = fieldsOf(spec)["rules"];
  if ((kind !== "HTTPRoute" && kind !== "GRPCRoute") || !isObject(spec) || !Array.isArray(rules)) return undefined;
  const byRule = Map.groupBy(errors, ({ path }) => ruleOf(path));
  if (byRule.has(undefined) || byRule.size >= rules.length) return undefined;
  const remainingRules = rules.map((rule: unknown, index) => withoutInvalidParts(rule, byRule.get(index)));
  const parsed = parseResource({ ...object, spec: { ...spec, rules: remainingRules } });
  if (parsed.kind !== "resource") return undefined;
  const route = parsed.resource;
  const isLost = (index: number) => hasLostAllMatches(rules[index], remainingRules[index]);
  if (route.kind === "HTTPRoute") {
    return { ...route, spec: { ...route.spec, rules: restricted(route.spec.rules, isLost) } };
  }
  if (route.kind === "GRPCRoute") {
    return { ...route, spec: { ...route.spec, rules: restricted(route.spec.rules, isLost) } };
  }
  return undefined;
}

/**
 * The parser treats an empty list of matches as a match for every request; a rule that has lost all must match none.
 */
function restricted<Rule extends object>(rules: readonly Rule[], isLost: (index: number) => boolean): readonly Rule[] {
  return rules.map((rule, index) => (isLost(index) ? { ...rule, matches: [] } : rule));
}

function ruleOf([spec, rules, index]: ErrorPlace["path"]): number | undefined {
  return spec === "spec" && rules === "rules" && typeof index === "number" ? index : undefined;
}

function withoutInvalidParts(rule: unknown, errors: readonly ErrorPlace[] | undefined): unknown {
  if (errors === undefined || !isObject(rule)) return rule;
  const invalid = new Set(errors.map(({ path }) => (path[3] === "matches" ? path[4] : path[3])));
  const { name } = rule;
  return {
    ...(name !== undefined && !invalid.has("name") && { name }),
    matches: matchesOf(rule).filter((_, index) => !invalid.has(index)),
  };
}

function hasLostAllMatches(before: unknown, after: unknown): boolean {
  return matchesOf(after).length === 0 && matchesOf(before).length > 0;
}

function matchesOf(rule: unknown): readonly unknown[] {
  const { matches } = fieldsOf(rule);
  return Array.isArray(matches) ? matches : [];
}
