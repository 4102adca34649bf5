/**
 * The authentication of one worker. Verified tokens and the key sets of URLs outlive snapshots: an edit elsewhere
 * neither verifies a token again nor reads a key set again.
 */
import type { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { setSecretNames } from "@gatewayproxy/runtime/redaction";
import type { ApiKeys, Authentication, TokenIssuer } from "../ir/authentication.ts";
import type { KeySetState } from "../ir/key-set-state.ts";
import { ApiKeyTable } from "./api-key-table.ts";
import { Authenticator, type CompiledAuthentication } from "./authenticator.ts";
import { credentialHeadersOf } from "./credential-headers.ts";
import { fetchKeySet } from "./fetch-key-set.ts";
import { FixedKeySet, type KeySet } from "./key-set.ts";
import { type FetchOutcome, RemoteKeySet } from "./remote-key-set.ts";
import { TokenCache } from "./token-cache.ts";
import { TokenVerifier, type VerifierServices } from "./token-verifier.ts";
import { VerificationQueue } from "./verification-queue.ts";

/** Options of `Authenticators`. */
export interface AuthenticatorsOptions {
  readonly clock: Clock;
  /** From 0 to 1, for jitter. */
  readonly random: () => number;
  /** Where key sets are not read from. */
  readonly addresses: AddressGuard;
  /** Called after each read of a key set. */
  readonly onFetched: (uri: string, outcome: FetchOutcome) => void;
}

/** Compiles the authentication of rules, and keeps what they share. */
export class Authenticators {
  readonly #options: AuthenticatorsOptions;
  readonly #services: VerifierServices;
  readonly #remote = new Map<string, RemoteKeySet>();
  /** Equal parts of snapshots are one object. */
  readonly #verifiers = new WeakMap<readonly TokenIssuer[], TokenVerifier>();
  readonly #tables = new WeakMap<ApiKeys, ApiKeyTable>();
  readonly #compiled = new WeakMap<readonly Authentication[], Authenticator>();

  constructor(options: AuthenticatorsOptions) {
    this.#options = options;
    this.#services = { clock: options.clock, cache: new TokenCache(), queue: new VerificationQueue() };
  }

  /** Begins to read the key sets of a snapshot, and ends reading others. Called before `compile`. */
  prepare(all: readonly Authentication[]): void {
    const uris = new Set<string>();
    for (const authentication of all) {
      for (const { keys } of authentication.issuers) if (keys.kind === "uri") uris.add(keys.uri);
    }
    setSecretNames(credentialHeadersOf(all));
    for (const [uri, set] of this.#remote) {
      if (uris.has(uri)) continue;
      set.close();
      this.#remote.delete(uri);
    }
    for (const uri of uris) if (!this.#remote.has(uri)) this.#remote.set(uri, this.#open(uri));
  }

  /** Returns the authentication of a rule; undefined if there is none. */
  compile(policies: readonly Authentication[] | undefined): Authenticator | undefined {
    if (policies === undefined || policies.length === 0) return undefined;
    const known = this.#compiled.get(policies);
    if (known !== undefined) return known;
    const authenticator = new Authenticator(policies.map((policy) => this.#compile(policy)));
    this.#compiled.set(policies, authenticator);
    return authenticator;
  }

  /** The state of every key set that is read from a URL, for operators. */
  keySets(): readonly KeySetState[] {
    return Array.from(this.#remote.values(), (set) => set.state());
  }

  close(): void {
    for (const set of this.#remote.values()) set.close();
  }

  #open(uri: string): RemoteKeySet {
    const { clock, random, addresses, onFetched } = this.#options;
    const fetch = (from: string): Promise<string> => fetchKeySet(from, { addresses, clock });
    return new RemoteKeySet({ uri, clock, random, fetch, onFetched });
  }

  #compile(authentication: Authentication): CompiledAuthentication {
    const { issuers, apiKeys } = authentication;
    return {
      authentication,
      tokens: issuers.length === 0 ? undefined : this.#verifierOf(issuers),
      keys: apiKeys && this.#tableOf(apiKeys),
    };
  }

  #verifierOf(issuers: readonly TokenIssuer[]): TokenVerifier {
    const known = this.#verifiers.get(issuers);
    if (known !== undefined) return known;
    const keyed = issuers.map((issuer) => ({ issuer, keys: this.#keysOf(issuer) }));
    const verifier = new TokenVerifier(this.#services, keyed);
    this.#verifiers.set(issuers, verifier);
    return verifier;
  }

  #tableOf(apiKeys: ApiKeys): ApiKeyTable {
    const known = this.#tables.get(apiKeys) ?? new ApiKeyTable(apiKeys.keys);
    this.#tables.set(apiKeys, known);
    return known;
  }

  #keysOf({ keys }: TokenIssuer): KeySet {
    if (keys.kind !== "uri") return new FixedKeySet(keys.kind === "keys" ? keys.keys : []);
    // Absent only if `prepare` was called with another snapshot.
    return this.#remote.get(keys.uri) ?? new FixedKeySet([]);
  }
}
