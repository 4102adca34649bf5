/**
 * The head of a request as plain data, of any protocol, and the checks which ensure that it means the same to the proxy and the
 * backend. The parsers have rejected malformed heads; this module checks those that they accept.
 */
import { isTarget } from "@gatewayproxy/http/http1/characters";
import type { RequestHead as Http1Head } from "@gatewayproxy/http/http1/request-head";
import { isKnownMethod } from "@gatewayproxy/http/methods";
import { isProtocolName } from "./upgrade-protocol.ts";
import type { RequestHead as RoutableHead } from "../routing/request-reading.ts";
import { normalizePath } from "../routing/normalize-path.ts";
import { defaultPathRules, type PathRules } from "../routing/path-rules.ts";
import { type IrregularNameAction, requestFields } from "./request-fields.ts";

/** What policies and the upstream need of a request beyond what routing does. */
export interface RequestHead extends RoutableHead {
  /** How the client reached this listener, whatever it says itself. */
  readonly scheme: Scheme;
}

/** The scheme of the request target: `https` on connections with TLS (RFC 9110 §4.2). */
export type Scheme = "http" | "https";

/** How requests are read, as the settings say. */
export interface RequestRules {
  readonly irregularNames: IrregularNameAction;
  readonly path: PathRules;
}

/** Drops fields with irregular names, and normalizes paths by `defaultPathRules`. */
export const defaultRequestRules: RequestRules = { irregularNames: "drop", path: defaultPathRules };

/** Why a request is rejected before anything else reads it. */
export interface HeadFault {
  readonly status: 400 | 408 | 414 | 431 | 501 | 505;
  /** The message for the client: has the rule, and nothing of the request. */
  readonly message: string;
}

/** A tunnel to wherever the client likes (RFC 9110 §9.3.6), unlike the extended CONNECT of HTTP/2, which is an upgrade. */
const connectNotServed: HeadFault = { status: 501, message: "CONNECT is not served" };

/** Maximum bytes of a head: its request line, and names and values together. A longer one is rejected. */
export const maxHeadBytes = 64 * 1024;
/** Maximum number of fields. More are rejected, since Node would drop them silently. */
export const maxHeaderFields = 200;
/** Longest path and query in characters. */
export const maxTargetLength = 16 * 1024;

/**
 * Whether a header or trailer section of HTTP/2 is rejected with 431. Node bounds its bytes only for a client that
 * acknowledges our SETTINGS.
 *
 * @param rawFields flat.
 */
export function isTooLarge(rawFields: readonly string[]): boolean {
  if (rawFields.length > maxHeaderFields * 2) return true;
  let bytes = 0;
  for (const text of rawFields) bytes += text.length;
  return bytes > maxHeadBytes;
}

/** Builds the head of an HTTP/1 request (RFC 9112 §3.2, §3.3). The parser has bounded its parts. */
export function readHttp1Head(
  rules: RequestRules,
  scheme: Scheme,
  { method, target, host, fields }: Http1Head,
): RequestHead | HeadFault {
  if (target.charCodeAt(0) === slash) return checked(rules, scheme, method, host ?? "", target, fields);
  if (target === "*" && method === "OPTIONS") return checked(rules, scheme, method, host ?? "", target, fields);
  // Absolute form: its authority wins over Host (RFC 9112 §3.2.2).
  const absolute = /^https?:\/\/([^/?#]+)/i.exec(target);
  if (absolute === null) return { status: 400, message: "request target must be a path" };
  const [prefix, authority = ""] = absolute;
  const rest = target.slice(prefix.length);
  return checked(rules, scheme, method, authority, rest.startsWith("/") ? rest : `/${rest}`, fields);
}

/** Builds the head of an HTTP/2 request (RFC 9113 §8.3.1); a Host field stands in for a missing `:authority`. */
export function readHttp2Head(
  rules: RequestRules,
  scheme: Scheme,
  method: string,
  path: string,
  authority: string | undefined,
  rawHeaders: readonly string[],
): RequestHead | HeadFault {
  if (method === "CONNECT") return connectNotServed;
  // HTTP/2 permits any method and path. Over HTTP/1 the parser has these rules.
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
 * Builds the head of an extended CONNECT (RFC 8441 §4) as that of the HTTP/1.1 request with the same meaning (§5): a GET,
 * which is what routes and limits see. A WebSocket gets a new `sec-websocket-key`, which HTTP/2 has no use for; one that
 * the client sends would be a second one, and is dropped.
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
    // As RFC 9220 §3 says for HTTP/3; RFC 8441 says nothing of it.
    return { status: 501, message: "CONNECT with this :protocol is not served" };
  }
  const fields: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    // The backend would take the first bytes of the tunnel for a body of this length.
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
 * Empty, or a DNS name, an IPv4 address or an IPv6 literal, with an optional port. Of what RFC 3986 §3.2.2 allows beyond
 * that, escapes, delimiters and empty labels are left out: some servers decode or shorten a host and others do not.
 */
const authorityPattern = /^(?:(?:[\w~-]+(?:\.[\w~-]+)*\.?)?|\[[\da-f:.]+\])(?::\d{0,5})?$/i;

/** In lower case and without the dot at the end of a full DNS name, so that one host has one spelling. */
function normalizeAuthority(authority: string): string {
  const lowerCase = authority.toLowerCase();
  return lowerCase.includes(".") ? lowerCase.replace(/\.(?=:|$)/, "") : lowerCase;
}

const slash = 0x2f;
