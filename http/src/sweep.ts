/** Timeouts of connections. One timer of their owner advances all of them, so that connections need no timers. */

/** A connection with timeouts. */
export interface Swept {
  /** Advances the timeouts, and ends requests and connections that exceed them. Called every `sweepMs`. */
  sweep(): void;
}

/** The interval of `Swept.sweep`, in milliseconds. Timeouts are up to one interval longer. */
export const sweepMs = 1_000;
