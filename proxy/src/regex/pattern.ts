/**
 * Regular expressions of RE2's syntax, bounded in what they take to compile and to run. A pattern is judged by its text
 * first, so that one that is too large is never compiled; then by RE2. It is compiled when it is first needed, once per
 * thread, however many routes have it (docs/adr/0007).
 */
import { Automaton, type Anchoring } from "./automaton.ts";
import { patternSize } from "./pattern-size.ts";
import { compileProgram, syntaxError } from "./program.ts";
import type { WorkBudget } from "./work-budget.ts";

export { patternSize } from "./pattern-size.ts";

/** Largest size of one pattern, as `patternSize` counts it. A list of 15 UUIDs is about that large. */
export const maxPatternSize = 1_000;

/** Numbers that an automaton keeps of its states, for each unit of size; with a size of 1,000 some 500 KB. */
const cellsPerUnit = 64;
const fewestCells = 4_096;

/** A regular expression that runs within a budget. */
export interface Pattern {
  readonly size: number;
  /** Compiles it, where that has not been done yet. */
  readonly prepare: () => void;
  /** Throws `BudgetExceeded` where the answer costs more than `budget` has. */
  readonly test: (text: string, budget: WorkBudget) => boolean;
}

/** What is wrong with a pattern's size; undefined where it may be compiled. Linear in the text; never throws. */
export function sizeError(source: string): string | undefined {
  const size = patternSize(source);
  if (size <= maxPatternSize) return undefined;
  return `its program has a size of ${size}, accepted is at most ${maxPatternSize}; counted repetitions multiply`;
}

/** What is wrong with a pattern: its size, or what RE2 finds. Undefined where it is sound. Never throws. */
export function patternError(source: string): string | undefined {
  const judged = faults.get(source);
  if (judged !== undefined) return judged.fault;
  const fault = sizeError(source) ?? syntaxError(source);
  faults.set(source, { fault });
  return fault;
}

/**
 * A pattern to be run; compiled at its first use. One text is one pattern. Throws at that use what `patternError` finds,
 * so the pattern is to be judged before.
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
  const fault = sizeError(source);
  if (fault !== undefined) throw new Error(fault);
  return compileProgram(source);
}

/** Remembers what was made of the last texts; forgets all of them when they are too long together. */
class Memory<T> {
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

const faults = new Memory<{ readonly fault: string | undefined }>(1_000_000);

/** Patterns that routes hold stay theirs when they are forgotten here. */
const compiled: Readonly<Record<Anchoring, Memory<Pattern>>> = {
  whole: new Memory(1_000_000),
  part: new Memory(1_000_000),
};
