/**
 * Runs a program over a text as a deterministic automaton with lazily built states. A step to a known state has a
 * small constant cost. A new state costs as many units as the program has instructions. Both are charged to the budget
 * of the caller, so that no text costs more than the budget.
 */
import { type Instruction, op, emptyWidth, type Program } from "./program.ts";
import type { WorkBudget } from "./work-budget.ts";

/** Whether the pattern must match the whole text or any part of it. */
export type Anchoring = "whole" | "part";

interface State {
  /** The instructions at this state that consume, assert or match, sorted. */
  readonly pending: readonly number[];
  /** The kind of the preceding code point, which assertions test. */
  readonly last: Last;
  /** The next state by the class of the next code point. */
  readonly next: (State | undefined)[];
  /** The next state by the next code point, for code points without a class. */
  wide: Map<number, State> | undefined;
  /** Whether the pattern matches if the text ends here; undefined until computed. */
  acceptsEnd: boolean | undefined;
}

type Last = "begin" | "newline" | "word" | "other";

/** Units for each instruction when a state is built. */
const unitsPerInstruction = 3;

/** Units for a new state besides its instructions. */
const unitsPerState = 64;

/** Units for a step to a known state. */
const unitsPerKnownStep = 1;

/** The number of steps charged together. Bounds how far a long text exceeds the budget. */
const stepsPerCharge = 1_024;

const newline = 10;

/** Code points below this have a class: all that occur in header values, which are Latin-1. */
const classified = 256;

/** The automaton of one program. Its states are kept between texts, up to a maximum size. */
export class Automaton {
  readonly #program: Program;
  readonly #anchoring: Anchoring;
  /** The maximum size of all states together, in numbers. When it is exceeded, all states are discarded. */
  readonly #maxCells: number;
  readonly #asserts: boolean;
  readonly #classes: Uint16Array;
  readonly #classCount: number;
  readonly #states = new Map<string, State>();
  #cells = 0;
  /** For each instruction, the number of the last closure that contains it. */
  readonly #seen: Uint32Array;
  #closure = 0;
  /** The final state of a search for a part. */
  readonly #found: State = { pending: [], last: "other", next: [], wide: undefined, acceptsEnd: true };

  constructor(program: Program, anchoring: Anchoring, maxCells: number) {
    this.#program = program;
    this.#anchoring = anchoring;
    this.#maxCells = maxCells;
    this.#asserts = program.instructions.some((instruction) => instruction.op === op.assertion);
    this.#classes = classesOf(program.instructions, this.#asserts);
    this.#classCount = Math.max(...this.#classes) + 1;
    this.#seen = new Uint32Array(program.instructions.length);
  }

  /** Whether the text matches. Throws `BudgetExceeded` if this costs more than the rest of `budget`. */
  test(text: string, budget: WorkBudget): boolean {
    let state = this.#begin(budget);
    let at = 0;
    let charged = 0;
    while (at < text.length) {
      const code = text.charCodeAt(at);
      const known = code < classified ? state.next[this.#classes[code] ?? 0] : undefined;
      if (known !== undefined) {
        state = known;
        at += 1;
        if (at - charged === stepsPerCharge) {
          budget.spend(stepsPerCharge * unitsPerKnownStep);
          charged = at;
        }
      } else {
        budget.spend((at - charged) * unitsPerKnownStep);
        charged = at;
        const rune = code < 0xd800 || code > 0xdbff ? code : (text.codePointAt(at) ?? code);
        state = this.#step(state, rune, budget);
        at += rune > 0xffff ? 2 : 1;
      }
      if (state === this.#found) return true;
      if (state.pending.length === 0) break;
    }
    budget.spend((at - charged) * unitsPerKnownStep);
    if (state.pending.length === 0) return false;
    state.acceptsEnd ??= this.#matchesAtEnd(state, budget);
    return state.acceptsEnd;
  }

  #begin(budget: WorkBudget): State {
    const pending: number[] = [];
    this.#beginClosure();
    this.#add(this.#program.start, 0, pending, budget);
    return this.#stateOf(pending, "begin", budget);
  }

  #matchesAtEnd({ pending, last }: State, budget: WorkBudget): boolean {
    return this.#passAssertions(pending, conditionsBetween(last, undefined), budget).some(
      (pc) => this.#at(pc).op === op.match,
    );
  }

  #step(state: State, rune: number, budget: WorkBudget): State {
    const known = rune < classified ? undefined : state.wide?.get(rune);
    if (known !== undefined) {
      budget.spend(unitsPerInstruction);
      return known;
    }
    const made = this.#nextState(state, rune, budget);
    if (rune < classified) {
      state.next[this.#classes[rune] ?? 0] = made;
    } else {
      state.wide ??= new Map();
      state.wide.set(rune, made);
      this.#countCells(4);
    }
    return made;
  }

  #nextState({ pending, last }: State, rune: number, budget: WorkBudget): State {
    const settled = this.#asserts ? this.#passAssertions(pending, conditionsBetween(last, rune), budget) : pending;
    budget.spend(settled.length * unitsPerInstruction);
    const isPart = this.#anchoring === "part";
    if (isPart && settled.some((pc) => this.#at(pc).op === op.match)) return this.#found;
    const next: number[] = [];
    this.#beginClosure();
    for (const pc of settled) {
      const instruction = this.#at(pc);
      if (consumes(instruction) && instruction.matchRune(rune)) this.#add(instruction.out, 0, next, budget);
    }
    if (isPart) this.#add(this.#program.start, 0, next, budget);
    return this.#stateOf(next, this.#asserts ? kindOf(rune) : "other", budget);
  }

  /** The instructions reached from `pending` through the assertions that hold under `conditions`. */
  #passAssertions(pending: readonly number[], conditions: number, budget: WorkBudget): readonly number[] {
    if (!this.#asserts) return pending;
    const settled: number[] = [];
    this.#beginClosure();
    for (const pc of pending) this.#add(pc, conditions, settled, budget);
    return settled;
  }

  #beginClosure(): void {
    this.#closure += 1;
  }

  /** Adds to `found` the instructions that are reached from `from` without consuming a code point. */
  #add(from: number, conditions: number, found: number[], budget: WorkBudget): void {
    const open = [from];
    for (let pc = open.pop(); pc !== undefined; pc = open.pop()) {
      if (this.#seen[pc] === this.#closure) continue;
      this.#seen[pc] = this.#closure;
      budget.spend(unitsPerInstruction);
      const instruction = this.#at(pc);
      switch (instruction.op) {
        case op.alternative:
        case op.alternativeMatch:
          open.push(instruction.out, instruction.arg);
          break;
        case op.capture:
        case op.nop:
          open.push(instruction.out);
          break;
        case op.assertion:
          if ((instruction.arg & ~conditions) === 0) open.push(instruction.out);
          else found.push(pc);
          break;
        case op.fail:
          break;
        default:
          found.push(pc);
      }
    }
  }

  #stateOf(pending: number[], last: Last, budget: WorkBudget): State {
    pending.sort((a, b) => a - b);
    budget.spend(pending.length * unitsPerInstruction);
    const key = `${last} ${pending.join(" ")}`;
    const known = this.#states.get(key);
    if (known !== undefined) return known;
    budget.spend(unitsPerState + (this.#classCount >> 2));
    this.#countCells(2 * pending.length + this.#classCount + 16);
    const next = new Array<State | undefined>(this.#classCount).fill(undefined);
    const state: State = { pending, last, next, wide: undefined, acceptsEnd: undefined };
    this.#states.set(key, state);
    return state;
  }

  /** Adds to the size of the states. Discards all states beyond the maximum; the one in use then leads to new ones. */
  #countCells(cells: number): void {
    this.#cells += cells;
    if (this.#cells <= this.#maxCells) return;
    for (const state of this.#states.values()) {
      state.next.fill(undefined);
      state.wide = undefined;
    }
    this.#states.clear();
    this.#cells = cells;
  }

  #at(pc: number): Instruction {
    const instruction = this.#program.instructions[pc];
    if (instruction === undefined) throw new Error(`the program has no instruction ${pc}`);
    return instruction;
  }
}

