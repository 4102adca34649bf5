/**
 * The claims of a JSON Web Token (RFC 7519), read without verification: neither the signature nor the times are
 * checked. The claims distinguish honest clients; they do not prove an identity.
 */

import type { CelInput } from "@bufbuild/cel";

/**
 * Returns the claims of a compact token by their names. Nested objects are maps as well, so that a claim is never
 * confused with a member of `Object.prototype`. The map is empty if the text is not a token: three parts, of which the
 * second is a JSON object in base64url.
 */
export function unverifiedClaims(token: string | undefined): Map<string, CelInput> {
  const [, payload, signature, rest] = token?.split(".", 4) ?? [];
  if (payload === undefined || signature === undefined || rest !== undefined) return new Map();
  try {
    const claims: unknown = mapOf(JSON.parse(Buffer.from(payload, "base64url").toString("utf8")));
    // CEL accepts every JSON value if its objects are maps.
    return claims instanceof Map ? (claims as Map<string, CelInput>) : new Map<string, CelInput>();
  } catch {
    return new Map();
  }
}

/**
 * Converts the objects of a JSON value to maps, each once. A reviver of JSON.parse would be called for each string and
 * number, too.
 */
export function mapOf(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(mapOf);
  return new Map(Object.entries(value).map(([name, member]) => [name, mapOf(member)]));
}
