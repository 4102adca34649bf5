/** Dumps routes with their rules as served, and their conditions at each parent. */
import { routeKey } from "@gatewayproxy/runtime/route-key";
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import type { DumpedRoute, DumpedRule } from "@gatewayproxy/admin-api/config-dump";
import { type ParentStatus, routeStatusesIn } from "../../api/status.ts";
import type { Filter, HeaderField } from "../../ir/filter.ts";
import type { Match } from "../../ir/match.ts";
import type { BackendRef, Bind, Route, RouteRule, StreamRoute } from "../../ir/snapshot.ts";
import { redactNamed, redactPath } from "@gatewayproxy/runtime/redaction";
import type { ConfigurationState } from "./input.ts";

/** A route at one listener. */
interface ServedRoute {
  readonly listener: string;
  readonly hostnames: readonly string[];
  readonly rules: readonly DumpedRuleSource[];
}

/** What a dump shows of a rule. Rules of streams have no matches and no filters. */
type DumpedRuleSource = Omit<RouteRule, "authentication">;

export function* dumpRoutes({ statuses, snapshot }: ConfigurationState): Steps<readonly DumpedRoute[]> {
  const served = new Map<string, ServedRoute[]>();
  for (const { key, routes } of listenersOf(snapshot.binds)) {
    for (const route of routes) {
      const { hostnames } = route;
      const atListener = { listener: key, hostnames, rules: "rules" in route ? route.rules : [streamRule(route)] };
      const servedRoutes = served.get(route.key);
      if (servedRoutes === undefined) served.set(route.key, [atListener]);
      else servedRoutes.push(atListener);
    }
    yield;
  }
  return yield* mapInSteps(routeStatusesIn(statuses), ([kind, { namespace, name, parents }]) => {
    const key = routeKey(kind, { namespace, name });
    const servedRoutes = served.get(key) ?? [];
    return {
      key,
      namespace,
      name,
      hostnames: [...new Set(servedRoutes.flatMap(({ hostnames }) => hostnames))],
      // Listeners with several addresses occur once per address.
      listeners: [...new Set(servedRoutes.map(({ listener }) => listener))],
      parents: parents.map((parent) => dumpParent(namespace, parent)),
      rules: dumpRules(servedRoutes),
    };
  });
}

function* listenersOf(
  binds: readonly Bind[],
): Generator<{ readonly key: string; readonly routes: readonly (Route | StreamRoute)[] }> {
  for (const { listeners, streams = [] } of binds) {
    yield* listeners;
    yield* streams;
  }
}

function streamRule({ key, rule, backendRefs, limits, refusedPolicies }: StreamRoute): DumpedRuleSource {
  // Only a rule without a name is named by its number.
  const name = rule.slice(key.length + 1);
  return {
    key: rule,
    ...(/^\d+$/.test(name) ? {} : { name }),
    matches: [],
    filters: [],
    backendRefs,
    limits,
    ...(refusedPolicies !== undefined && { refusedPolicies }),
  };
}

function dumpParent(namespace: string, { parentRef, conditions }: ParentStatus): DumpedRoute["parents"][number] {
  const { kind, name, sectionName, port } = parentRef;
  const section = sectionName === undefined ? "" : `#${sectionName}`;
  const portSuffix = port === undefined ? "" : `:${port}`;
  return { parent: `${kind} ${parentRef.namespace ?? namespace}/${name}${section}${portSuffix}`, conditions };
}

/** Merges a route's rules at its listeners. They differ only in the policies attached there. */
function dumpRules(routes: readonly ServedRoute[]): readonly DumpedRule[] {
  const [first] = routes;
  if (first === undefined) return [];
  return first.rules.map((rule, index) =>
    dumpRule(
      rule,
      routes.flatMap(({ rules }) => rules[index] ?? []),
    ),
  );
}

/** @param atListeners The same rule at every listener. */
function dumpRule(rule: DumpedRuleSource, atListeners: readonly DumpedRuleSource[]): DumpedRule {
  const { key, name, matches, filters, backendRefs, timeouts, retry } = rule;
  return {
    key,
    ...(name !== undefined && { name }),
    matches: matches.map(redactMatch),
    filters: filters.map(redactFilter),
    backendRefs: backendRefs.map(dumpBackendRef),
    ...(timeouts !== undefined && { timeouts }),
    ...(retry !== undefined && { retry: { ...retry, codes: retry.codes } }),
    limits: limitsOf(atListeners),
    refusedPolicies: [...new Set(atListeners.flatMap(({ refusedPolicies = [] }) => refusedPolicies))],
  };
}

function dumpBackendRef(ref: BackendRef): DumpedRule["backendRefs"][number] {
  if (ref.kind === "invalid") return { weight: ref.weight, filters: [], fault: ref.reason };
  return { backend: ref.backend, weight: ref.weight, filters: ref.filters.map(redactFilter) };
}

/** Returns the distinct limits in the order in which they apply. */
function limitsOf(rules: readonly RouteRule[]): DumpedRule["limits"] {
  const all = rules.flatMap(({ limits, globalLimits = [] }) => [
    ...limits.map(({ policy, target, entry, mode }) => ({ policy, target, entry, mode })),
    ...globalLimits.map(({ policy, target, mode }) => ({ policy, target, mode })),
  ]);
  return [...new Map(all.map((limit) => [JSON.stringify(limit), limit])).values()];
}

/** Returns a filter with credentials redacted. */
function redactFilter(filter: Filter): DumpedRule["filters"][number] {
  switch (filter.kind) {
    case "RequestHeaderModifier":
    case "ResponseHeaderModifier":
      return { ...filter, set: filter.set.map(redactField), add: filter.add.map(redactField) };
    case "URLRewrite":
    case "RequestRedirect":
      return { ...filter, ...(filter.path && { path: { ...filter.path, value: redactPath(filter.path.value) } }) };
    case "RequestMirror":
    case "CORS":
      return { ...filter };
  }
}

function redactMatch({ path, headers, query, ...match }: Match): DumpedRule["matches"][number] {
  return {
    ...match,
    path: { ...path, value: redactPath(path.value) },
    headers: headers.map(redactField),
    query: query.map(redactField),
  };
}

function redactField<Field extends HeaderField>(field: Field): Field {
  return { ...field, value: redactNamed(field.name, field.value) };
}
