/**
 * Which compilers of V8 work when. Compilers take memory for their work, which the C library keeps, and for the code
 * that they make. Sparkplug, the baseline compiler, translates the bytecode of a function as it is. Maglev stands
 * between it and TurboFan: it makes a start faster, and a few seconds of load later TurboFan has compiled the same
 * functions again. Settings apply to all threads, at once.
 */
import { setFlagsFromString } from "node:v8";

/** Compiles nothing more with Maglev. A request takes as long, and a proxy under load some 20 MiB less. */
export function disableMaglev(): void {
  setFlagsFromString("--no-maglev");
}

/** The time after which compilers work in a start that is not complete, such as one with a large configuration. */
const longStartMs = 2_000;

let longStart: NodeJS.Timeout | undefined;

/**
 * Compiles nothing with Sparkplug and TurboFan until `resumeCompilers`. For a program that computes little before its
 * first request: the functions of its start are hot for a moment, and not afterwards.
 *
 * @param maxStartMs the compilers work again after this time, unless `completeStart` is called before
 */
export function pauseCompilers(maxStartMs = longStartMs): void {
  setFlagsFromString("--no-sparkplug");
  setFlagsFromString("--no-turbofan");
  longStart = setTimeout(resumeCompilers, maxStartMs).unref();
}

/** From now on the time since `pauseCompilers` changes nothing. */
export function completeStart(): void {
  clearTimeout(longStart);
}

/** Ends `pauseCompilers`. */
export function resumeCompilers(): void {
  clearTimeout(longStart);
  setFlagsFromString("--sparkplug");
  setFlagsFromString("--turbofan");
}
