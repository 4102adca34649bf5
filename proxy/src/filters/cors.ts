/**
 * CORS (Gateway API `HTTPCORSFilter`; Fetch standard, "CORS protocol"): answers preflights in the backend's stead, and
 * tells browsers on every other answer whether a script of another origin may read it. The filter is the only authority:
 * what a backend says about the same is replaced.
 *
 * Origins compare without the default port of their scheme, which browsers never write. Nothing here refuses a request
 * other than a preflight: CORS protects users of browsers from scripts, not backends from requests.
 */
import type { Cors, OriginPattern, OriginRule, WordRule } from "../ir/filter.ts";
import { isName } from "./hop-by-hop.ts";

/** A browser's question whether a request may be sent. */
export interface Preflight {
  readonly origin: string;
  /** The method of the request to come. */
  readonly method: string;
  /** Names of its headers as the browser listed them; absent when it has no special ones. */
  readonly headers: string | undefined;
}

/** Reads the question; `undefined` for every other request. @param rawHeaders flat, as received. */
export function readPreflight(method: string, rawHeaders: readonly string[]): Preflight | undefined {
  if (method !== "OPTIONS") return undefined;
  const origin = valueOf(rawHeaders, "origin");
  const asked = valueOf(rawHeaders, "access-control-request-method");
  if (origin === undefined || asked === undefined) return undefined;
  return { origin, method: asked, headers: valueOf(rawHeaders, "access-control-request-headers") };
}

/** Headers (flat) that permit what was asked; `undefined` when the origin may not ask anything. */
export function preflightHeaders(cors: Cors, { origin, method, headers }: Preflight): string[] | undefined {
  const permission = permissionOf(cors, origin);
  if (permission === undefined) return undefined;
  const answer = ["vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers", ...permission];
  const methods = words(cors.methods, method);
  const allowed = words(cors.headers, headers);
  const exposed = words(cors.exposeHeaders, cors.allowCredentials ? undefined : "*");
  if (methods !== undefined) answer.push("access-control-allow-methods", methods);
  if (allowed !== undefined) answer.push("access-control-allow-headers", allowed);
  if (exposed !== undefined) answer.push("access-control-expose-headers", exposed);
  answer.push("access-control-max-age", String(cors.maxAgeSeconds));
  return answer;
}

/** Puts on an answer (flat headers, in place) what the filter says to the request with `rawHeaders`. */
export function setCorsHeaders(cors: Cors, rawHeaders: readonly string[], headers: string[]): void {
  for (let at = headers.length - 2; at >= 0; at -= 2) {
    if (isAnswered((headers[at] ?? "").toLowerCase())) headers.splice(at, 2);
  }
  // A cache must not give one origin the answer to another, nor to a request that had none.
  if (cors.origins.kind === "listed" || cors.allowCredentials) headers.push("vary", "Origin");
  const origin = valueOf(rawHeaders, "origin");
  const permission = origin === undefined ? undefined : permissionOf(cors, origin);
  if (permission === undefined) return;
  const exposed = words(cors.exposeHeaders, cors.allowCredentials ? namesOf(headers) : "*");
  headers.push(...permission);
  if (exposed !== undefined) headers.push("access-control-expose-headers", exposed);
}

/** The fields about the origin, by which an answer is permitted; nothing for an origin that is not allowed. */
function permissionOf({ origins, allowCredentials }: Cors, origin: string): string[] | undefined {
  if (!isAllowed(origins, origin)) return undefined;
  // With credentials browsers take no wildcard (Fetch standard, "CORS check").
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
  // An IPv6 address ends with a bracket, and its colons are no port's.
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

/** The words of a rule as a field value; `whenAny` stands for all. */
function words(rule: WordRule | undefined, whenAny: string | undefined): string | undefined {
  if (rule === undefined) return undefined;
  return rule.kind === "any" ? whenAny : rule.words.join(", ");
}

/** Names of all fields, each once: what `*` means where browsers do not take it. */
function namesOf(headers: readonly string[]): string | undefined {
  const names = new Set<string>();
  for (let at = 0; at + 1 < headers.length; at += 2) names.add((headers[at] ?? "").toLowerCase());
  return names.size === 0 ? undefined : [...names].join(", ");
}

function isAnswered(name: string): boolean {
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
