/** Dumps routes with their rules as served, and their conditions at each parent. */
import { routeKey } from "@gatewayproxy/runtime/route-key";
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
      const servedRoutes = served.get(route.key);
      if (servedRoutes === undefined) served.set(route.key, [{ listener: key, route }]);
      else servedRoutes.push({ listener: key, route });
    }
    yield;
  }
  const all = [
    ...statuses.httpRoutes.map((status) => ({ kind: "HTTPRoute" as const, ...status })),
    ...statuses.grpcRoutes.map((status) => ({ kind: "GRPCRoute" as const, ...status })),
  ];
  return yield* mapInSteps(all, ({ kind, namespace, name, parents }) => {
    const key = routeKey(kind, { namespace, name });
    const servedRoutes = served.get(key) ?? [];
    return {
      key,
      namespace,
      name,
      hostnames: [...new Set(servedRoutes.flatMap(({ route }) => route.hostnames))],
      // Listeners with several addresses occur once per address.
      listeners: [...new Set(servedRoutes.map(({ listener }) => listener))],
      parents: parents.map((parent) => dumpParent(namespace, parent)),
      rules: dumpRules(servedRoutes.map(({ route }) => route)),
    };
  });
}

function dumpParent(namespace: string, { parentRef, conditions }: ParentStatus): DumpedRoute["parents"][number] {
  const { kind, name, sectionName, port } = parentRef;
  const section = sectionName === undefined ? "" : `#${sectionName}`;
  const portSuffix = port === undefined ? "" : `:${port}`;
  return { parent: `${kind} ${parentRef.namespace ?? namespace}/${name}${section}${portSuffix}`, conditions };
}

/** Merges a route's rules at its listeners. They differ only in the policies attached there. */
function dumpRules(routes: readonly Route[]): readonly DumpedRule[] {
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
function dumpRule(rule: RouteRule, atListeners: readonly RouteRule[]): DumpedRule {
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
