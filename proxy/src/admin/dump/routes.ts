/** Dumps routes with their rules as served, and their conditions at each parent. */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import type { DumpedRoute, DumpedRule } from "@gatewayproxy/admin-api/config-dump";
import type { ParentStatus } from "../../api/status.ts";
import type { Filter, HeaderField } from "../../ir/filter.ts";
import type { Match } from "../../ir/match.ts";
import type { BackendRef, Route, RouteRule } from "../../ir/snapshot.ts";
import { redactNamed, redactPath } from "@gatewayproxy/runtime/redaction";
import type { ConfigurationState } from "./input.ts";

/** A route at one listener. */
interface ServedRoute {
  readonly listener: string;
  readonly route: Route;
}

export function* dumpRoutes({ statuses, snapshot }: ConfigurationState): Steps<readonly DumpedRoute[]> {
  const served = new Map<string, ServedRoute[]>();
  for (const { key, routes } of snapshot.binds.flatMap(({ listeners }) => listeners)) {
    for (const route of routes) {
      const places = served.get(route.key);
      if (places === undefined) served.set(route.key, [{ listener: key, route }]);
      else places.push({ listener: key, route });
    }
    yield;
  }
  return yield* mapInSteps(statuses.httpRoutes, ({ namespace, name, parents }) => {
    const key = objectKey({ namespace, name });
    const places = served.get(key) ?? [];
    return {
      key,
      namespace,
      name,
      hostnames: [...new Set(places.flatMap(({ route }) => route.hostnames))],
      // Listeners with several addresses occur once per address.
      listeners: [...new Set(places.map(({ listener }) => listener))],
      parents: parents.map((parent) => dumpParent(namespace, parent)),
      rules: dumpRules(places.map(({ route }) => route)),
    };
  });
}

function dumpParent(namespace: string, { parentRef, conditions }: ParentStatus): DumpedRoute["parents"][number] {
  const { kind, name, sectionName, port } = parentRef;
  const section = sectionName === undefined ? "" : `#${sectionName}`;
  const portSuffix = port === undefined ? "" : `:${port}`;
  return { parent: `${kind} ${parentRef.namespace ?? namespace}/${name}${section}${portSuffix}`, conditions };
}

/** Merges a route's rules at its listeners, which differ only in the policies attached there. */
function dumpRules(places: readonly Route[]): readonly DumpedRule[] {
  const [first] = places;
  if (first === undefined) return [];
  return first.rules.map((rule, index) =>
    dumpRule(
      rule,
      places.flatMap(({ rules }) => rules[index] ?? []),
    ),
  );
}

/** @param everywhere The same rule at every listener. */
function dumpRule(rule: RouteRule, everywhere: readonly RouteRule[]): DumpedRule {
  const { key, name, matches, filters, backendRefs, timeouts, retry } = rule;
  return {
    key,
    ...(name !== undefined && { name }),
    matches: matches.map(shownMatch),
    filters: filters.map(shownFilter),
    backendRefs: backendRefs.map(dumpBackendRef),
    ...(timeouts !== undefined && { timeouts }),
    ...(retry !== undefined && { retry: { ...retry, codes: retry.codes } }),
    limits: limitsOf(everywhere),
    refusedPolicies: [...new Set(everywhere.flatMap(({ refusedPolicies = [] }) => refusedPolicies))],
  };
}

function dumpBackendRef(ref: BackendRef): DumpedRule["backendRefs"][number] {
  if (ref.kind === "invalid") return { weight: ref.weight, filters: [], fault: ref.reason };
  return { backend: ref.backend, weight: ref.weight, filters: ref.filters.map(shownFilter) };
}

/** Returns the distinct limits in the order in which they apply. */
function limitsOf(rules: readonly RouteRule[]): DumpedRule["limits"] {
  const all = rules.flatMap(({ limits, globalLimits = [] }) => [
    ...limits.map(({ policy, target, entry, mode }) => ({ policy, target, entry, mode })),
    ...globalLimits.map(({ policy, target, mode }) => ({ policy, target, mode })),
  ]);
  return [...new Map(all.map((limit) => [JSON.stringify(limit), limit])).values()];
}

/** Dumps a filter with credentials redacted, as matches are. */
function shownFilter(filter: Filter): DumpedRule["filters"][number] {
  switch (filter.kind) {
    case "RequestHeaderModifier":
    case "ResponseHeaderModifier":
      return { ...filter, set: filter.set.map(shownField), add: filter.add.map(shownField) };
    case "URLRewrite":
    case "RequestRedirect":
      return { ...filter, ...(filter.path && { path: { ...filter.path, value: redactPath(filter.path.value) } }) };
    case "RequestMirror":
    case "CORS":
      return { ...filter };
  }
}

function shownMatch({ path, headers, query, ...match }: Match): DumpedRule["matches"][number] {
  return {
    ...match,
    path: { ...path, value: redactPath(path.value) },
    headers: headers.map(shownField),
    query: query.map(shownField),
  };
}

function shownField<Field extends HeaderField>(field: Field): Field {
  return { ...field, value: redactNamed(field.name, field.value) };
}
