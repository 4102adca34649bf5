/**
 * The only door to time. Everything that measures, waits or stamps takes a `Clock`, so a test owns the time
 * (see `testing/fake-clock.ts`) and no test sleeps.
 */

/** A pending timer or a repeated call; `cancel` is harmless after a timer has fired. */
export interface Timer {
  cancel(): void;
}

export interface Clock {
  /** Wall time in milliseconds since the Unix epoch. May jump; for log stamps and clock-aligned windows only. */
  nowMs(): number;
  /**
   * Milliseconds on a clock that never goes back, with one origin for all threads of a machine, so that threads can
   * compare readings that they keep in shared memory (`performance.now()` has an origin per thread).
   */
  monotonicMs(): number;
  /** Calls `callback` once after `delayMs` (at least 0). The timer does not keep the process alive. */
  setTimer(delayMs: number, callback: () => void): Timer;
  /**
   * Calls `callback` every `periodMs` (at least 1) until it is cancelled. For upkeep that runs for as long as the process does;
   * what waits for something has a timer. Does not keep the process alive.
   */
  every(periodMs: number, callback: () => void): Timer;
}

/** The machine's clock. */
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
