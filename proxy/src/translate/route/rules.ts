/**
 * Translates a rule of a route, with findings for the parts that are not supported or invalid.
 *
 * An invalid rule keeps its matches and responds with 500. Otherwise its requests could reach the backend of another
 * rule without the filters of this one.
 */
import { routeKey } from "@gatewayproxy/runtime/route-key";
import type { BackendReference } from "../../api/http-route-filter.ts";
import type { FieldPath } from "../../api/issue.ts";
import type { RouteResource } from "../../api/resource.ts";
import type { Match } from "../../ir/match.ts";
import type { Backend, BackendRef, RouteRule } from "../../ir/snapshot.ts";
import type { BackendReferences } from "../backend/backends.ts";
import type { BackendResolution } from "../backend/service-backend.ts";
import { memoisedWith } from "@gatewayproxy/runtime/memoised";
import { refsOfRule } from "../reference/references.ts";
import { type FilterPlace, translateFilters } from "./filters/filter-list.ts";
import { type Finding, findingOfReference, type Found } from "../status/finding.ts";
import { findingsOf, type FindingOf } from "../status/findings-table.ts";
import { translateGrpcMatch } from "./grpc-matches.ts";
import { translateMatch } from "./matches.ts";
import { translateRetry, translateTimeouts } from "./timeouts.ts";

/** A rule without the limits, which differ by listener. */
export type RuleWithoutLimits = Omit<RouteRule, "limits">;

/** A rule that is translated as far as it is valid. */
export interface RuleState {
  readonly rule: RuleWithoutLimits;
  /** The existing backends of the rule, including those of mirrors and of lists of providers. */
  readonly backends: readonly Backend[];
  readonly findings: readonly FindingOf<"Rule">[];
}

/** Whether a rule is valid. It responds with 500 to all requests otherwise. */
export function isServed({ findings }: Pick<RuleState, "findings">): boolean {
  return findingsOf("Rule", "Accepted", findings).length === 0;
}

/** A rule of a route of any kind. */
export type RuleResource = RouteResource["spec"]["rules"][number];

/**
 * Translates a rule. Returns the same state while nothing changes on which it depends.
 *
 * @param index of the rule in the route.
 */
export function translateRule(
  references: BackendReferences,
  route: RouteResource,
  index: number,
  rule: RuleResource,
): RuleState {
  const resolutions = refsOfRule(rule).map((ref) => references.resolve(route, ref));
  const providers = resolutions.map((resolution) => references.providersOf(resolution));
  return translated(rule, route, index, ...resolutions, ...providers);
}

/** @param inputs the resolutions of the references of the rule, in their order; then the providers of each. */
const translated = memoisedWith(
  (
    rule: RuleResource,
    route: RouteResource,
    index: number,
    ...inputs: readonly (BackendResolution | readonly Backend[] | undefined)[]
  ): RuleState => {
    const refs = refsOfRule(rule);
    // The first inputs are the resolutions, one for each reference.
    const resolutions = new Map(refs.map((ref, at) => [ref, inputs[at] as BackendResolution]));
    const providers = new Map(
      refs.map((ref, at) => {
        const resolution = resolutions.get(ref);
        return [resolution && "value" in resolution ? resolution.value : undefined, inputs[refs.length + at]] as const;
      }),
    );
    const path: FieldPath = ["spec", "rules", index];
    const place: FilterPlace = { path: [...path, "filters"], before: [], kind: "rule" };
    const resolve: ResolveBackend = (ref) => {
      const resolution = resolutions.get(ref);
      if (resolution === undefined) {
        throw new Error(`a reference of rule ${index} is not one of those that were resolved`);
      }
      return resolution;
    };
    const filters = translateFilters(rule.filters, place, resolve);
    const backendRefs = rule.backendRefs.map((ref, at) =>
      translateRef(rule, ref, [...path, "backendRefs", at], resolve),
    );
    const parts = [filters, ...backendRefs];
    const findings = [...parts.flatMap((part) => part.findings), ...unsupportedFields(rule, path)];
    const isValid = findingsOf("Rule", "Accepted", findings).length === 0;
    const backends = parts.flatMap((part) => part.backends);
    // The providers are Backends, as the only inputs that are lists.
    const ofLists = backends.flatMap((backend) => (providers.get(backend) ?? []) as readonly Backend[]);
    const { timeouts, retry } = { timeouts: undefined, retry: undefined, ...rule };
    return {
      rule: {
        key: `${routeKey(route.kind, route.metadata)}/${rule.name ?? index}`,
        ...(rule.name === undefined ? {} : { name: rule.name }),
        matches: matchesOf(route, index),
        filters: isValid ? filters.value : [],
        backendRefs: isValid ? backendRefs.map(({ value }) => value) : [],
        ...(timeouts === undefined ? {} : { timeouts: translateTimeouts(timeouts) }),
        ...(retry === undefined ? {} : { retry: translateRetry(retry) }),
      },
      backends: isValid ? [...backends, ...ofLists] : [],
      findings,
    };
  },
);

function matchesOf(route: RouteResource, index: number): readonly Match[] {
  return route.kind === "HTTPRoute"
    ? (route.spec.rules[index]?.matches ?? []).map(translateMatch)
    : (route.spec.rules[index]?.matches ?? []).map(translateGrpcMatch);
}

/** Resolves a backendRef of the route. */
type ResolveBackend = (ref: BackendReference) => BackendResolution;

/** A translated backendRef. */
export interface TranslatedRef extends Found<BackendRef, FindingOf<"Rule">["reason"]> {
  /** The existing backends of the reference, including those of mirrors. */
  readonly backends: readonly Backend[];
}

function translateRef(
  rule: RuleResource,
  ref: RuleResource["backendRefs"][number],
  path: FieldPath,
  resolve: ResolveBackend,
): TranslatedRef {
  const { weight } = ref;
  const place: FilterPlace = { path: [...path, "filters"], before: rule.filters, kind: "backendRef" };
  const { value: filters, backends, findings } = translateFilters(ref.filters, place, resolve);
  const own = backendRefOf(resolve(ref), { weight, filters }, path);
  return {
    value: own.value,
    backends: [...own.backends, ...backends],
    findings: [...own.findings, ...findings],
  };
}

/** Returns the backendRef of a resolved reference, without the backends and findings of its filters. */
export function backendRefOf(
  resolution: BackendResolution,
  { weight, filters }: Pick<Extract<BackendRef, { kind: "backend" }>, "weight" | "filters">,
  path: FieldPath,
): TranslatedRef {
  if (resolution.kind === "unresolved" || resolution.kind === "unusable") {
    const { message } = resolution;
    const unresolved = resolution.kind === "unresolved" ? [findingOfReference(resolution, path)] : [];
    return { value: { kind: "invalid", weight, reason: message }, backends: [], findings: unresolved };
  }
  const { value: backend } = resolution;
  const limitation = resolution.kind === "resolved" ? resolution.limitation : undefined;
  return {
    value: { kind: "backend", weight, backend: backend.key, filters },
    backends: [backend],
    findings: limitation === undefined ? [] : [{ reason: "Unsupported", message: limitation, path }],
  };
}

/** Returns findings for fields without an effect. To support one, add it to `ir/` and remove it from this list. */
const unsupportedFieldNames = ["sessionPersistence"] as const;

function unsupportedFields(rule: RuleResource, path: FieldPath): readonly Finding<"Unsupported">[] {
  return unsupportedFieldNames
    .filter((field) => rule[field] !== undefined)
    .map((field) => ({
      reason: "Unsupported",
      message: `${field} has no effect`,
      path: [...path, field],
    }));
}
