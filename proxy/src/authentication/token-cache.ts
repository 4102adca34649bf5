/**
 * The results of verified tokens of one worker, by the hash of the token, so that a heap dump holds no token for longer
 * than its request. Two generations bound the memory: what the older one holds is dropped when the younger one is full,
 * unless it was used meanwhile. Tokens that are not accepted have generations of their own, so that a flood of them
 * drops no valid one.
 */
import type { CelInput } from "@bufbuild/cel";
import type { TokenFault } from "./token.ts";

/** The result of a verification. */
export type TokenResult =
  | { readonly kind: "accepted"; readonly claims: ReadonlyMap<string, CelInput> }
  | { readonly kind: "rejected"; readonly fault: TokenFault };

/** A result, and how long it holds. */
export interface CachedResult {
  readonly result: TokenResult;
  /** In wall time; the result does not hold at or after it. */
  readonly untilMs: number;
  /** The version of the keys with which it was found. */
  readonly version: number;
}

/**
 * Bounds of a generation: entries, and characters of the tokens, to which the memory of their claims is proportional.
 */
interface Bounds {
  readonly entries: number;
  readonly characters: number;
}

const acceptedBounds: Bounds = { entries: 5_000, characters: 4 * 1024 * 1024 };
const rejectedBounds: Bounds = { entries: 5_000, characters: Number.POSITIVE_INFINITY };

/** The cache of one worker. */
export class TokenCache {
  readonly #accepted = new Generations(acceptedBounds);
  readonly #rejected = new Generations(rejectedBounds);

  get(key: string): CachedResult | undefined {
    return this.#accepted.get(key) ?? this.#rejected.get(key);
  }

  /** @param length of the token in characters. */
  set(key: string, cached: CachedResult, length: number): void {
    (cached.result.kind === "accepted" ? this.#accepted : this.#rejected).set(key, cached, length);
  }

  /** The number of results. */
  get size(): number {
    return this.#accepted.size + this.#rejected.size;
  }
}

interface Entry {
  readonly cached: CachedResult;
  readonly length: number;
}

class Generations {
  readonly #bounds: Bounds;
  #young = new Map<string, Entry>();
  #old: ReadonlyMap<string, Entry> = new Map();
  #characters = 0;

  constructor(bounds: Bounds) {
    this.#bounds = bounds;
  }

  get size(): number {
    return this.#young.size + this.#old.size;
  }

  get(key: string): CachedResult | undefined {
    const entry = this.#young.get(key);
    if (entry !== undefined) return entry.cached;
    const previous = this.#old.get(key);
    if (previous === undefined) return undefined;
    this.set(key, previous.cached, previous.length);
    return previous.cached;
  }

  set(key: string, cached: CachedResult, length: number): void {
    if (this.#young.size >= this.#bounds.entries || this.#characters + length > this.#bounds.characters) {
      this.#old = this.#young;
      this.#young = new Map();
      this.#characters = 0;
    }
    this.#young.set(key, { cached, length });
    this.#characters += length;
  }
}
