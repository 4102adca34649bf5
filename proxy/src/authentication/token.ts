/**
 * The parts of a JSON Web Token before its verification (RFC 7515 §3.1). They decide which key may verify it, and
 * reject most forged tokens without the work of a signature check. Nothing else relies on them until the signature is
 * checked.
 */
import { tokenAlgorithms } from "./json-web-keys.ts";

/** Maximum length of a token in characters. */
export const maxTokenLength = 16_384;

/** Clocks of issuers may differ from ours by this much. */
export const clockSkewMs = 30_000;

/** Why a token is not accepted. */
export type TokenFault =
  /** It is no signed token in compact form, or lacks a claim that is required: `iss`, `exp`. */
  | "malformed"
  /** It is not signed by an algorithm of public keys: unsigned, or by a shared secret. */
  | "algorithm"
  /** No issuer of the policy made it for one of its audiences. */
  | "issuer"
  | "audience"
  | "expired"
  | "notYetValid"
  /** The issuer has no key with its id and algorithm. */
  | "unknownKey"
  | "signature"
  /** The keys of the issuer have not been read yet. */
  | "keysUnavailable"
  /** Too many other tokens are being verified. */
  | "overloaded";

/** What a token claims about itself, unverified. */
export interface UnverifiedToken {
  readonly algorithm: string;
  readonly kid: string | undefined;
  readonly issuer: string;
  readonly audiences: readonly string[];
  /** In milliseconds since the epoch. */
  readonly expiresMs: number;
  readonly notBeforeMs: number | undefined;
  /** The whole payload. */
  readonly claims: Readonly<Record<string, unknown>>;
}

/** Three parts in base64url without padding (RFC 7515 §7.1). */
const compactForm = /^[\w-]+\.[\w-]*\.[\w-]*$/;

/** Whether a text has the form of a token: three parts. */
export function hasTokenForm(text: string): boolean {
  const first = text.indexOf(".");
  const second = text.indexOf(".", first + 1);
  return first > 0 && second > first && !text.includes(".", second + 1);
}

/** Reads a token without verifying it. */
export function readToken(token: string): UnverifiedToken | TokenFault {
  if (token.length > maxTokenLength || !compactForm.test(token)) return "malformed";
  const [head = "", payload = ""] = token.split(".", 2);
  const header = jsonOf(head);
  if (header === undefined) return "malformed";
  const { alg: algorithm, kid, crit } = header;
  if (typeof algorithm !== "string" || !tokenAlgorithms.has(algorithm)) return "algorithm";
  if (kid !== undefined && typeof kid !== "string") return "malformed";
  // It lists extensions that a verifier must understand (RFC 7515 §4.1.11). This one understands none.
  if (crit !== undefined) return "malformed";
  const claims = jsonOf(payload);
  if (claims === undefined) return "malformed";
  const { iss, aud, exp, nbf, iat } = claims;
  if (typeof iss !== "string" || typeof exp !== "number") return "malformed";
  if (![nbf, iat].every((time) => time === undefined || typeof time === "number")) return "malformed";
  return {
    algorithm,
    kid,
    issuer: iss,
    audiences: [aud].flat().filter((each) => typeof each === "string"),
    expiresMs: exp * 1_000,
    notBeforeMs: typeof nbf === "number" ? nbf * 1_000 : undefined,
    claims,
  };
}

/** Whether a token is not valid at a time; undefined if it is. */
export function timeFault({ expiresMs, notBeforeMs }: UnverifiedToken, nowMs: number): TokenFault | undefined {
  if (expiresMs + clockSkewMs <= nowMs) return "expired";
  return notBeforeMs !== undefined && notBeforeMs - clockSkewMs > nowMs ? "notYetValid" : undefined;
}

/** Another reader could take bytes that are not UTF-8 for other characters. */
const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function jsonOf(part: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(strictUtf8.decode(Buffer.from(part, "base64url")));
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    return value as Readonly<Record<string, unknown>>;
  } catch {
    return undefined;
  }
}
