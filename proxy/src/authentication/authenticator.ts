/**
 * Authenticates the requests of a rule: by every policy of its Gateway, listener, route and the rule itself. Each must
 * accept a request, so the owner of a route can ask for more than the owner of the Gateway, and never for less.
 */
import type { CelInput } from "@bufbuild/cel";
import type { Identities, Identity, PolicyOwner } from "../cel/identity.ts";
import type { ApiKeySource, Authentication } from "../ir/authentication.ts";
import type { ApiKeyTable, KnownApiKey } from "./api-key-table.ts";
import { digestOnce } from "./credential-digest.ts";
import { fieldsOf } from "./credential-headers.ts";
import { bearerField, credentialIn } from "./credentials.ts";
import { hasTokenForm, type TokenFault } from "./token.ts";
import type { TokenResult } from "./token-cache.ts";
import type { TokenVerifier } from "./token-verifier.ts";

/** Why a request is not authenticated. */
export type AuthenticationFault = TokenFault | "missing" | "unknownApiKey";

/** The result for one request. */
export type AuthenticationResult =
  | {
      readonly kind: "accepted";
      readonly identities: Identities;
      /** For people: `jwt alice`, `apiKey default/acme`. Absent without an identity. */
      readonly name: string | undefined;
    }
  | {
      readonly kind: "rejected";
      /** `namespace/name` of the policy that rejects it. */
      readonly policy: string;
      readonly fault: AuthenticationFault;
      /** Values of `www-authenticate` (RFC 9110 §11.6.1). */
      readonly challenges: readonly string[];
    };

/** One policy, ready to check requests. */
export interface CompiledAuthentication {
  readonly authentication: Authentication;
  readonly tokens: TokenVerifier | undefined;
  readonly keys: ApiKeyTable | undefined;
}

/** What the policies read of a request. */
interface CheckedRequest {
  readonly rawHeaders: readonly string[];
  readonly client: string;
  readonly digest: ReturnType<typeof digestOnce>;
}

/** What one policy found. */
type Found =
  | { readonly kind: "identity"; readonly claims?: ReadonlyMap<string, CelInput>; readonly apiKey?: KnownApiKey }
  | { readonly kind: "fault"; readonly fault: AuthenticationFault };

/** The authentication of a rule. */
export class Authenticator {
  readonly #policies: readonly CompiledAuthentication[];
  /** Fields that are not forwarded to the backend. */
  readonly removes: readonly ApiKeySource[];
  /** All fields that may hold a credential. */
  readonly reads: readonly ApiKeySource[];

  /** @param policies of the Gateway, the listener, the route and the rule, in that order. */
  constructor(policies: readonly CompiledAuthentication[]) {
    this.#policies = policies;
    this.reads = policies.flatMap(({ authentication }) => fieldsOf(authentication));
    this.removes = policies.flatMap(({ authentication }) =>
      authentication.forward === "Remove" ? fieldsOf(authentication) : [],
    );
  }

  /** `namespace/name` and target of each policy, in the order of the checks. */
  get policies(): readonly Pick<Authentication, "policy" | "target" | "mode">[] {
    return this.#policies.map(({ authentication }) => authentication);
  }

  /**
   * Checks a request; the result at once if no signature has to be checked.
   *
   * @param rawHeaders flat, each name once.
   * @param client the network of the client.
   */
  check(rawHeaders: readonly string[], client: string): AuthenticationResult | Promise<AuthenticationResult> {
    return this.#checkFrom(0, new FoundIdentities(), { rawHeaders, client, digest: digestOnce() });
  }

  #checkFrom(
    start: number,
    identities: FoundIdentities,
    request: CheckedRequest,
  ): AuthenticationResult | Promise<AuthenticationResult> {
    for (let at = start; at < this.#policies.length; at++) {
      const policy = this.#policies[at];
      if (policy === undefined) continue;
      const found = find(policy, request);
      if (found instanceof Promise) {
        return found.then((later) => {
          const rejection = conclude(policy, later, identities);
          return rejection ?? this.#checkFrom(at + 1, identities, request);
        });
      }
      const rejection = conclude(policy, found, identities);
      if (rejection !== undefined) return rejection;
    }
    return identities.result();
  }
}

/** Collects the identities of one request. The policy nearest to the rule has precedence. */
class FoundIdentities {
  readonly #byOwner: Record<
    PolicyOwner,
    { jwt?: ReadonlyMap<string, CelInput>; apiKey?: ReadonlyMap<string, string> }
  > = { gateway: {}, route: {} };
  #subject: string | undefined;
  #source: string | undefined;

