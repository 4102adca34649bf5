/** Regular expressions as RE2 compiles them: the only file that knows the form of re2js' programs. */
import { RE2Set } from "re2js";

/** One step of a program. What it consumes is told by `matchRune`. */
export interface Instruction {
  readonly op: number;
  /** Where to go on. */
  readonly out: number;
  /** The other way of an `alternative`; the conditions of an `assertion`. */
  readonly arg: number;
  /** Ranges of code points, the ends in turn; or one code point. Shared between equal classes. */
  readonly runes: ArrayLike<number>;
  matchRune(rune: number): boolean;
}

export interface Program {
  readonly start: number;
  /** The first fails. */
  readonly instructions: readonly Instruction[];
}

/** Of `Instruction.op`; those from `rune` to `anyButNewline` consume a code point. */
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

/** Conditions on a place between two code points, as `Instruction.arg` of an assertion combines them. */
export const place = {
  beginLine: 1,
  endLine: 2,
  beginText: 4,
  endText: 8,
  wordBoundary: 16,
  noWordBoundary: 32,
} as const;

/** Why RE2 does not take a pattern; undefined where it does. Costs less than to compile it. Never throws. */
export function syntaxError(source: string): string | undefined {
  try {
    new RE2Set().add(source);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : "unknown fault";
  }
}

/** Throws what RE2 finds wrong. A set of one: `RE2JS.compile` adds analyses that are of no use here and cost more. */
export function compileProgram(source: string): Program {
  const set = new RE2Set();
  set.add(source);
  set.compile();
  const { start, inst } = set.prog;
  // re2js declares the instructions as any.
  return { start, instructions: inst as readonly Instruction[] };
}
