/**
 * Bounds the time for which new references delay the changes of all: anyone may refer to another Secret every second,
 * and make each of them unreadable for a time. Each namespace has a time, and all together have one, since a tenant may
 * have many namespaces.
 */

/** The time for which a namespace delays changes before it has none left. It is that of one object. */
const maxMs = 3_000;
/** The time for which all of them do. */
const maxMsOfAll = 12_000;
/** The key of all namespaces, which is the name of none. */
const all = "";
/** The whole time is regained after this. */
const regainMs = 60_000;

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
    return [namespace, all].every((key) => this.#spentMs(key, nowMs) < maxMsOf(key));
  }

  /** Begins a wait for objects of these namespaces, and charges the one before, which ends now. */
  wait(namespaces: ReadonlySet<string>, nowMs: number): void {
    const { namespaces: before = new Set<string>(), sinceMs = nowMs } = this.#waiting ?? {};
    for (const namespace of before.size === 0 ? [] : [...before, all]) {
      this.#spent.set(namespace, { ms: this.#spentMs(namespace, nowMs) + nowMs - sinceMs, atMs: nowMs });
    }
    for (const namespace of this.#spent.keys()) {
      if (this.#spentMs(namespace, nowMs) === 0) this.#spent.delete(namespace);
    }
    this.#waiting = namespaces.size === 0 ? undefined : { namespaces, sinceMs: nowMs };
  }

  #spentMs(namespace: string, nowMs: number): number {
    const spent = this.#spent.get(namespace);
    const regained = maxMsOf(namespace) / regainMs;
    return spent === undefined ? 0 : Math.max(0, spent.ms - (nowMs - spent.atMs) * regained);
  }
}

function maxMsOf(namespace: string): number {
  return namespace === all ? maxMsOfAll : maxMs;
}
