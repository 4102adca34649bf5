/**
 * Ends requests that wait for their client without progress: the client does not read its response, or does not send
 * the rest of its upload. Such a client would hold its request, a connection to the backend and the buffers of both for
 * any time.
 *
 * Two timeouts apply:
 *
 * - The idle timeout ends a request after a long time without data in either direction.
 * - The contended timeout is shorter. It applies to a request that delays others: while other requests wait for a
 *   connection to the same endpoint, or for body memory, it must progress at a minimum rate. The rate grows with the
 *   number of such requests of the client address, so that many slow requests of one address end before a few of
 *   others. Clients behind one address that read and send promptly do not wait for themselves, and are not counted.
 *
 * One timer checks all requests periodically, so that requests need no timers of their own. A stall is detected up to
 * one period late. A silent backend is not handled here: connection pools have an idle timeout, and rules have
 * timeouts.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

/** A request to which the idle timeouts apply. */
export interface Stallable {
  /** Address of the client. */
  readonly client: string;
  /** Whether it holds a connection to a backend, or body memory, for which other requests wait. */
  readonly delaysOthers: boolean;
  /**
   * Returns the bytes that have passed in both directions, which never decrease. Returns undefined while the request
   * does not wait for its client, which is most of the time.
   */
  progress(): number | undefined;
  /** Ends the request. */
  endStalled(): void;
  /**
   * The progress of the request at the last check. It is stored in the request and not in a map of
   * `StreamIdleTimeouts`, which would keep requests in memory that have ended since the last check.
   */
  stallState: StallState | undefined;
}

/** The two timeouts, and the requests that they apply to. At least one timeout is above 0. */
export interface StreamIdleTimeoutsOptions {
  /** Times the checks, eight per timeout. */
  readonly clock: Clock;
  /** Milliseconds after which a request without a byte in either direction is ended; 0: never. */
  readonly timeoutMs: number;
  /** As `timeoutMs`, for a request that delays others and stays below 500 bytes per second; 0: never. */
  readonly contendedTimeoutMs: number;
  /** Whether any request waits for a connection to a backend or for body memory. Called at each check. */
  readonly isContended: () => boolean;
  /** All requests in progress. */
  readonly requests: () => Iterable<Stallable>;
}

/** Checks per timeout. A stalled request is ended at most an eighth of the timeout late. */
const looksPerTimeout = 8;
/** Minimum rate of a request that delays others; it is multiplied by the number of such requests of its client. */
const minBytesPerSecond = 500;

/** The progress of a request that waited for its client at the last check. */
export interface StallState {
  /** The bytes at the last check. */
  readonly progress: number;
  /** The time of the first check with these bytes; monotonic. */
  readonly sinceMs: number;
  /** The bytes from which the minimum rate is measured. */
  readonly paidProgress: number;
  /** The time from which the minimum rate is measured; monotonic. */
  readonly paidMs: number;
}

/** Checks all requests of a worker periodically. `close` stops it. */
export class StreamIdleTimeouts {
  readonly #options: StreamIdleTimeoutsOptions;
  #timer: Timer;
  /** The time of the next check if the worker is not contended; monotonic. */
  #nextLookMs = 0;

  constructor(options: StreamIdleTimeoutsOptions) {
    this.#options = options;
    this.#timer = this.#tickLater();
  }

  close(): void {
    this.#timer.cancel();
  }

  #tickLater(): Timer {
    const { clock, timeoutMs, contendedTimeoutMs } = this.#options;
    return clock.setTimer(Math.min(orNever(timeoutMs), orNever(contendedTimeoutMs)) / looksPerTimeout, () => {
      this.#timer = this.#tickLater();
      this.#tick();
    });
  }

  #tick(): void {
    const { clock, timeoutMs, contendedTimeoutMs, isContended } = this.#options;
    const nowMs = clock.monotonicMs();
    const isBusy = contendedTimeoutMs > 0 && isContended();
    if (!isBusy && nowMs < this.#nextLookMs) return;
    this.#nextLookMs = nowMs + orNever(timeoutMs) / looksPerTimeout;
    this.#look(nowMs);
  }

  #look(nowMs: number): void {
    const { timeoutMs, contendedTimeoutMs, requests } = this.#options;
    const waiting = new Map<Stallable, number>();
    /** The number of requests that delay others, by client. */
    const counts = new Map<string, number>();
    for (const request of requests()) {
      const progress = request.progress();
      if (progress === undefined) {
        request.stallState = undefined;
        continue;
      }
      waiting.set(request, progress);
      if (request.delaysOthers) counts.set(request.client, (counts.get(request.client) ?? 0) + 1);
    }
    const stalled: Stallable[] = [];
    for (const [request, progress] of waiting) {
      const dueBytes = ((minBytesPerSecond * contendedTimeoutMs) / 1_000) * (counts.get(request.client) ?? 1);
      const next = advance(request.stallState, progress, nowMs, dueBytes);
      const isStill = nowMs - next.sinceMs >= orNever(timeoutMs);
      const isTooSlow = request.delaysOthers && nowMs - next.paidMs >= orNever(contendedTimeoutMs);
      request.stallState = isStill || isTooSlow ? undefined : next;
      if (isStill || isTooSlow) stalled.push(request);
    }
    // Ended requests are deleted from `requests()`, so they are ended after the iteration.
    for (const request of stalled) request.endStalled();
  }
}

/**
 * Returns the state after a check.
 *
 * @param dueBytes the bytes since `paidProgress` that restart the contended timeout.
 */
function advance(before: StallState | undefined, progress: number, nowMs: number, dueBytes: number): StallState {
  if (before === undefined) return { progress, sinceMs: nowMs, paidProgress: progress, paidMs: nowMs };
  const isPaid = progress - before.paidProgress >= dueBytes;
  return {
    progress,
    sinceMs: before.progress === progress ? before.sinceMs : nowMs,
    paidProgress: isPaid ? progress : before.paidProgress,
    paidMs: isPaid ? nowMs : before.paidMs,
  };
}

function orNever(ms: number): number {
  return ms === 0 ? Number.POSITIVE_INFINITY : ms;
}
