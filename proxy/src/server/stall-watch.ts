/**
 * Ends requests on which nothing passes while their client is what they wait for: it does not read its answer, or does not
 * send the rest of what it began to upload. Such a client would hold its request, a connection to the backend and the
 * buffers of both for as long as it likes.
 *
 * All requests are looked at together, from time to time, so that none pays for a timer of its own; a stall is noticed that
 * much later. Not watched here is the backend's silence: pools have a limit for it, and rules have timeouts.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

/** A request as the watch sees it. */
export interface Stallable {
  /**
   * Another figure whenever a byte has passed since, either way; undefined while the request does not wait for its client,
   * which is most of the time.
   */
  progress(): number | undefined;
  /** Ends the request: nothing has passed for too long. */
  endStalled(): void;
}

export interface StallWatchOptions {
  readonly clock: Clock;
  /** Above 0. */
  readonly timeoutMs: number;
  /** All that are under way now. */
  readonly requests: () => Iterable<Stallable>;
}

/** A stall is ended at most this part of the timeout late. */
const looksPerTimeout = 8;

interface Standstill {
  readonly progress: number;
  /** Monotonic; when that figure was first seen. */
  readonly sinceMs: number;
}

export class StallWatch {
  readonly #options: StallWatchOptions;
  /** Those that waited for their clients at the last look. */
  #waiting = new Map<Stallable, Standstill>();
  #timer: Timer;

  constructor(options: StallWatchOptions) {
    this.#options = options;
    this.#timer = this.#lookLater();
  }

  close(): void {
    this.#timer.cancel();
    this.#waiting.clear();
  }

  #lookLater(): Timer {
    const { clock, timeoutMs } = this.#options;
    return clock.setTimer(timeoutMs / looksPerTimeout, () => {
      this.#timer = this.#lookLater();
      this.#look();
    });
  }

  #look(): void {
    const { clock, timeoutMs, requests } = this.#options;
    const nowMs = clock.monotonicMs();
    const waiting = new Map<Stallable, Standstill>();
    const stalled: Stallable[] = [];
    for (const request of requests()) {
      const progress = request.progress();
      if (progress === undefined) continue;
      const before = this.#waiting.get(request);
      const standstill = before?.progress === progress ? before : { progress, sinceMs: nowMs };
      if (nowMs - standstill.sinceMs >= timeoutMs) stalled.push(request);
      else waiting.set(request, standstill);
    }
    this.#waiting = waiting;
    // Those that end leave the list that was just gone through.
    for (const request of stalled) request.endStalled();
  }
}
