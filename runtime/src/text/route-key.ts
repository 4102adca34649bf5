/**
 * The identity of a route in snapshots, logs and metrics: `namespace/name` of an HTTPRoute, which is by far the most
 * common kind, and `GRPCRoute/namespace/name` of a GRPCRoute, since routes of different kinds may have the same name.
 * Keys of the other kinds begin with their kind, too.
 */
import { objectKey } from "./object-key.ts";

/** The kinds of routes of HTTP requests. */
export const requestRouteKinds = ["HTTPRoute", "GRPCRoute"] as const;
/** The kinds of routes of streams: connections, and UDP sessions. */
export const streamRouteKinds = ["TLSRoute", "TCPRoute", "UDPRoute"] as const;
/** All kinds of routes. */
export const routeKinds = [...requestRouteKinds, ...streamRouteKinds] as const;

/** A kind of `requestRouteKinds`. */
export type RequestRouteKind = (typeof requestRouteKinds)[number];
/** A kind of `streamRouteKinds`. */
export type StreamRouteKind = (typeof streamRouteKinds)[number];
/** A kind of routes. */
export type RouteKind = RequestRouteKind | StreamRouteKind;

/** Returns the key of a route. */
export function routeKey(kind: RouteKind, name: { readonly namespace: string; readonly name: string }): string {
  return kind === "HTTPRoute" ? objectKey(name) : `${kind}/${objectKey(name)}`;
}

/** Returns the kind of the route with this key. */
export function routeKind(key: string): RouteKind {
  // A namespace is in lower case.
  const first = key.slice(0, key.indexOf("/"));
  return routeKinds.find((kind) => kind === first) ?? "HTTPRoute";
}

/** Returns `namespace/name` of the route with this key. */
export function routeName(key: string): string {
  const kind = routeKind(key);
  return kind === "HTTPRoute" ? key : key.slice(kind.length + 1);
}

/** Returns the route in words, from its key: `HTTPRoute default/chat`. */
export function routeTitle(key: string): string {
  return `${routeKind(key)} ${routeName(key)}`;
}

/** Returns the route as the target of a policy, from its key: `HTTPRoute/default/chat`. */
export function routeTarget(key: string): string {
  return `${routeKind(key)}/${routeName(key)}`;
}

/** Whether routes of this kind are those of streams. */
export function isStreamRouteKind(kind: string): kind is StreamRouteKind {
  return streamRouteKinds.some((each) => each === kind);
}
