/** When an endpoint that keeps failing is left out, and for how long. */
import type { EndpointFigures } from "./endpoint-health.ts";

/** In a row. */
const failuresToEject = 5;
const firstEjectionMs = 10_000;
const longestEjectionMs = 300_000;

/** Whether it has failed too often; one that has come back and fails again at once goes again at once. */
export function deservesEjection({ consecutiveFailures }: EndpointFigures): boolean {
  return consecutiveFailures >= failuresToEject;
}

/** At most half of them: when most fail, the fault is elsewhere, and the others could not carry the load. */
export function mayEject(endpoints: number, alreadyOut: number): boolean {
  return alreadyOut + 1 <= endpoints / 2;
}

/**
 * Doubles each time, and up to half as much again at random, so that those that failed together do not return together.
 *
 * @param timesEjected before this one.
 * @param random 0 ≤ random < 1
 */
export function ejectionMs(timesEjected: number, random: number): number {
  return Math.min(firstEjectionMs * 2 ** timesEjected, longestEjectionMs) * (1 + random / 2);
}
