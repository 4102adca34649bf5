/**
 * Verifies the JSON Web Tokens of one policy (RFC 7519 §7.2, RFC 8725): chooses the issuer and the keys by what a token
 * claims, checks its signature, and keeps results. Requests with the same token share one check.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { claimsOf } from "../cel/identity.ts";
import type { TokenIssuer } from "../ir/authentication.ts";
import { sha256Of } from "./credential-digest.ts";
import { type KeySet, maxCandidates, type VerificationKey } from "./key-set.ts";
import { clockSkewMs, maxTokenLength, readToken, timeFault, type TokenFault, type UnverifiedToken } from "./token.ts";
import type { TokenCache, TokenResult } from "./token-cache.ts";
import { hasSignatureOf, hasSlowSignatureOf } from "./token-signature.ts";
import type { VerificationQueue } from "./verification-queue.ts";

/** What the verifiers of a worker share. */
export interface VerifierServices {
  readonly clock: Clock;
  readonly cache: TokenCache;
  readonly queue: VerificationQueue;
}

/** An issuer with its keys. */
export interface KeyedIssuer {
  readonly issuer: TokenIssuer;
  readonly keys: KeySet;
}

/** Faults that may end without a new token or a change of keys, so that they are found again each time. */
const passing: ReadonlySet<TokenFault> = new Set(["notYetValid", "unknownKey", "keysUnavailable", "overloaded"]);

/** Distinguishes the verifiers of a worker in its cache. */
let created = 0;

/** The verifier of one policy. */
export class TokenVerifier {
  readonly #services: VerifierServices;
  readonly #issuers: readonly KeyedIssuer[];
  readonly #id = `${++created} `;
  readonly #pending = new Map<string, Promise<TokenResult>>();

  constructor(services: VerifierServices, issuers: readonly KeyedIssuer[]) {
    this.#services = services;
    this.#issuers = issuers;
  }

  /**
   * The result at once if it is known.
   *
   * @param client the network of the client.
   * @param digest computes the SHA-256 of a text in base64.
   */
  verify(
    token: string,
    client: string,
    digest: (text: string) => string = sha256Of,
  ): TokenResult | Promise<TokenResult> {
    if (token.length > maxTokenLength) return rejected("malformed");
    const key = this.#id + digest(token);
    const known = this.#services.cache.get(key);
    if (known !== undefined && known.version === this.#version && known.untilMs > this.#services.clock.nowMs()) {
      return known.result;
    }
    const pending = this.#pending.get(key);
    if (pending !== undefined) return pending;
    const read = readToken(token);
    if (typeof read === "string") return rejected(read);
    const unsuitable = this.#faultBefore(read);
    if (unsuitable !== undefined) return rejected(unsuitable);
    const quickKeys = this.#quickKeysOf(read);
    if (quickKeys !== undefined) {
      const isSigned = quickKeys.some((each) => hasSignatureOf(token, read.algorithm, each.key));
      const result = isSigned ? accepted(read) : rejected("signature");
      this.#keep(key, token, read, result);
      return result;
    }
    const version = this.#version;
    const started = this.#check(token, read, client)
      .then((result) => {
        // Found with keys that have changed since, it may not hold any more.
        if (version === this.#version) this.#keep(key, token, read, result);
        return result;
      })
      .finally(() => this.#pending.delete(key));
    this.#pending.set(key, started);
    return started;
  }

  /** Changes with the keys of any issuer. */
  get #version(): number {
    let version = 0;
    for (const { keys } of this.#issuers) version += keys.version;
    return version;
  }

  /** Returns the fault of a token that no signature can repair. */
  #faultBefore(token: UnverifiedToken): TokenFault | undefined {
    if (!this.#issuers.some(({ issuer }) => issuer.issuer === token.issuer)) return "issuer";
    if (this.#keySetsOf(token).length === 0) return "audience";
    return timeFault(token, this.#services.clock.nowMs());
  }

  /** Returns the key sets of the issuers that may have made a token. */
  #keySetsOf(token: UnverifiedToken): readonly KeySet[] {
    return this.#issuers.flatMap(({ issuer, keys }) =>
      issuer.issuer === token.issuer && isFor(token, issuer) ? [keys] : [],
    );
  }

  /**
   * Returns the keys that may have signed a token; undefined if one is not known yet, is slow, or if there are many.
   */
  #quickKeysOf(token: UnverifiedToken): readonly VerificationKey[] | undefined {
    const found: VerificationKey[] = [];
    for (const { keys } of this.#keySetsOf(token)) {
      const candidates = keys?.candidates(token.algorithm, token.kid) ?? [];
      if (candidates.length === 0) return undefined;
      found.push(...candidates);
    }
    return found.length <= maxCandidates && found.every(({ isQuick }) => isQuick) ? found : undefined;
  }

  async #check(token: string, read: UnverifiedToken, client: string): Promise<TokenResult> {
    let result = rejected("unknownKey");
    for (const keys of this.#keySetsOf(read)) {
      result = worse(result, await this.#checkWith(token, read, client, keys));
      if (result.kind === "accepted") return result;
    }
    return result;
  }

  async #checkWith(token: string, read: UnverifiedToken, client: string, set: KeySet): Promise<TokenResult> {
    const candidates = await candidatesOf(set, read);
    if (typeof candidates === "string") return rejected(candidates);
    const checked = this.#services.queue.run(client, () => checkSignature(token, read, candidates));
    return checked === undefined ? rejected("overloaded") : await checked;
  }

  #keep(key: string, token: string, { expiresMs }: UnverifiedToken, result: TokenResult): void {
    if (result.kind === "rejected" && passing.has(result.fault)) return;
    const untilMs = result.kind === "accepted" ? expiresMs + clockSkewMs : Number.POSITIVE_INFINITY;
    this.#services.cache.set(key, { result, untilMs, version: this.#version }, token.length);
  }
}

/** Returns the result of a token whose claims hold, by its signature. */
async function checkSignature(
  token: string,
  read: UnverifiedToken,
  candidates: readonly VerificationKey[],
): Promise<TokenResult> {
  for (const { key } of candidates) {
    if (await hasSlowSignatureOf(token, read.algorithm, key)) return accepted(read);
  }
  return rejected("signature");
}

function accepted({ claims }: UnverifiedToken): TokenResult {
  return { kind: "accepted", claims: claimsOf(claims) };
}

/** Returns the keys that may have signed a token. Waits for newer ones where there are none. */
async function candidatesOf(
  set: KeySet,
  { algorithm, kid }: UnverifiedToken,
): Promise<readonly VerificationKey[] | TokenFault> {
  const known = set.keys?.candidates(algorithm, kid) ?? [];
  if (known.length > 0) return known;
  await set.refresh();
  if (set.keys === undefined) return "keysUnavailable";
  const renewed = set.keys.candidates(algorithm, kid);
  return renewed.length > 0 ? renewed : "unknownKey";
}

function isFor({ audiences }: UnverifiedToken, issuer: TokenIssuer): boolean {
  return issuer.audiences?.some((audience) => audiences.includes(audience)) ?? true;
}

function rejected(fault: TokenFault): TokenResult {
  return { kind: "rejected", fault };
}

/** Of two issuers of one name, an unknown key says least. */
function worse(before: TokenResult, after: TokenResult): TokenResult {
  return after.kind === "rejected" && after.fault === "unknownKey" ? before : after;
}
