/**
 * Reads JSON Web Key Sets (RFC 7517 §5) of identity providers: of texts that others write, so everything is bounded,
 * and only public keys for signatures are kept. Symmetric keys are left out, since anyone who can read a key set could
 * sign with them.
 */
import { createPublicKey, type KeyObject } from "node:crypto";
import type { PublicJwk } from "../ir/authentication.ts";

/** Maximum length of a key set in characters, and of its keys. Sets of identity providers have ten at most. */
export const maxKeySetLength = 262_144;
const maxKeys = 100;
/** Sizes of RSA keys in bits (RFC 7518 §3.3). The time of a verification grows with the square of the size. */
const [minRsaBits, maxRsaBits] = [2_048, 8_192];
/** The length of an exponent of 33 bits in base64url. With a long one, a verification takes as long as a signature. */
const maxExponentLength = 6;

/** The algorithms of each type of key. Only these are ever accepted: neither `none` nor HMAC is among them. */
const algorithms = {
  RSA: ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
  "P-256": ["ES256"],
  "P-384": ["ES384"],
  "P-521": ["ES512"],
  Ed25519: ["EdDSA", "Ed25519"],
} as const;

/** All algorithms that tokens may have. */
export const tokenAlgorithms: ReadonlySet<string> = new Set(Object.values(algorithms).flat());

/** The keys of a set, or why it cannot be read; `error` follows the name of the set in a sentence. */
export type KeySetResult =
  | {
      readonly kind: "read";
      readonly keys: readonly PublicJwk[];
      /** Why some keys are not used; empty if all are. */
      readonly leftOut: readonly string[];
    }
  | { readonly kind: "malformed"; readonly error: string };

/** Reads a key set. A key that cannot verify signatures is left out; without any other key, the set is malformed. */
export function readKeySet(text: string): KeySetResult {
  if (text.length > maxKeySetLength) {
    return malformed(`has ${text.length} characters, accepted are at most ${maxKeySetLength}`);
  }
  const members = keysIn(text);
  if (members === undefined) return malformed('is not a JSON Web Key Set, accepted is {"keys": […]}');
  if (members.length > maxKeys) return malformed(`has ${members.length} keys, accepted are at most ${maxKeys}`);
  const keys: PublicJwk[] = [];
  const leftOut: string[] = [];
  members.forEach((member, index) => {
    const key = readKey(member);
    if (typeof key === "string") leftOut.push(`keys[${index}] ${key}`);
    else keys.push(key);
  });
  // An empty set is what an issuer publishes that has withdrawn all keys.
  if (keys.length > 0 || members.length === 0) return { kind: "read", keys, leftOut };
  const [first] = leftOut;
  return malformed(`has no public key for signatures${first === undefined ? "" : `: ${first}`}`);
}

/** Whether a key may verify a token with this algorithm. */
export function verifies(key: PublicJwk, algorithm: string): boolean {
  return key.alg === undefined ? algorithmsOf(key).includes(algorithm) : key.alg === algorithm;
}

/** Returns the key for `node:crypto`. The key was read by `readKeySet`, so it is valid. */
export function keyObjectOf(key: PublicJwk): KeyObject {
  return createPublicKey({ key: { ...key }, format: "jwk" });
}

function malformed(error: string): KeySetResult {
  return { kind: "malformed", error };
}

function keysIn(text: string): readonly unknown[] | undefined {
  try {
    const set: unknown = JSON.parse(text);
    const keys = isObject(set) ? set["keys"] : undefined;
    return Array.isArray(keys) ? keys : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the public members of a key, or why it is not used. */
function readKey(member: unknown): PublicJwk | string {
  if (!isObject(member)) return "is no object";
  const { kty, use, key_ops: operations } = member;
  if (kty !== "RSA" && kty !== "EC" && kty !== "OKP") {
    return `is of type ${typeof kty === "string" ? kty.slice(0, 32) : "unknown"}, accepted are RSA, EC and OKP`;
  }
  if (use !== undefined && use !== "sig") return "is not for signatures (use)";
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes("verify"))) {
    return "does not verify signatures (key_ops)";
  }
  const key = publicMembers(kty, member);
  if (key === undefined) return "lacks a member, or has one that is not text";
  if (key.alg !== undefined && !algorithmsOf(key).includes(key.alg)) {
    return `has the algorithm ${key.alg.slice(0, 32)}, which its type does not support`;
  }
  return strengthError(key) ?? key;
}

const membersOf = { RSA: ["n", "e"], EC: ["crv", "x", "y"], OKP: ["crv", "x"] } as const;

function publicMembers(kty: PublicJwk["kty"], member: Readonly<Record<string, unknown>>): PublicJwk | undefined {
  const required = membersOf[kty].map((name) => [name, member[name]] as const);
  const optional = (["kid", "alg"] as const).flatMap((name) =>
    member[name] === undefined ? [] : [[name, member[name]] as const],
  );
  const entries = [...required, ...optional];
  if (!entries.every(([, value]) => typeof value === "string" && value.length <= 2_048)) return undefined;
  // All values are texts, as checked, and their names are those of `PublicJwk`.
  return { kty, ...(Object.fromEntries(entries) as Omit<PublicJwk, "kty">) };
}

function algorithmsOf({ kty, crv = "" }: PublicJwk): readonly string[] {
  if (kty === "RSA") return algorithms.RSA;
  const byCurve: Readonly<Record<string, readonly string[]>> = algorithms;
  const isOfType = kty === "EC" ? crv.startsWith("P-") : crv === "Ed25519";
  return isOfType && Object.hasOwn(byCurve, crv) ? (byCurve[crv] ?? []) : [];
}

function strengthError(key: PublicJwk): string | undefined {
  if (algorithmsOf(key).length === 0) return `has the curve ${(key.crv ?? "").slice(0, 32)}, which is not supported`;
  if ((key.e ?? "").length > maxExponentLength) return "has an exponent of more than 32 bits";
  try {
    const { modulusLength = minRsaBits } = keyObjectOf(key).asymmetricKeyDetails ?? {};
    if (modulusLength >= minRsaBits && modulusLength <= maxRsaBits) return undefined;
    return `has ${modulusLength} bits, accepted are ${minRsaBits} to ${maxRsaBits}`;
  } catch {
    return "is not a valid key";
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
