/**
 * Bounds what objects of all namespaces take together, by max-min fairness: a namespace that wants no more than an equal
 * share gets all of it, whatever others want, and what it leaves goes to those who want more. The shares follow from what
 * is wanted alone, so they are the same at each translation of the same objects.
 */
import { compareText } from "./object-names.ts";

/**
 * What each gets of `capacity`: what it wants where that is no more than an equal share of what those who want less
 * leave, else that share. The sum is at most `capacity`.
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

/** First told what each namespace wants, then asked for it. */
export class FairBudget {
  readonly capacity: number;
  readonly #wanted = new Map<string, number>();
  readonly #takenBy = new Map<string, number>();
  #shares: ReadonlyMap<string, number> | undefined;

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  /** Nothing must be wanted after the first question for a share. */
  want(namespace: string, amount: number): void {
    this.#wanted.set(namespace, (this.#wanted.get(namespace) ?? 0) + amount);
  }

  /** Whether a namespace wants so much that its share does not depend on what else it wants. */
  wantsAll(namespace: string): boolean {
    return (this.#wanted.get(namespace) ?? 0) >= this.capacity;
  }

  /** What each namespace gets. */
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
