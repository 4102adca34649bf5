/** The public keys of an issuer, ready to verify signatures. */
import type { KeyObject } from "node:crypto";
import type { PublicJwk } from "../ir/authentication.ts";
import { keyObjectOf, verifies } from "./json-web-keys.ts";
import { isQuickKey } from "./token-signature.ts";

/** The keys of an issuer as they are now. */
export interface KeySet {
  /** Grows with each change of the keys, so that results of previous keys can be recognized. */
  readonly version: number;
  /** Undefined while there are none: no token can be verified. */
  readonly keys: KeyIndex | undefined;
  /**
   * Asks for newer keys, since a token names an unknown one, or there are none. Resolves when they have been read, or
   * could not be. Undefined if keys are not read now: they do not change, or have been read a moment ago.
   */
  refresh(): Promise<void> | undefined;
}

/** A key that verifies signatures. */
export interface VerificationKey {
  readonly key: KeyObject;
  /** Whether its checks are quick enough for the event loop. */
  readonly isQuick: boolean;
}

/** Keys without an id that are tried for one token. */
export const maxCandidates = 4;

/** Looks up keys by the header of a token. */
export class KeyIndex {
  readonly #all: readonly (readonly [PublicJwk, VerificationKey])[];

  constructor(keys: readonly PublicJwk[]) {
    this.#all = keys.map((jwk) => {
      const key = keyObjectOf(jwk);
      return [jwk, { key, isQuick: isQuickKey(key) }];
    });
  }

  /**
   * Returns the keys that may have signed a token: of its algorithm, and with its key id if it has one. `kid` is only
   * ever compared; it is no path and no address.
   */
  candidates(algorithm: string, kid: string | undefined): readonly VerificationKey[] {
    const matching = this.#all.filter(([key]) => verifies(key, algorithm) && (kid === undefined || key.kid === kid));
    return matching.slice(0, maxCandidates).map(([, key]) => key);
  }
}

/** Keys of the configuration, which only change with it. */
export class FixedKeySet implements KeySet {
  readonly version = 0;
  readonly keys: KeyIndex | undefined;

  /** @param keys empty: no token can be verified. */
  constructor(keys: readonly PublicJwk[]) {
    this.keys = keys.length === 0 ? undefined : new KeyIndex(keys);
  }

  refresh(): undefined {
    return undefined;
  }
}
