/** Timeouts of connections, which one timer of their owner counts, instead of a timer for each. */

/** A connection with timeouts. */
export interface Swept {
  /** Ends what takes too long. Called every `sweepMs`. */
  sweep(): void;
}

/** The interval of `Swept.sweep`, in milliseconds. Timeouts are up to so much longer. */
export const sweepMs = 1_000;
