/**
 * Bounds the demand of all namespaces together by max-min fairness: a namespace that demands no more than an equal
 * share gets all of it, whatever others demand, and the rest goes to the namespaces with a higher demand. The shares
 * depend only on the demands, so they are the same for each translation of the same objects.
 */
import { compareText } from "./index/object-names.ts";

/**
 * Divides `capacity` among demands: each gets its demand if that is at most an equal share of what lower demands leave,
 * otherwise that share. The sum is at most `capacity`.
 */
export function fairShares(wanted: ReadonlyMap<string, number>, capacity: number): ReadonlyMap<string, number> {
  const shares = new Map<string, number>();
  let left = capacity;
  const bySize = [...wanted].sort(([nameOfA, a], [nameOfB, b]) => a - b || compareText(nameOfA, nameOfB));
  for (const [index, [name, size]] of bySize.entries()) {
    const share = Math.min(size, Math.floor(left / (bySize.length - index)));
    shares.set(name, share);
    left -= share;
  }
  return shares;
}

/** The rest of a capacity for each namespace. */
export interface Budget {
  readonly capacity: number;
  /** Adds to the demand of a namespace. To be called for all demands before any of the other functions. */
  want(namespace: string, amount: number): void;
  share(namespace: string): number;
  left(namespace: string): number;
  take(namespace: string, amount: number): void;
}

/** The budget where all demands together do not exceed the capacity, so that they need not be counted. */
export const ampleBudget: Budget = {
  capacity: Number.POSITIVE_INFINITY,
  want: () => undefined,
  share: () => Number.POSITIVE_INFINITY,
  left: () => Number.POSITIVE_INFINITY,
  take: () => undefined,
};

/** Collects the demands of namespaces, then returns their shares. */
export class FairBudget implements Budget {
  readonly capacity: number;
  readonly #wanted = new Map<string, number>();
  readonly #takenBy = new Map<string, number>();
  #shares: ReadonlyMap<string, number> | undefined;

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  want(namespace: string, amount: number): void {
    this.#wanted.set(namespace, (this.#wanted.get(namespace) ?? 0) + amount);
  }

  /** Whether a namespace demands so much that a higher demand would not change its share. */
  wantsAll(namespace: string): boolean {
    return (this.#wanted.get(namespace) ?? 0) >= this.capacity;
  }

  /** The shares of the namespaces. */
  get shares(): ReadonlyMap<string, number> {
    this.#shares ??= fairShares(this.#wanted, this.capacity);
    return this.#shares;
  }

  share(namespace: string): number {
    return this.shares.get(namespace) ?? 0;
  }

  left(namespace: string): number {
    return this.share(namespace) - (this.#takenBy.get(namespace) ?? 0);
  }

  take(namespace: string, amount: number): void {
    this.#takenBy.set(namespace, (this.#takenBy.get(namespace) ?? 0) + amount);
  }
}
