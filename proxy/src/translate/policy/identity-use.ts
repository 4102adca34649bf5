/** Finds expressions that read an identity where no policy authenticates clients in that way. */
import type { ProxyPolicy } from "../../api/proxy-policy.ts";
import { memoised } from "@gatewayproxy/runtime/memoised";
import { expressionsOf } from "./limit-budget.ts";

/** A way to authenticate, by the variable that shows its identity. */
export type IdentityKind = "jwt" | "apiKey";

/** The variables as an expression reads them, and no header or parameter of that name. */
const variable = /(?<![\w.'"-])(jwt|apiKey)\s*[.[]/g;

/** Returns the identities that the expressions of a policy read. */
export const identitiesReadBy = memoised((policy: ProxyPolicy): ReadonlySet<IdentityKind> => {
  const names = expressionsOf(policy).flatMap((source) => Array.from(source.matchAll(variable), ([, name]) => name));
  return new Set(names.map((name) => (name === "jwt" ? "jwt" : "apiKey")));
});

/** Returns the ways in which a policy authenticates clients. */
export function identitiesOf({ spec }: ProxyPolicy): readonly IdentityKind[] {
  const { jwt, apiKeys } = spec.traffic.authentication ?? {};
  return [...(jwt === undefined ? [] : (["jwt"] as const)), ...(apiKeys === undefined ? [] : (["apiKey"] as const))];
}
