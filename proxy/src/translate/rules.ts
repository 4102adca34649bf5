/**
 * One rule of a route into the form the data path serves, and what of it cannot be served.
 *
 * A filter must never be skipped (Gateway API `HTTPRouteFilter.type`), so a rule with one that we do not serve keeps
 * its matches and answers 500: were it dropped, its requests could reach another rule's backend unfiltered.
 */
import type { HttpBackendRef, HttpRoute, HttpRouteFilter, HttpRouteRule } from "../api/http-route.ts";
import type { FieldPath } from "../api/issue.ts";
import type { UnresolvedReason } from "../api/status.ts";
import type { Filter } from "../ir/filter.ts";
import type { Backend, BackendRef, RouteRule } from "../ir/snapshot.ts";
import type { ResolveBackend } from "./backends.ts";
import { translateFilter } from "./filters/filter.ts";
import type { Finding } from "./finding.ts";
import { translateMatch } from "./matches.ts";
import { nameKey } from "./object-names.ts";

/** A rule without the limits, which differ by listener. */
export type RuleWithoutLimits = Omit<RouteRule, "limits">;

export interface RuleState {
  readonly rule: RuleWithoutLimits;
  /** Backends that it names and that exist. */
  readonly backends: readonly Backend[];
  /** Why it answers 500 to everything; empty when it is served. */
  readonly invalid: readonly Finding<"UnsupportedValue">[];
  /** References that cannot be followed. */
  readonly unresolved: readonly Finding<UnresolvedReason>[];
  /** Fields that it sets and that have no effect, while the rule is served. */
  readonly unserved: readonly Finding<"Unserved">[];
}

export function translateRule(
  route: HttpRoute,
  index: number,
  rule: HttpRouteRule,
  resolve: ResolveBackend,
): RuleState {
  const path: FieldPath = ["spec", "rules", index];
  const filters = translateFilters(rule.filters, [...path, "filters"]);
  const refs = rule.backendRefs.map((ref, place) => translateRef(route, ref, [...path, "backendRefs", place], resolve));
  const invalid = [filters, ...refs].flatMap((part) => part.invalid);
  const isServed = invalid.length === 0;
  return {
    rule: {
      key: `${nameKey(route)}/${rule.name ?? index}`,
      ...(rule.name === undefined ? {} : { name: rule.name }),
      matches: rule.matches.map(translateMatch),
      filters: isServed ? filters.filters : [],
      backendRefs: isServed ? refs.map(({ ref }) => ref) : [],
    },
    backends: isServed ? refs.flatMap(({ backend }) => backend ?? []) : [],
    invalid,
    unresolved: refs.flatMap(({ unresolved }) => unresolved),
    unserved: unservedFields(rule, path),
  };
}

interface TranslatedFilters {
  readonly filters: readonly Filter[];
  readonly invalid: readonly Finding<"UnsupportedValue">[];
}

function translateFilters(filters: readonly HttpRouteFilter[], path: FieldPath): TranslatedFilters {
  const served: Filter[] = [];
  const invalid: Finding<"UnsupportedValue">[] = [];
  filters.forEach((filter, index) => {
    const translated = translateFilter(filter);
    if (translated !== undefined) served.push(translated);
    else {
      const message = `filter ${filter.type} is not served by this version`;
      invalid.push({ reason: "UnsupportedValue", message, path: [...path, index, "type"] });
    }
  });
  return { filters: served, invalid };
}

interface TranslatedRef extends Pick<RuleState, "invalid" | "unresolved"> {
  readonly ref: BackendRef;
  readonly backend: Backend | undefined;
}

function translateRef(route: HttpRoute, ref: HttpBackendRef, path: FieldPath, resolve: ResolveBackend): TranslatedRef {
  const { weight } = ref;
  const { filters, invalid } = translateFilters(ref.filters, [...path, "filters"]);
  const resolution = resolve(route, ref);
  if (resolution.kind === "unresolved") {
    const { reason, message } = resolution;
    const unresolved = [{ reason, message, path }];
    return { ref: { kind: "invalid", weight, reason: message }, backend: undefined, invalid, unresolved };
  }
  const { backend } = resolution;
  return { ref: { kind: "backend", weight, backend: backend.key, filters }, backend, invalid, unresolved: [] };
}

/** Fields that are read and not acted on yet. To serve one, give it a form in `ir/` and take it off this list. */
const unservedFieldNames = ["timeouts", "retry", "sessionPersistence"] as const;

function unservedFields(rule: HttpRouteRule, path: FieldPath): readonly Finding<"Unserved">[] {
  return unservedFieldNames
    .filter((field) => rule[field] !== undefined)
    .map((field) => ({
      reason: "Unserved",
      message: `${field} has no effect in this version`,
      path: [...path, field],
    }));
}
