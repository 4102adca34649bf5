/**
 * Bounds what objects of all namespaces take together, and what those of one namespace take, so that no namespace uses up
 * what the others need. Who asks first gets first: routes ask in their order, the oldest first.
 */
export class NamespaceBudget {
  /** Of all namespaces together. */
  readonly most: number;
  readonly mostPerNamespace: number;
  #taken = 0;
  readonly #takenBy = new Map<string, number>();

  constructor(bounds: { readonly most: number; readonly mostPerNamespace: number }) {
    this.most = bounds.most;
    this.mostPerNamespace = bounds.mostPerNamespace;
  }

  left(namespace: string): number {
    return Math.min(this.most - this.#taken, this.mostPerNamespace - (this.#takenBy.get(namespace) ?? 0));
  }

  take(namespace: string, amount: number): void {
    this.#taken += amount;
    this.#takenBy.set(namespace, (this.#takenBy.get(namespace) ?? 0) + amount);
  }

  /** `at most 20 of a namespace and 100 in all are served`, for messages. */
  get bounds(): string {
    return `at most ${this.mostPerNamespace} of a namespace and ${this.most} in all`;
  }
}
