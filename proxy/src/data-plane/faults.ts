/**
 * Faults of the proxy itself end what they happen in, and nothing else: a request, a connection, what a timer was about.
 * An uncaught exception would end the worker with all its connections.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { RequestRecord } from "../telemetry/request-record.ts";

/** What a fault has ended. */
export type FaultPlace = "request" | "connection" | "timer" | "globalLimit";

/** Called for an internal error. @param record of the request, if there is one. */
export type FaultSink = (error: unknown, place: FaultPlace, record?: RequestRecord) => void;

/** A clock whose timers have their faults caught. */
export function guardedClock(clock: Clock, onFault: FaultSink): Clock {
  const guarded = (callback: () => void) => (): void => {
    try {
      callback();
    } catch (error) {
      onFault(error, "timer");
    }
  };
  return {
    nowMs: () => clock.nowMs(),
    monotonicMs: () => clock.monotonicMs(),
    setTimer: (delayMs, callback): Timer => clock.setTimer(delayMs, guarded(callback)),
    every: (periodMs, callback): Timer => clock.every(periodMs, guarded(callback)),
  };
}
