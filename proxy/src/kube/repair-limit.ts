/**
 * How often something is put right that somebody else keeps changing. Who changes it more often has a will of its own
 * (another controller, of another release perhaps), and neither of us would ever rest.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";

const mostRepairs = { times: 5, withinMs: 60_000 };

export class RepairLimit {
  readonly #clock: Clock;
  /** How often each thing was put right, since when (monotonic). */
  readonly #repairs = new Map<string, { readonly sinceMs: number; readonly times: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether a thing may be put right once more; counts it. */
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
