/** Computes the `Location` of a redirect (Gateway API `HTTPRequestRedirectFilter`). */
import type { Redirect } from "../ir/filter.ts";
import type { Match } from "../ir/match.ts";
import { rewritePath } from "./url-rewrite.ts";

/** The request to redirect. */
export interface RedirectedRequest {
  readonly scheme: string;
  /** Host with an optional port; empty where the client sent none. */
  readonly authority: string;
  /** Normalised path with its query. */
  readonly path: string;
  /** The match that the request met. */
  readonly match: Match;
  /** Port of the listener in the Gateway. */
  readonly listenerPort: number;
}

const wellKnownPorts: Readonly<Record<string, number>> = { http: 80, https: 443 };

/**
 * Returns an absolute URL. The port is that of the filter, else the well-known one of the filter's scheme, else that of
 * the listener. It is left out where the scheme implies it. Without a known host the result is a path, which the client
 * resolves (RFC 9110 §10.2.2). The query is always kept.
 */
export function redirectLocation(redirect: Redirect, request: RedirectedRequest): string {
  const { match, listenerPort } = request;
  const path = redirect.path === undefined ? request.path : rewritePath(redirect.path, match, request.path);
  const host = redirect.hostname ?? withoutPort(request.authority);
  if (host === "") return path;
  const scheme = redirect.scheme ?? request.scheme;
  const impliedPort = wellKnownPorts[scheme];
  const port = redirect.port ?? (redirect.scheme === undefined ? listenerPort : impliedPort);
  return `${scheme}://${host}${port === undefined || port === impliedPort ? "" : `:${port}`}${path}`;
}

/** Returns the host of an authority; an IPv6 address keeps its brackets. */
function withoutPort(authority: string): string {
  const colon = authority.lastIndexOf(":");
  return colon === -1 || authority.endsWith("]") ? authority : authority.slice(0, colon);
}
