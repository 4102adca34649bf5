/** Timers of one request. */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

/** What a timer of a request needs. */
export interface RequestTimerOptions {
  readonly clock: Clock;
  /** Ends the request. */
  readonly fault: (error: unknown) => void;
}

/** Calls `action` after `ms`. An error of it ends this request only. */
export function setTimerOfRequest({ clock, fault }: RequestTimerOptions, ms: number, action: () => void): Timer {
  return clock.setTimer(ms, () => {
    try {
      action();
    } catch (error) {
      fault(error);
    }
  });
}
