/**
 * Bounds the time for which the new references of one namespace delay the changes of all: anyone may refer to another
 * Secret every second, and make each of them unreadable for a time.
 */

/** The time for which a namespace delays changes before it has none left. It is that of one object. */
const maxMs = 3_000;
/** The part of the time that a namespace regains: the whole of it in a minute. */
const regained = maxMs / 60_000;

interface Spent {
  readonly ms: number;
  readonly atMs: number;
}

/** The times for which namespaces have delayed changes. */
export class WaitBudget {
  readonly #spent = new Map<string, Spent>();
  #waiting: { readonly namespaces: ReadonlySet<string>; readonly sinceMs: number } | undefined;

  /** Whether a namespace may delay changes. */
  allows(namespace: string, nowMs: number): boolean {
    return this.#spentMs(namespace, nowMs) < maxMs;
  }

  /** Begins a wait for objects of these namespaces, and charges the one before, which ends now. */
  wait(namespaces: ReadonlySet<string>, nowMs: number): void {
    const { namespaces: before = new Set<string>(), sinceMs = nowMs } = this.#waiting ?? {};
    for (const namespace of before) {
      this.#spent.set(namespace, { ms: this.#spentMs(namespace, nowMs) + nowMs - sinceMs, atMs: nowMs });
    }
    for (const namespace of this.#spent.keys()) {
      if (this.#spentMs(namespace, nowMs) === 0) this.#spent.delete(namespace);
    }
    this.#waiting = namespaces.size === 0 ? undefined : { namespaces, sinceMs: nowMs };
  }

  #spentMs(namespace: string, nowMs: number): number {
    const spent = this.#spent.get(namespace);
    return spent === undefined ? 0 : Math.max(0, spent.ms - (nowMs - spent.atMs) * regained);
  }
}
