/**
 * Turns a burst of events into one action: an editor's save is several file events, a deployment dozens. Acts once it
 * has been quiet for a moment, and at the latest some time after the first event, so that no stream of events can hold
 * a change back for ever.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

export interface CoalesceOptions {
  readonly clock: Clock;
  /** How long it must have been quiet. */
  readonly quietMs: number;
  /** How long the first event of a burst waits at most. */
  readonly maxMs: number;
  /** Never runs twice at once. Where it throws or rejects it is run again: after 1 s, then later each time, up to 30 s. */
  readonly action: () => Promise<void> | void;
  /** Told of each such failure. */
  readonly onFailure: (error: unknown, retryMs: number) => void;
}

const firstRetryMs = 1_000;
const mostRetryMs = 30_000;

export interface Coalescer {
  /** Asks for the action. An event during the action asks for another one after it. */
  poke(): void;
  /** Forgets what was asked for, and resolves when a running action has ended. No action begins afterwards. */
  close(): Promise<void>;
}

export function coalesce({ clock, quietMs, maxMs, action, onFailure }: CoalesceOptions): Coalescer {
  let timer: Timer | undefined;
  let firstMs: number | undefined;
  let running: Promise<void> | undefined;
  let isClosed = false;
  let failures = 0;
  let retry: Timer | undefined;

  function arm(): void {
    const now = clock.monotonicMs();
    firstMs ??= now;
    timer?.cancel();
    timer = clock.setTimer(Math.max(0, Math.min(quietMs, firstMs + maxMs - now)), act);
  }

  function act(): void {
    timer = undefined;
    // The running action may have read too early; `firstMs` stays set and it is armed again afterwards.
    if (running !== undefined) return;
    firstMs = undefined;
    retry?.cancel();
    running = attempt().finally(() => {
      running = undefined;
      if (firstMs !== undefined && !isClosed && timer === undefined) arm();
    });
  }

  async function attempt(): Promise<void> {
    try {
      await action();
      failures = 0;
    } catch (error) {
      const retryMs = Math.min(mostRetryMs, firstRetryMs * 2 ** Math.min(failures, 16));
      failures++;
      onFailure(error, retryMs);
      if (!isClosed) retry = clock.setTimer(retryMs, arm);
    }
  }

  return {
    poke() {
      if (!isClosed) arm();
    },
    async close() {
      isClosed = true;
      timer?.cancel();
      retry?.cancel();
      await running;
      retry?.cancel();
    },
  };
}
