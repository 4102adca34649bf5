/**
 * Confines internal errors of the proxy. An error ends only the request, the connection or the timer in which it
 * occurs. An uncaught exception would end the worker with all its connections.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { RequestRecord } from "../telemetry/request-record.ts";

/** The part of the worker in which an internal error occurred. */
export type FaultPlace = "request" | "connection" | "timer" | "globalLimit";

/** Receives an internal error. @param record of the request in which it occurred; absent outside of requests. */
export type FaultSink = (error: unknown, place: FaultPlace, record?: RequestRecord) => void;

/** Returns a clock that passes errors of timer callbacks to `onFault`. */
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
