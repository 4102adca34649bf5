/**
 * The identity of a client as expressions see it: the claims of a verified token, and the Secret that holds an API key.
 *
 * Each owner of policies sees the identities that it trusts. An expression of a policy on a Gateway sees only what the
 * policies of that Gateway verified, since the owner of a route could otherwise choose an issuer that signs any
 * subject, and so choose the counters of the Gateway.
 */
import type { CelInput } from "@bufbuild/cel";
import { mapOf } from "./jwt.ts";

/** Whose policy contains an expression: that of a Gateway or listener, or that of a route or rule. */
export type PolicyOwner = "gateway" | "route";

/** What authentication has verified. Members are absent for what the request does not have. */
export interface Identity {
  /** Claims of a verified token by their names (RFC 7519 §4). */
  readonly jwt?: ReadonlyMap<string, CelInput>;
  /** Annotations and labels of the Secret that holds the API key, with its `name` and `namespace`. */
  readonly apiKey?: ReadonlyMap<string, string>;
}

/** The identities of one request by the owner whose expressions see them. */
export type Identities = Readonly<Record<PolicyOwner, Identity>>;

/** The names of the variables that hold an identity. */
export const identityVariables = ["jwt", "apiKey"] as const;
/** The name of a variable that holds an identity. */
export type IdentityVariable = (typeof identityVariables)[number];

/** The value of a variable without an identity, so that `has(jwt.sub)` is false rather than an error. */
const none: ReadonlyMap<string, CelInput> = new Map<string, CelInput>();

/** Returns the value of a variable for the expressions of an owner; empty without an identity. */
export function readIdentity(
  variable: IdentityVariable,
  identities: Identities | undefined,
  owner: PolicyOwner,
): ReadonlyMap<string, CelInput> {
  return identities?.[owner][variable] ?? none;
}

/** Converts the payload of a verified token to claims for expressions. */
export function claimsOf(payload: Readonly<Record<string, unknown>>): ReadonlyMap<string, CelInput> {
  // The payload is JSON, and CEL accepts every JSON value whose objects are maps.
  return mapOf(payload) as Map<string, CelInput>;
}
