/**
 * Verifies the JSON Web Tokens of one policy (RFC 7519 §7.2, RFC 8725): chooses the issuer and the keys by what a token
 * claims, has its signature checked, and keeps results. Requests with the same token share one check.
 */
import type { KeyObject } from "node:crypto";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { claimsOf } from "../cel/identity.ts";
import type { TokenIssuer } from "../ir/authentication.ts";
import { sha256Of } from "./credential-digest.ts";
import type { KeySet } from "./key-set.ts";
import { clockSkewMs, maxTokenLength, readToken, timeFault, type TokenFault, type UnverifiedToken } from "./token.ts";
import type { TokenCache, TokenResult } from "./token-cache.ts";
import { hasSignatureOf } from "./token-signature.ts";
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
    const ofIssuer = this.#issuers.filter(({ issuer }) => issuer.issuer === token.issuer);
    if (ofIssuer.length === 0) return "issuer";
    if (!ofIssuer.some(({ issuer }) => isFor(token, issuer))) return "audience";
    return timeFault(token, this.#services.clock.nowMs());
  }

  async #check(token: string, read: UnverifiedToken, client: string): Promise<TokenResult> {
    let result = rejected("unknownKey");
    for (const { issuer, keys } of this.#issuers) {
      if (issuer.issuer !== read.issuer || !isFor(read, issuer)) continue;
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
  { algorithm, claims }: UnverifiedToken,
  candidates: readonly KeyObject[],
): Promise<TokenResult> {
  for (const key of candidates) {
    if (await hasSignatureOf(token, algorithm, key)) return { kind: "accepted", claims: claimsOf(claims) };
  }
  return rejected("signature");
}

/** Returns the keys that may have signed a token. Waits for newer ones where there are none. */
async function candidatesOf(
  set: KeySet,
  { algorithm, kid }: UnverifiedToken,
): Promise<readonly KeyObject[] | TokenFault> {
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
