/**
 * Translates a rule of a route, with findings for the parts that are not supported or invalid.
 *
 * An invalid rule keeps its matches and responds with 500. Otherwise its requests could reach the backend of another rule
 * without the filters of this one.
 */
import type { HttpBackendRef, HttpRoute, HttpRouteRule } from "../../api/http-route.ts";
import type { FieldPath } from "../../api/issue.ts";
import type { InvalidRuleReason, UnresolvedReason } from "../../api/status.ts";
import type { Backend, BackendRef, RouteRule } from "../../ir/snapshot.ts";
import type { ResolveBackend } from "../backend/backends.ts";
import { type FilterPlace, translateFilters } from "./filters/filter-list.ts";
import type { Finding } from "../status/finding.ts";
import { translateMatch } from "./matches.ts";
import { nameKey } from "../index/object-names.ts";
import { translateRetry, translateTimeouts } from "./timeouts.ts";

/** A rule without the limits, which differ by listener. */
export type RuleWithoutLimits = Omit<RouteRule, "limits">;

export interface RuleState {
  readonly rule: RuleWithoutLimits;
  /** The existing backends of the rule, including those of mirrors. */
  readonly backends: readonly Backend[];
  /** Why it responds with 500 to all requests; empty if it is valid. */
  readonly invalid: readonly Finding<InvalidRuleReason>[];
  /** References that could not be resolved. */
  readonly unresolved: readonly Finding<UnresolvedReason>[];
  /** Fields that are set and have no effect. */
  readonly unsupported: readonly Finding<"Unsupported">[];
}

export function translateRule(
  route: HttpRoute,
  index: number,
  rule: HttpRouteRule,
  resolve: ResolveBackend,
): RuleState {
  const path: FieldPath = ["spec", "rules", index];
  const place: FilterPlace = { path: [...path, "filters"], before: [], kind: "rule" };
  const filters = translateFilters(rule.filters, place, (ref) => resolve(route, ref));
  const refs = rule.backendRefs.map((ref, at) =>
    translateRef({ route, rule, ref, path: [...path, "backendRefs", at], resolve }),
  );
  const parts = [filters, ...refs];
  const invalid = parts.flatMap((part) => part.invalid);
  const isSupported = invalid.length === 0;
  const { timeouts, retry } = rule;
  return {
    rule: {
      key: `${nameKey(route)}/${rule.name ?? index}`,
      ...(rule.name === undefined ? {} : { name: rule.name }),
      matches: rule.matches.map(translateMatch),
      filters: isSupported ? filters.filters : [],
      backendRefs: isSupported ? refs.map(({ ref }) => ref) : [],
      ...(timeouts === undefined ? {} : { timeouts: translateTimeouts(timeouts) }),
      ...(retry === undefined ? {} : { retry: translateRetry(retry) }),
    },
    backends: isSupported ? parts.flatMap(({ backends }) => backends) : [],
    invalid,
    unresolved: parts.flatMap(({ unresolved }) => unresolved),
    unsupported: [...unsupportedFields(rule, path), ...refs.flatMap(({ unsupported }) => unsupported ?? [])],
  };
}

interface RefInRule {
  readonly route: HttpRoute;
  readonly rule: HttpRouteRule;
  readonly ref: HttpBackendRef;
  readonly path: FieldPath;
  readonly resolve: ResolveBackend;
}

interface TranslatedRef extends Pick<RuleState, "backends" | "invalid" | "unresolved"> {
  readonly ref: BackendRef;
  readonly unsupported?: Finding<"Unsupported">;
}

function translateRef({ route, rule, ref, path, resolve }: RefInRule): TranslatedRef {
  const { weight } = ref;
  const place: FilterPlace = { path: [...path, "filters"], before: rule.filters, kind: "backendRef" };
  const translated = translateFilters(ref.filters, place, (reference) => resolve(route, reference));
  const { filters, invalid } = translated;
  const resolution = resolve(route, ref);
  if (resolution.kind === "unresolved") {
    const { reason, message } = resolution;
    const unresolved = [{ reason, message, path }, ...translated.unresolved];
    return { ref: { kind: "invalid", weight, reason: message }, backends: translated.backends, invalid, unresolved };
  }
  if (resolution.kind === "rejected") {
    const rejected: BackendRef = { kind: "invalid", weight, reason: resolution.message };
    return { ref: rejected, backends: translated.backends, invalid, unresolved: translated.unresolved };
  }
  const { backend, unsupported } = resolution;
  return {
    ...(unsupported !== undefined && { unsupported: { reason: "Unsupported", message: unsupported, path } }),
    ref: { kind: "backend", weight, backend: backend.key, filters },
    backends: [backend, ...translated.backends],
    invalid,
    unresolved: translated.unresolved,
  };
}

/** Returns findings for fields without an effect. To support one, add it to `ir/` and remove it from this list. */
const unsupportedFieldNames = ["sessionPersistence"] as const;

function unsupportedFields(rule: HttpRouteRule, path: FieldPath): readonly Finding<"Unsupported">[] {
  return unsupportedFieldNames
    .filter((field) => rule[field] !== undefined)
    .map((field) => ({
      reason: "Unsupported",
      message: `${field} has no effect`,
      path: [...path, field],
    }));
}
