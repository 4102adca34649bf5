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

/**
 * Compiles nothing with TurboFan until `resumeTurboFan`. For a start, whose functions are hot for a moment, and not
 * afterwards.
 */
export function pauseTurboFan(): void {
  setFlagsFromString("--no-turbofan");
}

/** Ends `pauseTurboFan`. */
export function resumeTurboFan(): void {
  setFlagsFromString("--turbofan");
}
