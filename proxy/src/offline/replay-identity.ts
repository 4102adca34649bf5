/**
 * The identity of a replayed request. A log has the subject of the token and the Secret of the API key; other claims
 * may be added to it, and the labels of a Secret are in the manifests.
 */
import { claimsOf, type Identities, type Identity } from "../cel/identity.ts";
import type { Secret } from "../api/secret.ts";
import type { Authentication } from "../ir/authentication.ts";
import { attributesOf } from "../translate/policy/authentication.ts";

/** What a log says about the client of a request. Members are absent for what the request does not have. */
export interface LoggedIdentity {
  /** Claims of the token. */
  readonly jwt?: Readonly<Record<string, unknown>>;
  /**
   * `name` and `namespace` of the Secret that holds the API key, and attributes that replace those of the manifests.
   */
  readonly apiKey?: Readonly<Record<string, string>>;
}

/**
 * Returns the identities of a request at a rule. Policies of a Gateway see an identity only if a policy of the Gateway
 * verifies such identities, as in the proxy. Where no policy of the manifests verifies them, the one that did is
 * elsewhere, and all see them.
 *
 * @param secretOf finds a Secret of the manifests.
 */
export function identitiesOf(
  { jwt, apiKey }: LoggedIdentity,
  policies: readonly Authentication[],
  secretOf: (namespace: string, name: string) => Secret | undefined,
): Identities {
  const secret = apiKey && secretOf(apiKey["namespace"] ?? "", apiKey["name"] ?? "");
  const known: Identity = {
    ...(jwt !== undefined && { jwt: claimsOf(jwt) }),
    ...(apiKey !== undefined && {
      apiKey: new Map(Object.entries({ ...(secret && attributesOf(secret)), ...apiKey })),
    }),
  };
  return { gateway: visibleToGateway(known, policies), route: known };
}

function visibleToGateway({ jwt, apiKey }: Identity, policies: readonly Authentication[]): Identity {
  const verify = (reads: (policy: Authentication) => boolean): boolean => {
    const verifying = policies.filter(reads);
    return verifying.length === 0 || verifying.some(({ target }) => target.startsWith("Gateway/"));
  };
  return {
    ...(jwt !== undefined && verify(({ issuers }) => issuers.length > 0) && { jwt }),
    ...(apiKey !== undefined && verify(({ apiKeys }) => apiKeys !== undefined) && { apiKey }),
  };
}
