/** `proxyctl config routes`: one row per rule. A route that is not served has one row with the reason. */
import type { DumpedRoute, DumpedRule } from "@gatewayproxy/admin-api/config-dump";
import type { Column } from "../output/table.ts";
import { none } from "./backends.ts";
import { describeConditions, messagesOf } from "./condition-words.ts";
import { describeReference } from "./limit-words.ts";

/** A route and one of its rules. */
export interface RouteRow {
  readonly route: DumpedRoute;
  readonly rule: DumpedRule | undefined;
}

/** Returns rows in the order of the dump. */
export function routeRows(routes: readonly DumpedRoute[]): readonly RouteRow[] {
  return routes.flatMap((route): RouteRow[] => {
    if (route.rules.length === 0) return [{ route, rule: undefined }];
    return route.rules.map((rule) => ({ route, rule }));
  });
}

/** The columns of `proxyctl config routes`. */
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

/** Returns why requests of a rule get an error response, or why the route is not served. */
export function routeNotes({ route, rule }: RouteRow): readonly string[] {
  if (rule === undefined) return messagesOf(route.parents.flatMap(({ conditions }) => conditions));
  return rule.backendRefs.flatMap(({ fault }) => (fault === undefined ? [] : [`500: ${fault}`]));
}

/** Returns the last part of its key: its name, or its index from 0. */
export function ruleName({ key }: DumpedRule): string {
  return key.slice(key.lastIndexOf("/") + 1);
}

/** Describes `/v1/* POST x-model=gpt ?debug=1`: `/*` for a prefix, `~` before a regular expression. */
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

/** Describes the backend's key, with its weight unless it is 1, or why it cannot be used. */
export function describeBackendRef(ref: BackendRef): string {
  return withWeight(ref, ref.fault === undefined ? (ref.backend ?? none) : `500 (${ref.fault})`);
}

/** As `describeBackendRef`, without the reason, which is shown elsewhere. */
function shortBackendRef(ref: BackendRef): string {
  return withWeight(ref, ref.fault === undefined ? (ref.backend ?? none) : "500");
}

type BackendRef = DumpedRule["backendRefs"][number];

function withWeight({ weight }: BackendRef, name: string): string {
  return weight === 1 ? name : `${name} weight ${weight}`;
}

/** Returns `Accepted`, or the reasons of unmet conditions. */
export function statusOf({ parents, listeners }: DumpedRoute): string {
  const textIfMet = listeners.length === 0 ? "NotServed" : "Accepted";
  return describeConditions(
    parents.flatMap(({ conditions }) => conditions),
    textIfMet,
  );
}

function hostnames({ hostnames: names }: DumpedRoute): string {
  return names.length === 0 ? "*" : names.join(",");
}

function orNone(parts: readonly string[] | undefined, separator: string): string {
  return parts === undefined || parts.length === 0 ? none : parts.join(separator);
}
