/**
 * Turns a burst of events into one action: an editor's save causes several file events, a deployment dozens. The action
 * runs after a short time without events, and at the latest a fixed time after the first event, so that a constant
 * stream of events cannot delay it forever.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

/** Options of `coalesce`. */
export interface CoalesceOptions {
  /** The clock of the delays and the retries. */
  readonly clock: Clock;
  /** Time without events before the action runs. */
  readonly quietMs: number;
  /** Maximum delay after the first event of a burst. */
  readonly maxMs: number;
  /**
   * Never runs concurrently with itself. After an error it is retried after 1 s; the delay doubles with each further
   * error, up to 30 s.
   */
  readonly action: () => Promise<void> | void;
  /** Called for each such error. */
  readonly onFailure: (error: unknown, retryMs: number) => void;
}

const firstRetryMs = 1_000;
const maxRetryMs = 30_000;

/** Runs the action after bursts of events. */
export interface Coalescer {
  /**
   * Requests the action. A call during the action requests another run after it.
   *
   * @param quietMs as in the options, for this event: the latest of the times that the events of a burst set counts.
   */
  trigger(quietMs?: number): void;
  /** Cancels requested runs, and resolves when a running action has ended. No action starts afterwards. */
  close(): Promise<void>;
}

/** Creates a coalescer. */
export function coalesce({ clock, quietMs, maxMs, action, onFailure }: CoalesceOptions): Coalescer {
  let timer: Timer | undefined;
  let firstMs: number | undefined;
  let quietUntilMs = 0;
  let running: Promise<void> | undefined;
  let isClosed = false;
  let failures = 0;
  let retry: Timer | undefined;

  function startTimer(eventQuietMs = quietMs): void {
    const now = clock.monotonicMs();
    firstMs ??= now;
    quietUntilMs = Math.max(quietUntilMs, now + eventQuietMs);
    timer?.cancel();
    timer = clock.setTimer(Math.max(0, Math.min(quietUntilMs, firstMs + maxMs) - now), run);
  }

  function run(): void {
    timer = undefined;
    // The running action may have missed the latest event. `firstMs` stays set, so the timer is started again after the
    // action.
    if (running !== undefined) return;
    firstMs = undefined;
    quietUntilMs = 0;
    retry?.cancel();
    running = attempt().finally(() => {
      running = undefined;
      if (firstMs !== undefined && !isClosed && timer === undefined) startTimer();
    });
  }

  async function attempt(): Promise<void> {
    try {
      await action();
      failures = 0;
    } catch (error) {
      const retryMs = Math.min(maxRetryMs, firstRetryMs * 2 ** Math.min(failures, 16));
      failures++;
      onFailure(error, retryMs);
      if (!isClosed) retry = clock.setTimer(retryMs, () => startTimer());
    }
  }

  return {
    trigger(eventQuietMs) {
      if (!isClosed) startTimer(eventQuietMs);
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
