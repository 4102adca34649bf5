/**
 * Ends requests that wait for a client without progress: it does not read its response, or does not send the rest of its
 * upload. Such a client would hold its request, a connection to the backend and the buffers of both for any time.
 *
 * Two rules apply. A request on which nothing passes is ended after a long time. While requests of others wait for a
 * connection to the same endpoint, a request that holds one of them must get on at a minimum rate, and is ended soon
 * otherwise. That rate grows with the number of such requests of one client address, so that many slow requests of one
 * address go before a few of others. It applies to slow requests only: clients behind one address that read and send
 * promptly do not wait for themselves, and are never counted.
 *
 * All requests are looked at together, from time to time, so that none pays for a timer of its own; a stall is noticed that
 * much later. Not watched here is the backend's silence: pools have a limit for it, and rules have timeouts.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

/** A request as the watch sees it. */
export interface Stallable {
  /** Address of the client. */
  readonly client: string;
  /** Whether it holds a connection to a backend for which other requests wait. */
  readonly delaysOthers: boolean;
  /**
   * Bytes that have passed either way, which never become fewer; undefined while the request does not wait for its client,
   * which is most of the time.
   */
  progress(): number | undefined;
  /** Ends the request. */
  endStalled(): void;
  /**
   * What the watch knows of the request. It is kept here and not in a map of the watch, which would keep requests in memory
   * that have ended since the last look.
   */
  stallState: StallState | undefined;
}

/** The two timeouts, and the requests that they apply to. At least one timeout is above 0. */
export interface StreamIdleTimeoutsOptions {
  /** Times the looks, eight for each timeout. */
  readonly clock: Clock;
  /** Milliseconds after which a request without a byte in either direction is ended; 0: never. */
  readonly timeoutMs: number;
  /** As `timeoutMs`, for a request that delays others and stays below 500 bytes a second; 0: no such rule. */
  readonly contendedTimeoutMs: number;
  /** Whether any request waits for a connection to a backend; asked often. */
  readonly isContended: () => boolean;
  /** All requests in progress. */
  readonly requests: () => Iterable<Stallable>;
}

/** A stall is ended at most this part of the timeout late. */
const looksPerTimeout = 8;
/** Bytes per second of a request that delays others, times the requests of its client that do so too. */
const minBytesPerSecond = 500;

/** Progress of a request that waited for its client at the last look. */
export interface StallState {
  /** At the last look. */
  readonly progress: number;
  /** Monotonic; when that figure was first seen. */
  readonly sinceMs: number;
  /** Where the minimum rate is counted from, and since when. */
  readonly paidProgress: number;
  readonly paidMs: number;
}

/** Looks at all requests of a worker from time to time. `close` stops it. */
export class StreamIdleTimeouts {
  readonly #options: StreamIdleTimeoutsOptions;
  #timer: Timer;
  /** Monotonic; when all are looked at, even if no request waits. */
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
    /** Of requests that delay others, by client. */
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
    // Those that end leave the list that was just gone through.
    for (const request of stalled) request.endStalled();
  }
}

/** @param dueBytes the bytes since `paidProgress` after which the time restarts. */
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