function consumes({ op: kind }: Instruction): boolean {
  return kind >= op.rune && kind <= op.anyButNewline;
}

/** Assigns the first code points to classes: code points of one class are equivalent for the program. */
function classesOf(instructions: readonly Instruction[], asserts: boolean): Uint16Array {
  const classes = new Uint16Array(classified);
  let count = 1;
  const split = (contains: (code: number) => boolean): void => {
    const renamed = new Map<number, number>();
    for (let code = 0; code < classified; code += 1) {
      if (!contains(code)) continue;
      const before = classes[code] ?? 0;
      const after = renamed.get(before) ?? count++;
      renamed.set(before, after);
      classes[code] = after;
    }
  };
  const seen = new Set<ArrayLike<number>>();
  const letters = new Set<number>();
  for (const instruction of instructions) {
    if (!consumes(instruction)) continue;
    const [only] = [instruction.runes[0]];
    const isPlain = instruction.runes.length === 1 && (instruction.arg & 1) === 0;
    if (isPlain && only !== undefined) {
      letters.add(only);
    } else if (!seen.has(instruction.runes)) {
      seen.add(instruction.runes);
      split((code) => instruction.matchRune(code));
    }
  }
  for (const letter of letters) if (letter < classified) classes[letter] = count++;
  if (asserts) {
    split((code) => code === newline);
    split(isWord);
  }
  return renumbered(classes);
}

/** The same classes, numbered from 0 without gaps. */
function renumbered(classes: Uint16Array): Uint16Array {
  const numbers = new Map<number, number>();
  return classes.map((each) => {
    const number = numbers.get(each) ?? numbers.size;
    numbers.set(each, number);
    return number;
  });
}

function isWord(code: number): boolean {
  return (code >= 48 && code <= 57) || (code >= 65 && code <= 90) || code === 95 || (code >= 97 && code <= 122);
}

function kindOf(rune: number): Last {
  if (rune === newline) return "newline";
  return isWord(rune) ? "word" : "other";
}

/** The empty-width conditions between the last code point and `next`; undefined is the end of the text. */
function conditionsBetween(last: Last, next: number | undefined): number {
  let conditions = 0;
  if (last === "begin") conditions |= emptyWidth.beginText | emptyWidth.beginLine;
  if (last === "newline") conditions |= emptyWidth.beginLine;
  if (next === undefined) conditions |= emptyWidth.endText | emptyWidth.endLine;
  if (next === newline) conditions |= emptyWidth.endLine;
  const isBoundary = (last === "word") !== (next !== undefined && isWord(next));
  return conditions | (isBoundary ? emptyWidth.wordBoundary : emptyWidth.noWordBoundary);
}
