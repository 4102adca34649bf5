/**
 * The claims of a JSON Web Token (RFC 7519) as its sender wrote them. Nothing is verified here, neither the signature nor
 * the times, so they tell clients apart that are honest and prove nothing.
 */

import type { CelInput } from "@bufbuild/cel";

/**
 * The claims of a compact token by their names, nested objects as maps as well, so that no claim is confused with what
 * every object has. Empty where the text is no token: three parts, the second a JSON object in base64url.
 */
export function unverifiedClaims(token: string | undefined): Map<string, CelInput> {
  const [, payload, signature, rest] = token?.split(".", 4) ?? [];
  if (payload === undefined || signature === undefined || rest !== undefined) return new Map();
  try {
    const claims: unknown = asMap(JSON.parse(Buffer.from(payload, "base64url").toString("utf8")));
    // What JSON holds, with maps for its objects, is what CEL takes.
    return claims instanceof Map ? (claims as Map<string, CelInput>) : new Map<string, CelInput>();
  } catch {
    return new Map();
  }
}

/** Not as a reviver of JSON.parse, which takes many times as long. */
function asMap(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(asMap);
  return new Map(Object.entries(value).map(([name, each]) => [name, asMap(each)]));
}
