/** Where a RequestRedirect leads: the `Location` of its answer (Gateway API `HTTPRequestRedirectFilter`). */
import type { Redirect } from "../ir/filter.ts";
import type { Match } from "../ir/match.ts";
import { rewritePath } from "./url-rewrite.ts";

/** What the client asked for, and where. */
export interface RedirectedRequest {
  readonly scheme: string;
  /** Host with an optional port; empty when the client named none. */
  readonly authority: string;
  /** Normalised path with its query. */
  readonly path: string;
  /** The match that held for it. */
  readonly match: Match;
  /** Port of the listener, as the Gateway names it. */
  readonly listenerPort: number;
}

const wellKnownPorts: Readonly<Record<string, number>> = { http: 80, https: 443 };

/**
 * An absolute URL. The port is the filter's, else the well-known one of the filter's scheme, else the listener's, and is
 * left out where the scheme implies it. Where no host is known the result is a path, which the client resolves itself
 * (RFC 9110 §10.2.2); the query is kept in every case.
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

/** The host of an authority; an IPv6 address keeps its brackets. */
function withoutPort(authority: string): string {
  const colon = authority.lastIndexOf(":");
  return colon === -1 || authority.endsWith("]") ? authority : authority.slice(0, colon);
}
