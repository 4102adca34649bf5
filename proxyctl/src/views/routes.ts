/** `proxyctl config routes`: one row per rule; a route that is served nowhere has one, which says why. */
import type { DumpedRoute, DumpedRule } from "@gatewayproxy/admin-api/config-dump";
import type { Column } from "../output/table.ts";
import { none } from "./backends.ts";
import { describeConditions, messagesOf } from "./condition-words.ts";
import { describeReference } from "./limit-words.ts";

export interface RouteRow {
  readonly route: DumpedRoute;
  readonly rule: DumpedRule | undefined;
}

/** In the order of the dump. */
export function routeRows(routes: readonly DumpedRoute[]): readonly RouteRow[] {
  return routes.flatMap((route): RouteRow[] => {
    if (route.rules.length === 0) return [{ route, rule: undefined }];
    return route.rules.map((rule) => ({ route, rule }));
  });
}

export const routeColumns: readonly Column<RouteRow>[] = [
  { head: "NAME", whenNarrow: "wrap", cell: ({ route }) => route.name },
  { head: "NAMESPACE", whenNarrow: "wrap", cell: ({ route }) => route.namespace },
  { head: "RULE", whenNarrow: "wrap", cell: ({ rule }) => (rule === undefined ? none : ruleName(rule)) },
  { head: "HOSTNAMES", whenNarrow: "below", cell: ({ route }) => hostnames(route) },
  { head: "MATCHES", whenNarrow: "below", cell: ({ rule }) => orNone(rule?.matches.map(describeMatch), " | ") },
  { head: "BACKENDS", whenNarrow: "below", cell: ({ rule }) => orNone(rule?.backendRefs.map(shortBackendRef), ",") },
  { head: "LIMITS", whenNarrow: "below", cell: ({ rule }) => orNone(rule?.limits.map(describeReference), ",") },
  { head: "STATUS", whenNarrow: "wrap", cell: ({ route }) => statusOf(route) },
  { head: "LISTENERS", isWide: true, cell: ({ route }) => orNone(route.listeners, ",") },
  {
    head: "FILTERS",
    isWide: true,
    cell: ({ rule }) =>
      orNone(
        rule?.filters.map(({ kind }) => kind),
        ",",
      ),
  },
];

/** Why requests of a rule are answered with an error, or why the route is served nowhere. */
export function routeNotes({ route, rule }: RouteRow): readonly string[] {
  if (rule === undefined) return messagesOf(route.parents.flatMap(({ conditions }) => conditions));
  return rule.backendRefs.flatMap(({ fault }) => (fault === undefined ? [] : [`500: ${fault}`]));
}

/** The last part of its key: its name, or its place from 0. */
export function ruleName({ key }: DumpedRule): string {
  return key.slice(key.lastIndexOf("/") + 1);
}

/** `/v1/* POST x-model=gpt ?debug=1`: `/*` for a prefix, `~` before a regular expression. */
export function describeMatch({ path, method, headers, query }: DumpedRule["matches"][number]): string {
  const equal = ({ kind, name, value }: (typeof headers)[number]): string => {
    return `${name}${kind === "RegularExpression" ? "~" : "="}${value}`;
  };
  const parts = [
    describePath(path),
    method,
    ...headers.map(equal),
    ...query.map((parameter) => `?${equal(parameter)}`),
  ];
  return parts.filter((part) => part !== undefined).join(" ");
}

function describePath({ kind, value }: DumpedRule["matches"][number]["path"]): string {
  if (kind === "Exact") return value;
  return kind === "PathPrefix" ? `${value.replace(/\/$/, "")}/*` : `~${value}`;
}

/** The backend's key, with its weight where that is not 1, or the fault that stands in its place. */
export function describeBackendRef(ref: BackendRef): string {
  return withWeight(ref, ref.fault === undefined ? (ref.backend ?? none) : `500 (${ref.fault})`);
}

/** The same where the fault is told elsewhere. */
function shortBackendRef(ref: BackendRef): string {
  return withWeight(ref, ref.fault === undefined ? (ref.backend ?? none) : "500");
}

type BackendRef = DumpedRule["backendRefs"][number];

function withWeight({ weight }: BackendRef, name: string): string {
  return weight === 1 ? name : `${name} weight ${weight}`;
}

/** `Accepted`, or the reasons why it is not, or not wholly. */
export function statusOf({ parents, listeners }: DumpedRoute): string {
  const fine = listeners.length === 0 ? "NotServed" : "Accepted";
  return describeConditions(
    parents.flatMap(({ conditions }) => conditions),
    fine,
  );
}

function hostnames({ hostnames: names }: DumpedRoute): string {
  return names.length === 0 ? "*" : names.join(",");
}

function orNone(parts: readonly string[] | undefined, separator: string): string {
  return parts === undefined || parts.length === 0 ? none : parts.join(separator);
}
