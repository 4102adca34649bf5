/** Compiles regular expressions by re2js. Only this file depends on the structure of re2js' programs. */
import { RE2Set } from "re2js";

/** One step of a program. `matchRune` decides which code points it consumes. */
export interface Instruction {
  readonly op: number;
  /** The index of the next instruction. */
  readonly out: number;
  /** The other branch of an `alternative`; the conditions of an `assertion`. */
  readonly arg: number;
  /** Ranges of code points as pairs of first and last; or one code point. Equal classes share the array. */
  readonly runes: ArrayLike<number>;
  matchRune(rune: number): boolean;
}

/** A compiled pattern; instructions refer to each other by index. `start` is the index of the first one to run. */
export interface Program {
  readonly start: number;
  /** The first instruction is `fail`. */
  readonly instructions: readonly Instruction[];
}

/** Values of `Instruction.op`. Those from `rune` to `anyButNewline` consume a code point. */
export const op = {
  alternative: 1,
  alternativeMatch: 2,
  capture: 3,
  assertion: 4,
  fail: 5,
  match: 6,
  nop: 7,
  rune: 8,
  anyButNewline: 11,
} as const;

/** Conditions on the position between two code points. `Instruction.arg` of an assertion is a combination of them. */
export const emptyWidth = {
  beginLine: 1,
  endLine: 2,
  beginText: 4,
  endText: 8,
  wordBoundary: 16,
  noWordBoundary: 32,
} as const;

/** Returns the syntax error of a pattern, or undefined if RE2 accepts it. Does not compile a program. Never throws. */
export function syntaxError(source: string): string | undefined {
  try {
    new RE2Set().add(source);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : "unknown error";
  }
}

/**
 * Throws RE2's syntax error. Uses a set of one pattern: `RE2JS.compile` adds analyses that have no use here.
 */
export function compileProgram(source: string): Program {
  const set = new RE2Set();
  set.add(source);
  set.compile();
  const { start, inst } = set.prog;
  // re2js declares the instructions as any.
  return { start, instructions: inst as readonly Instruction[] };
}
