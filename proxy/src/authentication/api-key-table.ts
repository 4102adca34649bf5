/**
 * Looks up API keys by their hash. The digests in the table depend on a secret of the process, so a client cannot
 * compute the digest of a key, and the time of a look-up does not help to guess one.
 */
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { ApiKey } from "../ir/authentication.ts";
import { sha256Of } from "./credential-digest.ts";

const pepper = randomBytes(32).toString("base64");

/** Maximum length of a key in a request, in characters. A longer one is not known. */
const maxKeyLength = 1_024;

/** An API key that was found. */
export interface KnownApiKey {
  /** `namespace/name` of the Secret. */
  readonly source: string;
  /** For expressions. */
  readonly attributes: ReadonlyMap<string, string>;
}

interface Row extends KnownApiKey {
  readonly sha256: Buffer;
}

/** The API keys of one policy. */
export class ApiKeyTable {
  readonly #rows = new Map<string, Row>();

  constructor(keys: readonly ApiKey[]) {
    for (const { sha256, source, attributes } of keys) {
      const digest = digestOf(sha256.secret);
      if (this.#rows.has(digest)) continue;
      this.#rows.set(digest, {
        sha256: Buffer.from(sha256.secret),
        source: `${source.namespace}/${source.name}`,
        attributes: new Map(Object.entries(attributes)),
      });
    }
  }

  /**
   * Undefined if the key is not known.
   *
   * @param digest computes the SHA-256 of a text in base64.
   */
  find(key: string, digest: (text: string) => string = sha256Of): KnownApiKey | undefined {
    // A policy with tokens may have no key yet, and a token is no key of it then.
    if (this.#rows.size === 0 || key === "" || key.length > maxKeyLength) return undefined;
    const sha256 = digest(key);
    const row = this.#rows.get(digestOf(sha256));
    return row !== undefined && timingSafeEqual(row.sha256, Buffer.from(sha256)) ? row : undefined;
  }
}

function digestOf(sha256: string): string {
  return hash("sha256", pepper + sha256, "base64");
}
