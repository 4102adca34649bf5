/**
 * The only door to time. Everything that measures, waits or stamps takes a `Clock`, so a test owns the time
 * (see `testing/fake-clock.ts`) and no test sleeps.
 */

/** A pending timer; `cancel` is harmless after it has fired. */
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
};
