/**
 * The names of the gRPC service in health checks, as envoyproxy/ratelimit has them; the empty name is the whole server.
 */
export const healthServiceNames: readonly string[] = ["", "ratelimit"];

/** Whether the service can take calls. gRPC health and HTTP `/healthcheck` report the same. */
export class ServingStatus {
  #isServing: boolean;
  readonly #listeners = new Set<(isServing: boolean) => void>();

  constructor(isServing: boolean) {
    this.#isServing = isServing;
  }

  get isServing(): boolean {
    return this.#isServing;
  }

  /** Listeners are called for changes only. */
  set(isServing: boolean): void {
    if (isServing === this.#isServing) return;
    this.#isServing = isServing;
    for (const listener of this.#listeners) listener(isServing);
  }

  /** Calls `listener` with each change until the returned function is called. */
  onChange(listener: (isServing: boolean) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
