/**
 * Selects the trailers of a request that its backend gets (RFC 9110 §6.5). Some servers treat trailers as header
 * fields. A trailer is therefore dropped if a header field of its name means something to a proxy or a framework, was
 * changed by the gateway, or belongs to the client's connection.
 */
import type { FieldList } from "@gatewayproxy/http/ports";
import type { HeaderEditor } from "./header-edits.ts";
import { connectionOptions, isHopByHop } from "./hop-by-hop.ts";

/** The request to which trailers belong. */
export interface TrailerContext {
  /** The header section as the client sent it. */
  readonly received: FieldList;
  /** The header section as the backend got it. */
  readonly sent: FieldList;
  /** The edits of the rule, which may also remove fields; undefined for none. */
  readonly edit: HeaderEditor | undefined;
  /** Header names that may hold credentials, in lower case. */
  readonly credentials: readonly string[];
  /** Whether the backend gets the request over HTTP/1. */
  readonly isHttp1: boolean;
}

/**
 * Returns the trailers that the backend gets, with names in lower case. Over HTTP/1, they are those that the field
 * `Trailer` announces (RFC 9110 §6.6.2).
 *
 * @param trailers as received: names and values alternate.
 */
export function forwardedTrailers(trailers: FieldList, context: TrailerContext): string[] {
  const { received, sent, edit, credentials, isHttp1 } = context;
  const dropped = new Set([...(connectionOptions(received) ?? []), ...namesIn(sent), ...credentials]);
  const announced = isHttp1 ? announcedIn(sent) : undefined;
  const kept: string[] = [];
  for (let at = 0; at + 1 < trailers.length; at += 2) {
    const name = (trailers[at] ?? "").toLowerCase();
    const isAnnounced = announced?.has(name) !== false;
    if (isAnnounced && isOrdinary(name) && !dropped.has(name)) kept.push(name, trailers[at + 1] ?? "");
  }
  return edit === undefined || kept.length === 0 ? kept : untouched(kept, edit);
}

function namesIn(fields: FieldList): string[] {
  return fields.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase());
}

function announcedIn(fields: FieldList): ReadonlySet<string> {
  const values = fields.filter((_, at) => at % 2 === 1 && fields[at - 1]?.toLowerCase() === "trailer");
  return new Set(values.flatMap((value) => value.split(",")).map((name) => name.trim().toLowerCase()));
}

/** Returns the fields that the edits would not change if they were header fields. */
function untouched(fields: readonly string[], edit: HeaderEditor): string[] {
  const edited = [...fields];
  edit(edited);
  const left = new Map<string, readonly string[]>();
  for (const name of new Set(namesIn(fields))) left.set(name, valuesOf(edited, name));
  return fields.filter((_, at) => {
    const name = fields[at - (at % 2)] ?? "";
    return valuesOf(fields, name).join("\n") === left.get(name)?.join("\n");
  });
}

function valuesOf(fields: FieldList, name: string): string[] {
  return fields.filter((_, at) => at % 2 === 1 && fields[at - 1] === name);
}

/** Whether a trailer may have this name. Servers of CGI programs read other characters as hyphens. */
function isOrdinary(name: string): boolean {
  if (!/^[a-z0-9-]+$/.test(name) || isHopByHop(name) || meaningful.has(name)) return false;
  return !meaningfulPrefixes.some((prefix) => name.startsWith(prefix));
}

/**
 * Fields of the framing, the routing, the authentication, the conditions, the content format and the origin of a
 * request (RFC 9110 §6.5.1), with those that proxies and frameworks use.
 */
const meaningful: ReadonlySet<string> = new Set([
  ...["content-encoding", "content-length", "content-range", "content-type", "expect", "host", "http2-settings"],
  ...["max-forwards", "trailer", "via", "forwarded", "cdn-loop", "client-ip", "true-client-ip", "x-client-ip"],
  ...["x-http-method", "x-http-method-override", "x-method-override", "x-rewrite-url", "x-request-id", "x-script-name"],
  ...[
    "authorization",
    "cookie",
    "set-cookie",
    "www-authenticate",
    "api-key",
    "x-api-key",
    "x-goog-api-key",
    "remote-user",
  ],
  ...["cache-control", "pragma", "range", "origin", "referer", "baggage", "traceparent", "tracestate", "grpc-timeout"],
]);

const meaningfulPrefixes = [
  ...["accept", "access-control-", "if-", "proxy-", "sec-"],
  ...["x-amz-", "x-envoy-", "x-forwarded-", "x-gateway-", "x-goog-", "x-original-", "x-real-", "x-remote-"],
];
