/**
 * Regular expressions in RE2's syntax with bounded costs to compile and to run. A pattern is first checked for its
 * size, computed from its text, so that one that is too large is never compiled. Then RE2 checks the syntax. A pattern
 * is compiled at its first use, once per thread, for all routes that contain it (docs/adr/0007).
 */
import { Automaton, type Anchoring } from "./automaton.ts";
import { patternSize } from "./pattern-size.ts";
import { compileProgram, syntaxError } from "./program.ts";
import type { WorkBudget } from "./work-budget.ts";

export { patternSize } from "./pattern-size.ts";

/** The maximum size of a pattern as computed by `patternSize`. A list of 15 UUIDs has about this size. */
export const maxPatternSize = 1_000;

/**
 * The numbers that an automaton stores for its states, per unit of size. A pattern of size 1,000 takes about 500 KB.
 */
const cellsPerUnit = 64;
const fewestCells = 4_096;

/** A regular expression that runs within a budget. */
export interface Pattern {
  readonly size: number;
  /** Compiles the pattern unless it is compiled already. */
  readonly prepare: () => void;
  /** Whether the text matches. Throws `BudgetExceeded` if this costs more than the rest of `budget`. */
  readonly test: (text: string, budget: WorkBudget) => boolean;
}

/** Returns an error if the pattern is too large to compile, else undefined. Linear in the text; never throws. */
export function sizeError(source: string): string | undefined {
  const size = patternSize(source);
  if (size <= maxPatternSize) return undefined;
  return `its program has a size of ${size}, accepted is at most ${maxPatternSize}; counted repetitions multiply`;
}

/** Returns the error of a pattern, by its size or from RE2; undefined if it is valid. Never throws. */
export function patternError(source: string): string | undefined {
  const known = patternErrors.get(source);
  if (known !== undefined) return known.error;
  const error = sizeError(source) ?? syntaxError(source);
  patternErrors.set(source, { error });
  return error;
}

/**
 * Returns the pattern for a text, always the same one. The pattern is compiled at its first use, which throws the
 * error that `patternError` returns. Therefore callers validate the text first.
 */
export function patternFor(source: string, anchoring: Anchoring): Pattern {
  const patterns = compiled[anchoring];
  const known = patterns.get(source);
  if (known !== undefined) return known;
  const size = patternSize(source);
  let automaton: Automaton | undefined;
  const prepared = (): Automaton => {
    automaton ??= new Automaton(programOf(source), anchoring, Math.max(fewestCells, cellsPerUnit * size));
    return automaton;
  };
  const pattern: Pattern = {
    size,
    prepare: () => void prepared(),
    test: (text, budget) => prepared().test(text, budget),
  };
  patterns.set(source, pattern);
  return pattern;
}

function programOf(source: string) {
  const error = sizeError(source);
  if (error !== undefined) throw new Error(error);
  return compileProgram(source);
}

/** A cache by text. It is cleared when its texts together exceed the maximum length. */
class BoundedCache<T> {
  readonly #values = new Map<string, T>();
  readonly #maxChars: number;
  #chars = 0;

  constructor(maxChars: number) {
    this.#maxChars = maxChars;
  }

  get(text: string): T | undefined {
    return this.#values.get(text);
  }

  set(text: string, value: T): void {
    this.#chars += text.length + 64;
    if (this.#chars > this.#maxChars) {
      this.#values.clear();
      this.#chars = text.length + 64;
    }
    this.#values.set(text, value);
  }
}

const patternErrors = new BoundedCache<{ readonly error: string | undefined }>(1_000_000);

/** Compiled patterns. Routes hold references of their own, so clearing the cache does not affect them. */
const compiled: Readonly<Record<Anchoring, BoundedCache<Pattern>>> = {
  whole: new BoundedCache(1_000_000),
  part: new BoundedCache(1_000_000),
};
