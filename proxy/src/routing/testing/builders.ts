/** Small binds, listeners, routes and matches for tests, with defaults for the fields that a test does not set. */
import type { Match, PathMatch } from "../../ir/match.ts";
import type { Bind, Listener, Route, RouteRule } from "../../ir/snapshot.ts";

export const exact = (value: string): PathMatch => ({ kind: "Exact", value });
export const prefix = (value: string): PathMatch => ({ kind: "PathPrefix", value });
export const regex = (value: string): PathMatch => ({ kind: "RegularExpression", value });

/** Returns a match of every request, with overrides. */
export function matchOf(match: Partial<Match>): Match {
  return { path: prefix("/"), headers: [], query: [], ...match };
}

export function ruleOf(matches: readonly Match[]): RouteRule {
  return { key: "", matches, filters: [], backendRefs: [], limits: [] };
}

export function routeOf(name: string, route: Partial<Route>): Route {
  const namespace = route.namespace ?? "default";
  return { namespace, name, key: `${namespace}/${name}`, hostnames: [], rules: [ruleOf([matchOf({})])], ...route };
}

export function listenerOf(listener: Partial<Listener>): Listener {
  const name = listener.name ?? "http";
  const gateway = { namespace: "default", name: "gateway" };
  return { key: `default/gateway/${name}`, gateway, name, protocol: "HTTP", routes: [], ...listener };
}

export function bindOf(listeners: readonly Listener[]): Bind {
  return { port: 80, listeners };
}
