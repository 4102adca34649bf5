/**
 * Which compilers of V8 work when. Compilers take memory for their work, which the C library keeps, and for the code
 * that they make. Maglev stands between the baseline compiler and TurboFan: it makes a start faster, and a few seconds
 * of load later TurboFan has compiled the same functions again. Settings apply to all threads, at once.
 */
import { setFlagsFromString } from "node:v8";

/** Compiles nothing more with Maglev. A request takes as long, and a proxy under load some 20 MiB less. */
export function disableMaglev(): void {
  setFlagsFromString("--no-maglev");
}

/** The time after which TurboFan works also in a start that is not complete, such as one with a large configuration. */
const longStartMs = 2_000;

let longStart: NodeJS.Timeout | undefined;

/**
 * Compiles nothing with TurboFan until `resumeTurboFan`. For a program that computes little before its first request:
 * the functions of its start are hot for a moment, and not afterwards.
 *
 * @param maxStartMs TurboFan works again after this time, unless `completeStart` is called before.
 */
export function pauseTurboFan(maxStartMs = longStartMs): void {
  setFlagsFromString("--no-turbofan");
  longStart = setTimeout(resumeTurboFan, maxStartMs).unref();
}

/** From now on the time since `pauseTurboFan` changes nothing. */
export function completeStart(): void {
  clearTimeout(longStart);
}

/** Ends `pauseTurboFan`. */
export function resumeTurboFan(): void {
  clearTimeout(longStart);
  setFlagsFromString("--turbofan");
}