  add(owner: PolicyOwner, { claims, apiKey }: Extract<Found, { kind: "identity" }>): void {
    const sees: readonly Writable<Identity>[] =
      owner === "gateway" ? [this.#byOwner.gateway, this.#byOwner.route] : [this.#byOwner.route];
    for (const identity of sees) {
      if (claims !== undefined) identity.jwt = claims;
      if (apiKey !== undefined) identity.apiKey = apiKey.attributes;
    }
    if (claims !== undefined) {
      const subject = claims.get("sub");
      this.#subject = `jwt ${typeof subject === "string" ? subject : "without sub"}`;
    }
    if (apiKey !== undefined) this.#source = `apiKey ${apiKey.source}`;
  }

  result(): AuthenticationResult {
    const names = [this.#subject, this.#source].filter((name) => name !== undefined);
    return { kind: "accepted", identities: this.#byOwner, name: names.length === 0 ? undefined : names.join(", ") };
  }
}

type Writable<T> = { -readonly [Key in keyof T]: T[Key] };

function find(
  { authentication, tokens, keys }: CompiledAuthentication,
  { rawHeaders, client, digest }: CheckedRequest,
): Found | Promise<Found> {
  let fault: AuthenticationFault = "missing";
  let apiKey: KnownApiKey | undefined;
  let isBearerKnown = false;
  for (const field of authentication.apiKeys?.from ?? []) {
    const candidate = credentialIn(rawHeaders, field);
    if (candidate === undefined) continue;
    apiKey = keys?.find(candidate, digest);
    isBearerKnown = apiKey !== undefined && field.header === bearerField.header;
    if (apiKey !== undefined) break;
    fault = "unknownApiKey";
  }
  const bearer = tokens === undefined || isBearerKnown ? undefined : credentialIn(rawHeaders, bearerField);
  const withoutToken = (): Found => (apiKey === undefined ? { kind: "fault", fault } : { kind: "identity", apiKey });
  // Any other text was meant as an API key, if the policy reads them.
  if (tokens === undefined || bearer === undefined || (keys !== undefined && !hasTokenForm(bearer))) {
    return withoutToken();
  }
  const concluded = (result: TokenResult): Found => {
    if (result.kind === "accepted") {
      return { kind: "identity", claims: result.claims, ...(apiKey !== undefined && { apiKey }) };
    }
    return apiKey === undefined ? { kind: "fault", fault: result.fault } : withoutToken();
  };
  const result = tokens.verify(bearer, client, digest);
  return result instanceof Promise ? result.then(concluded) : concluded(result);
}

/** Returns the rejection of a request by a policy; undefined if it accepts the request. */
function conclude(
  { authentication }: CompiledAuthentication,
  found: Found,
  identities: FoundIdentities,
): AuthenticationResult | undefined {
  if (found.kind === "identity") {
    identities.add(authentication.target.startsWith("Gateway/") ? "gateway" : "route", found);
    return undefined;
  }
  if (authentication.mode === "Optional") return undefined;
  const { fault } = found;
  return { kind: "rejected", policy: authentication.policy, fault, challenges: challengesOf(authentication, fault) };
}

const realm = 'realm="gateway"';

/** A challenge for each way to authenticate. One without a credential names no error (RFC 6750 §3.1). */
function challengesOf(authentication: Authentication, fault: AuthenticationFault): readonly string[] {
  const fields = fieldsOf(authentication);
  const isBearer = ({ header, prefix }: ApiKeySource) => header === bearerField.header && prefix === bearerField.prefix;
  const error = fault === "missing" ? "" : `, error="invalid_token", error_description="${faultText(fault)}"`;
  return [
    ...(fields.some(isBearer) ? [`Bearer ${realm}${error}`] : []),
    ...(fields.every(isBearer) ? [] : [`ApiKey ${realm}`]),
  ];
}

/** Says what is wrong with the credential of a request, and nothing about the configuration. */
export function faultText(fault: AuthenticationFault): string {
  return faultTexts[fault];
}

const faultTexts: Readonly<Record<AuthenticationFault, string>> = {
  missing: "the request has no credential",
  unknownApiKey: "the API key is not known",
  malformed: "the token cannot be read",
  algorithm: "the algorithm of the token is not accepted",
  issuer: "the issuer of the token is not accepted",
  audience: "the token is for another audience",
  expired: "the token has expired",
  notYetValid: "the token is not valid yet",
  unknownKey: "the key of the token is not known",
  signature: "the signature of the token is not valid",
  keysUnavailable: "the keys of the issuer cannot be read yet",
  overloaded: "too many tokens are being verified",
};
