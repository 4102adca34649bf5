/**
 * Limits repeated corrections of an object that another writer keeps changing, such as a controller of another release.
 * Without the limit, the two writers would never stop.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";

const maxRepairs = { times: 5, withinMs: 60_000 };

/** Allows five corrections of each object in a minute. */
export class RepairLimit {
  readonly #clock: Clock;
  /** The number of corrections of each object, and the monotonic time of the first. */
  readonly #repairs = new Map<string, { readonly sinceMs: number; readonly times: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a correction and returns whether it is allowed. */
  take(key: string): boolean {
    const now = this.#clock.monotonicMs();
    for (const [each, { sinceMs }] of this.#repairs) {
      if (now - sinceMs > maxRepairs.withinMs) this.#repairs.delete(each);
    }
    const { sinceMs, times } = this.#repairs.get(key) ?? { sinceMs: now, times: 0 };
    this.#repairs.set(key, { sinceMs, times: times + 1 });
    return times < maxRepairs.times;
  }
}
