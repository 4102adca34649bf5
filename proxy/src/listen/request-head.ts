/**
 * The head of a request of any protocol as plain data, and the checks that ensure that the proxy and the backend
 * interpret it in the same way. The parsers have rejected malformed heads; this module checks those that they accept.
 */
import { isTarget } from "@gatewayproxy/http/http1/characters";
import type { RequestHead as Http1Head } from "@gatewayproxy/http/http1/request-head";
import { isKnownMethod } from "@gatewayproxy/http/methods";
import { isProtocolName } from "./upgrade-protocol.ts";
import type { RequestHead as RoutableHead } from "../routing/request-reading.ts";
import { normalizePath } from "../routing/normalize-path.ts";
import { defaultPathRules, type PathRules } from "../routing/path-rules.ts";
import { type IrregularNameAction, requestFields } from "./request-fields.ts";

/** The head of a request, with the parts that policies and the upstream need in addition to those of routing. */
export interface RequestHead extends RoutableHead {
  /**
   * The scheme by which the client reached the listener. `:scheme` and `X-Forwarded-Proto` of the client do not count.
   */
  readonly scheme: Scheme;
}

/** The scheme of the request target: `https` on connections with TLS (RFC 9110 §4.2). */
export type Scheme = "http" | "https";

/** How paths and header names are normalized or rejected, by the settings. */
export interface RequestRules {
  readonly irregularNames: IrregularNameAction;
  readonly path: PathRules;
}

/** Drops fields with irregular names, and normalizes paths by `defaultPathRules`. */
export const defaultRequestRules: RequestRules = { irregularNames: "drop", path: defaultPathRules };

/** Why a request is rejected for its head: the status and the body of the response. */
export interface HeadFault {
  readonly status: 400 | 408 | 414 | 431 | 501 | 505;
  /** The message for the client. It states the rule and repeats nothing of the request. */
  readonly message: string;
}

/** CONNECT asks for a tunnel to any host (RFC 9110 §9.3.6). The extended CONNECT of HTTP/2 is an upgrade instead. */
const connectNotServed: HeadFault = { status: 501, message: "CONNECT is not served" };

/** Maximum bytes of a head: the request line, and all names and values. A longer head is rejected. */
export const maxHeadBytes = 64 * 1024;
/** Maximum number of fields in a header or trailer section. A section with more is rejected. */
export const maxHeaderFields = 200;
/** Maximum length of path and query together, in characters. */
export const maxTargetLength = 16 * 1024;

/**
 * Whether a header or trailer section of HTTP/2 exceeds `maxHeaderFields` or `maxHeadBytes`; it is rejected with 431.
 *
 * @param rawFields names and values alternate.
 */
export function isTooLarge(rawFields: readonly string[]): boolean {
  if (rawFields.length > maxHeaderFields * 2) return true;
  let bytes = 0;
  for (const text of rawFields) bytes += text.length;
  return bytes > maxHeadBytes;
}

/** Builds the head of an HTTP/1 request (RFC 9112 §3.2, §3.3). The parser has checked the bounds of its parts. */
export function readHttp1Head(
  rules: RequestRules,
  scheme: Scheme,
  { method, target, host, fields }: Http1Head,
): RequestHead | HeadFault {
  if (target.charCodeAt(0) === slash) return checked(rules, scheme, method, host ?? "", target, fields);
  if (target === "*" && method === "OPTIONS") return checked(rules, scheme, method, host ?? "", target, fields);
  // In absolute form, the authority of the target takes precedence over Host (RFC 9112 §3.2.2).
  const absolute = /^https?:\/\/([^/?#]+)/i.exec(target);
  if (absolute === null) return { status: 400, message: "request target must be a path" };
  const [prefix, authority = ""] = absolute;
  const rest = target.slice(prefix.length);
  return checked(rules, scheme, method, authority, rest.startsWith("/") ? rest : `/${rest}`, fields);
}

/** Builds the head of an HTTP/2 request (RFC 9113 §8.3.1). A Host field replaces a missing `:authority`. */
export function readHttp2Head(
  rules: RequestRules,
  scheme: Scheme,
  method: string,
  path: string,
  authority: string | undefined,
  rawHeaders: readonly string[],
): RequestHead | HeadFault {
  if (method === "CONNECT") return connectNotServed;
  // HTTP/2 permits any method and path. The parser of HTTP/1 enforces these rules.
  if (!isKnownMethod(method)) return { status: 501, message: "unknown method" };
  if (!isTarget(path)) return { status: 400, message: "request target is not a valid path" };
  if (path.length > maxTargetLength) return { status: 414, message: "request target too long" };
  if (isTooLarge(rawHeaders)) return { status: 431, message: "too many or too large header fields" };
  if (path.charCodeAt(0) !== slash && !(path === "*" && method === "OPTIONS")) {
    return { status: 400, message: "request target must be a path" };
  }
  let host: string | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i] !== "host") continue;
    if (host !== undefined) return { status: 400, message: "more than one Host field" };
    host = rawHeaders[i + 1];
  }
  if (authority !== undefined && host !== undefined && authority !== host) {
    return { status: 400, message: "Host differs from :authority" };
  }
  return checked(rules, scheme, method, authority ?? host ?? "", path, rawHeaders);
}

