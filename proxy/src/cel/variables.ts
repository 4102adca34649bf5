/**
 * The variables of an expression: their names, their types, and how each is read from a request. A variable that a
 * later phase can know (`jwt`, `llm`) is one more row of this table.
 */
import { type CelInput, CelScalar, type CelType, mapType } from "@bufbuild/cel";
import type { RequestView } from "./request-view.ts";

export interface Variable {
  /** In full, as an expression writes it: `request.headers`. */
  readonly name: string;
  readonly type: CelType;
  readonly read: (view: RequestView) => CelInput;
}

/** Type of the variables that hold a value by name. */
export const textByName = mapType(CelScalar.STRING, CelScalar.STRING);

/** Every variable there is; none is a prefix of another. */
export const variables: readonly Variable[] = [
  text("request.method", (view) => view.method),
  text("request.path", (view) => pathOf(view.path)),
  text("request.host", (view) => hostOf(view.authority)),
  text("request.scheme", (view) => view.scheme),
  { name: "request.headers", type: textByName, read: (view) => headersOf(view.rawHeaders) },
  { name: "request.query", type: textByName, read: (view) => queryOf(view.path) },
  text("source.address", (view) => view.sourceAddress),
  text("route", (view) => view.route),
  text("gateway", (view) => view.gateway),
];

function text(name: string, read: (view: RequestView) => string): Variable {
  return { name, type: CelScalar.STRING, read };
}

/**
 * The value of one header, or undefined when the request has none. `name` is lower case. A header that comes several
 * times is one value, joined as RFC 9110 §5.2 says.
 */
export function headerOf(rawHeaders: readonly string[], name: string): string | undefined {
  let value: string | undefined;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const raw = rawHeaders[at];
    // The length first: most names differ there, and no lower-case copy is made of those.
    if (raw?.length !== name.length || raw.toLowerCase() !== name) continue;
    value = joinField(name, value, rawHeaders[at + 1] ?? "");
  }
  return value;
}

function headersOf(rawHeaders: readonly string[]): Map<string, string> {
  const headers = new Map<string, string>();
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]?.toLowerCase() ?? "";
    if (!name.startsWith(":")) headers.set(name, joinField(name, headers.get(name), rawHeaders[at + 1] ?? ""));
  }
  return headers;
}

/** Cookies of HTTP/2 may come in several fields and are joined by a semicolon (RFC 9113 §8.2.3). */
function joinField(name: string, before: string | undefined, value: string): string {
  if (before === undefined) return value;
  return before + (name === "cookie" ? "; " : ", ") + value;
}

function pathOf(pathAndQuery: string): string {
  const query = pathAndQuery.indexOf("?");
  return query === -1 ? pathAndQuery : pathAndQuery.slice(0, query);
}

/** Decoded; of a parameter that comes several times the first counts. */
function queryOf(pathAndQuery: string): Map<string, string> {
  const parameters = new Map<string, string>();
  const query = pathAndQuery.indexOf("?");
  if (query === -1) return parameters;
  for (const [name, value] of new URLSearchParams(pathAndQuery.slice(query + 1))) {
    if (!parameters.has(name)) parameters.set(name, value);
  }
  return parameters;
}

/** Without the port and in lower case; an IPv6 address keeps its brackets. */
function hostOf(authority: string): string {
  const port = authority.lastIndexOf(":");
  const host = port > authority.lastIndexOf("]") ? authority.slice(0, port) : authority;
  return host.toLowerCase();
}
