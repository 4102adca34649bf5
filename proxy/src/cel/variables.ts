/** The variables of expressions: the name, the type and the phase of each, and how it is read from a request. */
import { type CelInput, CelScalar, type CelType, mapType } from "@bufbuild/cel";
import { networkOf } from "@gatewayproxy/runtime/ip-address";
import { type PolicyOwner, readIdentity } from "./identity.ts";
import { unverifiedClaims } from "./jwt.ts";
import type { LlmView } from "./llm-view.ts";
import { logVariables } from "./log-variables.ts";
import type { RequestView } from "./request-view.ts";

/** One subscriber has at least a /64 and may use any address in it (RFC 6177, RFC 8981). */
export const defaultIpv6PrefixLength = 64;

/**
 * When a value is known: with the request head, after the request body has been read, after the response, at the end of
 * the request. Only the access log has expressions of the last phase.
 */
export type Phase = "head" | "body" | "response" | "end";

/** All phases in order of time. */
export const phases: readonly Phase[] = ["head", "body", "response", "end"];

/** A variable of expressions. */
export interface Variable {
  /** The full name as in an expression: `request.headers`. */
  readonly name: string;
  readonly type: CelType;
  readonly phase: Phase;
  /**
   * Returns undefined if the request has no such value. The expression then has no value either.
   *
   * @param owner whose policy contains the expression.
   */
  readonly read: (view: RequestView, owner: PolicyOwner) => CelInput | undefined;
}

/** The type of a map from names to texts. */
export const textByName = mapType(CelScalar.STRING, CelScalar.STRING);

/** The type of the claims of a token. Their values have any type. */
export const claimsByName = mapType(CelScalar.STRING, CelScalar.DYN);

/** The variables that read a request. */
const requestVariables: readonly Variable[] = [
  text("request.method", (view) => view.method),
  text("request.path", (view) => pathOf(view.path)),
  text("request.host", (view) => hostOf(view.authority)),
  text("request.scheme", (view) => view.scheme),
  { name: "request.headers", type: textByName, phase: "head", read: headersOf },
  { name: "request.query", type: textByName, phase: "head", read: (view) => queryOf(view.path) },
  // The name says in each expression that the token is not verified: anyone can write one.
  { name: "unverifiedJwt", type: claimsByName, phase: "head", read: (view) => unverifiedClaims(bearerOf(view)) },
  identity("jwt", claimsByName),
  identity("apiKey", textByName),
];

/** The variables of limits. None is a prefix of another. */
export const variables: readonly Variable[] = [
  ...requestVariables.map(withoutConnections),
  text("source.address", ({ sourceAddress, ipv6PrefixLength = defaultIpv6PrefixLength }) =>
    networkOf(sourceAddress, ipv6PrefixLength),
  ),
  text("source.exactAddress", (view) => view.sourceAddress),
  { name: "tls.serverName", type: CelScalar.STRING, phase: "head", read: (view) => view.serverName },
  text("route", (view) => view.route),
  text("gateway", (view) => view.gateway),
  llm("requestModel", CelScalar.STRING, "body", ({ requestModel }) => requestModel),
  llm("clientModel", CelScalar.STRING, "body", ({ clientModel }) => clientModel),
  llm("stream", CelScalar.BOOL, "body", ({ streaming }) => streaming),
  llm("streaming", CelScalar.BOOL, "body", ({ streaming }) => streaming),
  llm("model", CelScalar.STRING, "response", ({ responseModel }) => responseModel),
  llm("responseModel", CelScalar.STRING, "response", ({ responseModel }) => responseModel),
  llm("inputTokens", CelScalar.INT, "response", ({ inputTokens }) => integer(inputTokens)),
  llm("outputTokens", CelScalar.INT, "response", ({ outputTokens }) => integer(outputTokens)),
  llm("totalTokens", CelScalar.INT, "response", ({ totalTokens }) => integer(totalTokens)),
  part("cachedInputTokens", (view) => view.cachedInputTokens),
  part("cacheCreationTokens", (view) => view.cacheCreationTokens),
  part("reasoningTokens", (view) => view.reasoningTokens),
  llm("cost", CelScalar.INT, "response", ({ cost }) => integer(cost)),
];

const responseHeaders: Variable = {
  name: "response.headers",
  type: textByName,
  phase: "end",
  read: ({ responseHeaders: fields }) => fields && responseHeadersOf(fields),
};

const allVariables: readonly Variable[] = [...variables, responseHeaders, ...logVariables];

/** Returns the variables of expressions of a phase, with those that are known only later. */
export function variablesOf(phase: Phase): readonly Variable[] {
  return phase === "end" ? allVariables : variables;
}

