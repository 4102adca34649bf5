/**
 * A bound on repeated corrections of something that another writer keeps changing, such as a controller of another
 * release. Without it, the two would never stop.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";

const mostRepairs = { times: 5, withinMs: 60_000 };

/** Allows five corrections of each thing in a minute. */
export class RepairLimit {
  readonly #clock: Clock;
  /** The number of corrections of each thing, and the monotonic time of the first. */
  readonly #repairs = new Map<string, { readonly sinceMs: number; readonly times: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns whether a thing may be corrected once more, and counts it. */
  take(key: string): boolean {
    const now = this.#clock.monotonicMs();
    for (const [each, { sinceMs }] of this.#repairs) {
      if (now - sinceMs > mostRepairs.withinMs) this.#repairs.delete(each);
    }
    const { sinceMs, times } = this.#repairs.get(key) ?? { sinceMs: now, times: 0 };
    this.#repairs.set(key, { sinceMs, times: times + 1 });
    return times < mostRepairs.times;
  }
}
