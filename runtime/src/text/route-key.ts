/**
 * The identity of a route in snapshots, logs and metrics: `namespace/name` of an HTTPRoute, which is by far the most common
 * kind, and `GRPCRoute/namespace/name` of a GRPCRoute, since routes of different kinds may have the same name.
 */
import { objectKey } from "./object-key.ts";

/** A kind of routes. */
export type RouteKind = "HTTPRoute" | "GRPCRoute";

const grpcPrefix = "GRPCRoute/";

/** Returns the key of a route. */
export function routeKey(kind: RouteKind, name: { readonly namespace: string; readonly name: string }): string {
  return kind === "HTTPRoute" ? objectKey(name) : grpcPrefix + objectKey(name);
}

/** Returns the kind of the route with this key. */
export function routeKind(key: string): RouteKind {
  return key.startsWith(grpcPrefix) ? "GRPCRoute" : "HTTPRoute";
}

/** Returns `namespace/name` of the route with this key. */
export function routeName(key: string): string {
  return key.startsWith(grpcPrefix) ? key.slice(grpcPrefix.length) : key;
}

/** Returns the route in words, from its key: `HTTPRoute default/chat`. */
export function routeTitle(key: string): string {
  return `${routeKind(key)} ${routeName(key)}`;
}

/** Returns the route as the target of a policy, from its key: `HTTPRoute/default/chat`. */
export function routeTarget(key: string): string {
  return `${routeKind(key)}/${routeName(key)}`;
}