/** The pseudo-header fields of an extended CONNECT (RFC 8441 §4), before it is validated. */
export interface ExtendedConnect {
  readonly method: string;
  readonly path: string;
  /** The `:authority`; undefined if the request has none. */
  readonly authority: string | undefined;
  /** The `:protocol`, as received. */
  readonly protocol: string;
  /** The allowed protocol that `protocol` names; undefined if it is not allowed. */
  readonly upgrade: string | undefined;
}

/**
 * Builds the head of an extended CONNECT (RFC 8441 §4) as that of the HTTP/1.1 request with the same meaning (§5): a
 * GET. Routes and limits see this GET. A WebSocket gets a new `sec-websocket-key`, which HTTP/2 does not use; a key
 * that the client sends is dropped, so that the backend does not get two.
 */
export function readExtendedConnect(
  rules: RequestRules,
  scheme: Scheme,
  { method, path, authority, protocol, upgrade }: ExtendedConnect,
  rawHeaders: readonly string[],
  newWebSocketKey: () => string,
): RequestHead | HeadFault {
  if (method !== "CONNECT") return { status: 400, message: ":protocol in a request other than CONNECT" };
  if (upgrade === undefined) {
    if (!isProtocolName(protocol)) return { status: 400, message: ":protocol is not the name of a protocol" };
    // RFC 9220 §3 specifies this status for HTTP/3; RFC 8441 specifies none.
    return { status: 501, message: "CONNECT with this :protocol is not served" };
  }
  const fields: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    // The backend would read the first bytes of the tunnel as a body of this length.
    if (name === "content-length") return { status: 400, message: "CONNECT with content-length" };
    if (name !== "sec-websocket-key") fields.push(name, rawHeaders[i + 1] ?? "");
  }
  if (protocol === "websocket") fields.push("sec-websocket-key", newWebSocketKey());
  return readHttp2Head(rules, scheme, "GET", path, authority, fields);
}

function checked(
  rules: RequestRules,
  scheme: Scheme,
  method: string,
  authority: string,
  path: string,
  rawHeaders: readonly string[],
): RequestHead | HeadFault {
  if (authority.length > 262 || !authorityPattern.test(authority)) {
    return { status: 400, message: "Host is not a host name or address with an optional port" };
  }
  if (path.includes("#")) return { status: 400, message: "request target with a fragment" };
  const normalized = normalizePath(path, rules.path);
  if (normalized === undefined) return { status: 400, message: "request target is not a valid path" };
  const fields = requestFields(rawHeaders, rules.irregularNames);
  if ("message" in fields) return fields;
  return { method, scheme, authority: normalizeAuthority(authority), path: normalized, rawHeaders: fields };
}

/**
 * Empty, or a DNS name, an IPv4 address or an IPv6 literal, with an optional port. RFC 3986 §3.2.2 also allows escapes,
 * delimiters and empty labels. They are rejected, because some servers decode or shorten a host and others do not.
 */
const authorityPattern = /^(?:(?:[\w~-]+(?:\.[\w~-]+)*\.?)?|\[[\da-f:.]+\])(?::\d{0,5})?$/i;

/**
 * Returns the authority in lower case and without the dot at the end of a full DNS name, so that a host has one form.
 */
function normalizeAuthority(authority: string): string {
  const lowerCase = authority.toLowerCase();
  return lowerCase.includes(".") ? lowerCase.replace(/\.(?=:|$)/, "") : lowerCase;
}

const slash = 0x2f;
