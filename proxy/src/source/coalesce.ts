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
  /** Never runs twice at once; must not reject. */
  readonly action: () => Promise<void>;
}

export interface Coalescer {
  /** Asks for the action. An event during the action asks for another one after it. */
  poke(): void;
  /** Forgets what was asked for, and resolves when a running action has ended. No action begins afterwards. */
  close(): Promise<void>;
}

export function coalesce({ clock, quietMs, maxMs, action }: CoalesceOptions): Coalescer {
  let timer: Timer | undefined;
  let firstMs: number | undefined;
  let running: Promise<void> | undefined;
  let isClosed = false;

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
    running = action().finally(() => {
      running = undefined;
      if (firstMs !== undefined && !isClosed && timer === undefined) arm();
    });
  }

  return {
    poke() {
      if (!isClosed) arm();
    },
    async close() {
      isClosed = true;
      timer?.cancel();
      await running;
    },
  };
}
