/**
 * CORS (Gateway API `HTTPCORSFilter`; Fetch standard, "CORS protocol"): responds to preflights instead of the backend,
 * and adds to every other response whether a script of another origin may read it. The filter replaces CORS fields of
 * the backend.
 *
 * Origins are compared without the default port of their scheme, which browsers never send. No request other than a
 * preflight is rejected: CORS protects users of browsers from scripts, not backends from requests.
 */
import type { Cors, OriginPattern, OriginRule, WordRule } from "../ir/filter.ts";
import { isName } from "./hop-by-hop.ts";

/** A preflight: a browser's query whether it may send a request. */
export interface Preflight {
  readonly origin: string;
  /** The method of the request to come. */
  readonly method: string;
  /** Names of its headers as the browser listed them; absent where all are safelisted. */
  readonly headers: string | undefined;
}

/**
 * Parses a preflight; undefined for every other request.
 *
 * @param rawHeaders names and values in turn, as received.
 */
export function readPreflight(method: string, rawHeaders: readonly string[]): Preflight | undefined {
  if (method !== "OPTIONS") return undefined;
  const origin = valueOf(rawHeaders, "origin");
  const asked = valueOf(rawHeaders, "access-control-request-method");
  if (origin === undefined || asked === undefined) return undefined;
  return { origin, method: asked, headers: valueOf(rawHeaders, "access-control-request-headers") };
}

/** Returns the header fields (flat) of the response to a preflight; undefined where the origin is not allowed. */
export function preflightHeaders(cors: Cors, { origin, method, headers }: Preflight): string[] | undefined {
  const permission = permissionOf(cors, origin);
  if (permission === undefined) return undefined;
  const fields = ["vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers", ...permission];
  const methods = words(cors.methods, method);
  const allowed = words(cors.headers, headers);
  const exposed = words(cors.exposeHeaders, cors.allowCredentials ? undefined : "*");
  if (methods !== undefined) fields.push("access-control-allow-methods", methods);
  if (allowed !== undefined) fields.push("access-control-allow-headers", allowed);
  if (exposed !== undefined) fields.push("access-control-expose-headers", exposed);
  fields.push("access-control-max-age", String(cors.maxAgeSeconds));
  return fields;
}

/** Sets the CORS fields of a response (flat headers, in place) to the request with `rawHeaders`. */
export function setCorsHeaders(cors: Cors, rawHeaders: readonly string[], headers: string[]): void {
  for (let at = headers.length - 2; at >= 0; at -= 2) {
    if (isCorsField((headers[at] ?? "").toLowerCase())) headers.splice(at, 2);
  }
  // A cache must not reuse the response to one origin for another, or for a request without one.
  if (cors.origins.kind === "listed" || cors.allowCredentials) headers.push("vary", "Origin");
  const origin = valueOf(rawHeaders, "origin");
  const permission = origin === undefined ? undefined : permissionOf(cors, origin);
  if (permission === undefined) return;
  const exposed = words(cors.exposeHeaders, cors.allowCredentials ? namesOf(headers) : "*");
  headers.push(...permission);
  if (exposed !== undefined) headers.push("access-control-expose-headers", exposed);
}

/** Returns the fields that allow the origin; undefined where it is not allowed. */
function permissionOf({ origins, allowCredentials }: Cors, origin: string): string[] | undefined {
  if (!isAllowed(origins, origin)) return undefined;
  // With credentials, browsers accept no wildcard (Fetch standard, "CORS check").
  if (allowCredentials) {
    return ["access-control-allow-origin", origin, "access-control-allow-credentials", "true"];
  }
  return ["access-control-allow-origin", origins.kind === "any" ? "*" : origin];
}

function isAllowed(origins: OriginRule, origin: string): boolean {
  if (origins.kind === "any") return true;
  const normalized = withoutDefaultPort(origin.toLowerCase());
  return origins.patterns.some((pattern) => covers(pattern, normalized));
}

function covers({ scheme, host, port }: OriginPattern, origin: string): boolean {
  if (!origin.startsWith(scheme)) return false;
  const rest = origin.slice(scheme.length);
  const portStart = rest.lastIndexOf(":");
  // An IPv6 address ends with a bracket; its colons do not separate a port.
  const isPort = portStart > rest.lastIndexOf("]");
  if ((isPort ? rest.slice(portStart) : "") !== port) return false;
  const name = isPort ? rest.slice(0, portStart) : rest;
  if (host.kind === "exact") return name === host.value;
  return name.length > host.value.length && name.endsWith(host.value);
}

function withoutDefaultPort(origin: string): string {
  if (origin.startsWith("http://") && origin.endsWith(":80")) return origin.slice(0, -3);
  if (origin.startsWith("https://") && origin.endsWith(":443")) return origin.slice(0, -4);
  return origin;
}

/** Joins the words of a rule to a field value; `whenAny` is the value for all. */
function words(rule: WordRule | undefined, whenAny: string | undefined): string | undefined {
  if (rule === undefined) return undefined;
  return rule.kind === "any" ? whenAny : rule.words.join(", ");
}

/** Returns the names of all fields, each once: the value for `*` where browsers do not accept it. */
function namesOf(headers: readonly string[]): string | undefined {
  const names = new Set<string>();
  for (let at = 0; at + 1 < headers.length; at += 2) names.add((headers[at] ?? "").toLowerCase());
  return names.size === 0 ? undefined : [...names].join(", ");
}

function isCorsField(name: string): boolean {
  return (
    name === "access-control-allow-origin" ||
    name === "access-control-allow-credentials" ||
    name === "access-control-expose-headers"
  );
}

/** First value of a field; `name` lower case. */
function valueOf(rawHeaders: readonly string[], name: string): string | undefined {
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const candidate = rawHeaders[at];
    if (candidate?.length === name.length && isName(candidate, name)) return rawHeaders[at + 1];
  }
  return undefined;
}