/** On a connection the variable has no value, so that it neither names a counter nor exempts from it. */
function withoutConnections({ read, ...variable }: Variable): Variable {
  return { ...variable, read: (view, owner) => (view.isConnection === true ? undefined : read(view, owner)) };
}

function text(name: string, read: (view: RequestView) => string): Variable {
  return { name, type: CelScalar.STRING, phase: "head", read };
}

function identity(name: "jwt" | "apiKey", type: CelType): Variable {
  // The maps are never mutated; CEL's type of a map does not say so.
  const read: Variable["read"] = ({ identities }, owner) => readIdentity(name, identities, owner);
  return { name, type, phase: "head", read };
}

function llm(name: string, type: CelType, phase: Phase, read: (view: LlmView) => CelInput | undefined): Variable {
  return { name: `llm.${name}`, type, phase, read: ({ llm: view }) => (view === undefined ? undefined : read(view)) };
}

/** A part of the tokens of a response: 0 where the response reports its tokens, and not this part of them. */
function part(name: string, read: (view: LlmView) => number | undefined): Variable {
  return llm(name, CelScalar.INT, "response", (view) =>
    integer(read(view) ?? (view.totalTokens === undefined ? undefined : 0)),
  );
}

/** Converts to a CEL integer, which has 64 bits. */
function integer(value: number | undefined): bigint | undefined {
  return value === undefined ? undefined : BigInt(value);
}

/** The token of `Authorization: Bearer …` (RFC 6750 §2.1). */
function bearerOf(view: RequestView): string | undefined {
  const value = headerOf(view, "authorization");
  return value?.slice(0, 7).toLowerCase() === "bearer " ? value.slice(7).trim() : undefined;
}

/**
 * The value of one header, or undefined if the request does not have it. `name` is in lower case. `host` is the
 * authority, which replaces the field in absolute request targets (RFC 9112 §3.2.2) and in HTTP/2 (RFC 9113 §8.3.1).
 */
export function headerOf({ rawHeaders, authority }: RequestView, name: string): string | undefined {
  if (name === "host") return authority === "" ? undefined : authority;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const raw = rawHeaders[at];
    // Compares the length first, which avoids a lower-case copy of most names.
    if (raw?.length === name.length && raw.toLowerCase() === name) return rawHeaders[at + 1];
  }
  return undefined;
}

/**
 * The value of one header of the response, or undefined if it does not have it. `name` is in lower case. Values of a
 * name that repeats are joined (RFC 9110 §5.3).
 */
export function responseHeaderOf({ responseHeaders: fields = [] }: RequestView, name: string): string | undefined {
  let joined: string | undefined;
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const raw = fields[at];
    if (raw?.length !== name.length || raw.toLowerCase() !== name) continue;
    joined = joined === undefined ? fields[at + 1] : `${joined}, ${fields[at + 1] ?? ""}`;
  }
  return joined;
}

function responseHeadersOf(fields: readonly string[]): Map<string, string> {
  const headers = new Map<string, string>();
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const name = fields[at]?.toLowerCase() ?? "";
    const before = headers.get(name);
    headers.set(name, before === undefined ? (fields[at + 1] ?? "") : `${before}, ${fields[at + 1] ?? ""}`);
  }
  return headers;
}

function headersOf({ rawHeaders, authority }: RequestView): Map<string, string> {
  const headers = new Map<string, string>();
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]?.toLowerCase() ?? "";
    if (!name.startsWith(":")) headers.set(name, rawHeaders[at + 1] ?? "");
  }
  if (authority !== "") headers.set("host", authority);
  return headers;
}

function pathOf(pathAndQuery: string): string {
  const query = pathAndQuery.indexOf("?");
  return query === -1 ? pathAndQuery : pathAndQuery.slice(0, query);
}

/** The decoded parameters. Of a parameter that occurs several times, the first is used. */
function queryOf(pathAndQuery: string): Map<string, string> {
  const parameters = new Map<string, string>();
  const query = pathAndQuery.indexOf("?");
  if (query === -1) return parameters;
  for (const [name, value] of new URLSearchParams(pathAndQuery.slice(query + 1))) {
    if (!parameters.has(name)) parameters.set(name, value);
  }
  return parameters;
}

/**
 * The host in lower case, without the port and without the trailing dot of a fully qualified name, as routing compares
 * hosts. An IPv6 address keeps its brackets.
 */
function hostOf(authority: string): string {
  const port = authority.lastIndexOf(":");
  const host = port > authority.lastIndexOf("]") ? authority.slice(0, port) : authority;
  return (host.endsWith(".") ? host.slice(0, -1) : host).toLowerCase();
}
