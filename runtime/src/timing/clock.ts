/**
 * The only source of time. Everything that measures, waits or timestamps takes a `Clock`, so that a test controls the
 * time (see `testing/fake-clock.ts`) and no test sleeps.
 */

/** A pending timer or a repeated call. `cancel` has no effect after a timer has fired. */
export interface Timer {
  cancel(): void;
}

/** A source of time and timers. */
export interface Clock {
  /**
   * Returns the wall time in milliseconds since the Unix epoch. It may jump: use it only for timestamps and aligned
   * windows.
   */
  nowMs(): number;
  /**
   * Returns milliseconds of a clock that never goes back. All threads of a machine share its origin, so they can
   * compare readings in shared memory (`performance.now()` has one origin per thread).
   */
  monotonicMs(): number;
  /** Calls `callback` once after `delayMs` (at least 0). The timer does not keep the process alive. */
  setTimer(delayMs: number, callback: () => void): Timer;
  /**
   * Calls `callback` every `periodMs` (at least 1) until it is cancelled. For periodic work that lasts as long as the
   * process; use a timer to wait for something. Does not keep the process alive.
   */
  every(periodMs: number, callback: () => void): Timer;
}

/** The clock of the machine. */
export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs() {
    const [seconds, nanoseconds] = process.hrtime();
    return seconds * 1_000 + nanoseconds / 1_000_000;
  },
  setTimer(delayMs, callback) {
    const handle = setTimeout(callback, delayMs);
    handle.unref();
    return { cancel: () => clearTimeout(handle) };
  },
  every(periodMs, callback) {
    const handle = setInterval(callback, periodMs);
    handle.unref();
    return { cancel: () => clearInterval(handle) };
  },
};
