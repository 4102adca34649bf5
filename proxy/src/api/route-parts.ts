/**
 * The fields that routes of all kinds have in common (Gateway API `CommonRouteSpec`, and the rules of a list of rules).
 */
import type * as z from "zod";
import { gatewayGroup } from "./names.ts";
import { group, kindName, list, namespaceName, portNumber, sectionName, strictObject, targetName } from "./schema.ts";

const parentRef = strictObject({
  group: group.default(gatewayGroup),
  kind: kindName.default("Gateway"),
  namespace: namespaceName.optional(),
  name: targetName,
  sectionName: sectionName.optional(),
  port: portNumber.optional(),
});

/** `spec.parentRefs` */
export const parentRefs = list(parentRef, { max: 32 }).superRefine((refs, context) => {
  const sections = new Map<string, Set<string>>();
  refs.forEach((ref, index) => {
    const parent = [ref.group, ref.kind, ref.namespace ?? "", ref.name].join("/");
    const section = ref.sectionName ?? "";
    const seen = sections.get(parent) ?? new Set();
    const error = parentRefError(section, seen);
    if (error !== undefined) context.addIssue({ code: "custom", path: [index], message: error });
    sections.set(parent, seen.add(section));
  });
});

/** The CRD's rules on several references to one parent. */
function parentRefError(section: string, seen: ReadonlySet<string>): string | undefined {
  if (seen.has(section)) return "the same parent and sectionName is named twice";
  if (seen.size > 0 && (section === "" || seen.has(""))) {
    return "sectionName is required where the same parent is named twice";
  }
  return undefined;
}

/** The most matches of all rules of a route together. */
const maxMatches = 128;

/** A rule, as far as the rules of one route depend on each other. */
interface RuleParts {
  readonly name?: string | undefined;
  readonly matches: readonly unknown[];
}

/** Checks the number of all matches, and that no two rules have the same name. */
export function checkRules(rules: readonly RuleParts[], context: z.RefinementCtx): void {
  const found = rules.reduce((sum, { matches }) => sum + matches.length, 0);
  if (found > maxMatches) {
    const message = `found ${found} matches in all rules together, accepted are at most ${maxMatches}`;
    context.addIssue({ code: "custom", message });
  }
  const names = new Set<string>();
  rules.forEach(({ name }, index) => {
    if (name === undefined) return;
    if (names.has(name)) {
      context.addIssue({ code: "custom", path: [index, "name"], message: `a second rule has the name "${name}"` });
    }
    names.add(name);
  });
}
