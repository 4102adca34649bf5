/** Reads the identity of a request as the access log has it, and compares identities with what expressions read. */
import * as z from "zod";
import type { LimitReplay, LoggedIdentity, ReplayRequest } from "@gatewayproxy/proxy/limit-replay";

/** Attributes that a log of the proxy does not have, and that may be added to its lines. */
export interface AddedIdentity {
  /** Claims of the token. */
  readonly jwt?: Readonly<Record<string, unknown>> | undefined;
  /** Labels and annotations of the Secret. */
  readonly apiKey?: Readonly<Record<string, string>> | undefined;
}

const secret = /(?:^|, )apiKey ([^\s/]+)\/([^\s/]+)$/;
const token = /^jwt (.*)$/s;

/**
 * Reads `jwt alice`, `apiKey default/acme`, or both; any other text is no identity.
 *
 * @param text undefined without an identity.
 */
export function identityOf(text: string | undefined, added: AddedIdentity): LoggedIdentity | undefined {
  const [suffix = "", namespace, name] = secret.exec(text ?? "") ?? [];
  const [, subject] = token.exec((text ?? "").slice(0, (text ?? "").length - suffix.length)) ?? [];
  const jwt = subject === undefined && added.jwt === undefined ? undefined : { ...subjectOf(subject), ...added.jwt };
  const known = namespace === undefined || name === undefined ? undefined : { namespace, name };
  const apiKey = known === undefined && added.apiKey === undefined ? undefined : { ...known, ...added.apiKey };
  if (jwt === undefined && apiKey === undefined) return undefined;
  return { ...(jwt !== undefined && { jwt }), ...(apiKey !== undefined && { apiKey }) };
}

/** The log has `jwt without sub` for a token without a subject. */
function subjectOf(subject: string | undefined): { readonly sub?: string } {
  return subject === undefined || subject === "without sub" ? {} : { sub: subject };
}

/** Parses a JSON object of claims; undefined for any other text. */
export function claimsIn(text: string): Readonly<Record<string, unknown>> | undefined {
  return z.record(z.string(), z.unknown()).safeParse(jsonOf(text)).data;
}

/** Parses JSON; undefined for any other text. */
export function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    // The caller says what is accepted, or counts it.
    return undefined;
  }
}

/** The variables as an expression reads them, and no header or parameter of that name. */
const reads =
  /(?<![\w.'"-])(?<variable>jwt|apiKey)\s*(?:\.\s*(?<field>\w+)|\[\s*(?:"(?<name>[^"]*)"|'(?<quoted>[^']*)')\s*\])/g;

/** Returns the attributes, such as `jwt.tier`, that expressions read and that no request has. */
export function missingAttributes(
  replay: LimitReplay,
  requests: readonly ReplayRequest[],
  expressions: readonly string[],
): readonly string[] {
  const missing = new Map(expressions.flatMap(attributesIn).map((read) => [`${read.variable}.${read.name}`, read]));
  for (const request of requests) {
    if (missing.size === 0) break;
    const { route } = replay.identitiesOf(request) ?? {};
    for (const [key, { variable, name }] of missing) if (route?.[variable]?.has(name) === true) missing.delete(key);
  }
  return [...missing.keys()];
}

interface Attribute {
  readonly variable: "jwt" | "apiKey";
  readonly name: string;
}

function attributesIn(source: string): readonly Attribute[] {
  return Array.from(source.matchAll(reads), ({ groups = {} }) => ({
    variable: groups["variable"] === "jwt" ? "jwt" : "apiKey",
    name: groups["field"] ?? groups["name"] ?? groups["quoted"] ?? "",
  }));
}
