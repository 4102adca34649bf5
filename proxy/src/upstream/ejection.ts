/** Outlier detection: when a failing endpoint is ejected, and for how long. */

/** Consecutive failures. */
const failuresToEject = 5;
const firstEjectionMs = 10_000;
const longestEjectionMs = 300_000;

/** Whether to eject an endpoint. One that fails again right after its return is ejected again. */
export function deservesEjection(consecutiveFailures: number): boolean {
  return consecutiveFailures >= failuresToEject;
}

/** At most half are ejected: if most fail, the cause is elsewhere, and the others could not carry the load. */
export function mayEject(endpoints: number, alreadyOut: number): boolean {
  return alreadyOut + 1 <= endpoints / 2;
}

/**
 * Returns the time of an ejection. It doubles each time, with a random addition of up to half, so that endpoints that
 * failed together do not return together.
 *
 * @param timesEjected before this one.
 * @param random 0 ≤ random < 1
 */
export function ejectionMs(timesEjected: number, random: number): number {
  return Math.min(firstEjectionMs * 2 ** timesEjected, longestEjectionMs) * (1 + random / 2);
}
