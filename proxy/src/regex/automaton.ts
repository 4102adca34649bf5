/**
 * Runs a program over a text, as a deterministic automaton whose states are made when they are first met. A step to a
 * state that is known costs next to nothing, whatever the size of the program; making one costs as much as the program
 * has instructions, and is taken from the caller's budget. So the worst text costs no more than the budget.
 */
import { type Instruction, op, place, type Program } from "./program.ts";
import type { WorkBudget } from "./work-budget.ts";

/** Whether the whole text must match, or any part of it may. */
export type Anchoring = "whole" | "part";

interface State {
  /** Instructions that consume, assert or match, sorted. */
  readonly pending: readonly number[];
  /** What came last, as far as an assertion may ask for it. */
  readonly last: Last;
  /** By class of the next code point. */
  readonly next: (State | undefined)[];
  /** By the next code point, of those without a class. */
  wide: Map<number, State> | undefined;
  /** Whether the text may end here. */
  acceptsEnd: boolean | undefined;
}

type Last = "begin" | "newline" | "word" | "other";

/** Units that an instruction takes when a state is made. */
const unitsPerInstruction = 3;

/** Units that a new state takes beside its instructions. */
const unitsPerState = 64;

/** Units that a step to a known state takes. */
const unitsPerKnownStep = 1;

/** So many of them are charged together, so that a long text does not go far beyond the budget. */
const stepsPerCharge = 1_024;

const newline = 10;

/** Code points of a text that comes from a header have a class. */
const classified = 256;

export class Automaton {
  readonly #program: Program;
  readonly #anchoring: Anchoring;
  /** Numbers of all states together that are kept; beyond it they are forgotten and made again. */
  readonly #maxCells: number;
  readonly #asserts: boolean;
  readonly #classes: Uint16Array;
  readonly #classCount: number;
  readonly #states = new Map<string, State>();
  #cells = 0;
  /** Of the closure that is being made: instruction → number of that closure. */
  readonly #seen: Uint32Array;
  #closure = 0;
  /** Ends every search for a part. */
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

  /** Throws `BudgetExceeded` where the answer costs more than `budget` has. */
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
    state.acceptsEnd ??= this.#closes(state, budget);
    return state.acceptsEnd;
  }

  #begin(budget: WorkBudget): State {
    const pending: number[] = [];
    this.#beginClosure();
    this.#add(this.#program.start, 0, pending, budget);
    return this.#stateOf(pending, "begin", budget);
  }

  #closes({ pending, last }: State, budget: WorkBudget): boolean {
    return this.#settle(pending, placeBetween(last, undefined), budget).some((pc) => this.#at(pc).op === op.match);
  }

  #step(state: State, rune: number, budget: WorkBudget): State {
    const known = rune < classified ? undefined : state.wide?.get(rune);
    if (known !== undefined) {
      budget.spend(unitsPerInstruction);
      return known;
    }
    const made = this.#make(state, rune, budget);
    if (rune < classified) state.next[this.#classes[rune] ?? 0] = made;
    else {
      state.wide ??= new Map();
      state.wide.set(rune, made);
      this.#keep(4);
    }
    return made;
  }

  #make({ pending, last }: State, rune: number, budget: WorkBudget): State {
    const settled = this.#asserts ? this.#settle(pending, placeBetween(last, rune), budget) : pending;
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

  /** What is left of `pending` when all assertions that hold here have been passed. */
  #settle(pending: readonly number[], conditions: number, budget: WorkBudget): readonly number[] {
    if (!this.#asserts) return pending;
    const settled: number[] = [];
    this.#beginClosure();
    for (const pc of pending) this.#add(pc, conditions, settled, budget);
    return settled;
  }

  #beginClosure(): void {
    this.#closure += 1;
  }

  /** Adds to `found` what is reached from `from` without consuming anything. */
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
    this.#keep(2 * pending.length + this.#classCount + 16);
    const next = new Array<State | undefined>(this.#classCount).fill(undefined);
    const state: State = { pending, last, next, wide: undefined, acceptsEnd: undefined };
    this.#states.set(key, state);
    return state;
  }

  /** Forgets all states where they are too many; those in use go on and lead to new ones. */
  #keep(cells: number): void {
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

/** Groups the first code points by what the program can tell apart. */
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
    if (isPlain && only !== undefined) letters.add(only);
    else if (!seen.has(instruction.runes)) {
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

/** The same groups, numbered from 0 without gaps. */
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

/** The conditions that hold between what came last and `next`; undefined is the end of the text. */
function placeBetween(last: Last, next: number | undefined): number {
  let conditions = 0;
  if (last === "begin") conditions |= place.beginText | place.beginLine;
  if (last === "newline") conditions |= place.beginLine;
  if (next === undefined) conditions |= place.endText | place.endLine;
  if (next === newline) conditions |= place.endLine;
  const isBoundary = (last === "word") !== (next !== undefined && isWord(next));
  return conditions | (isBoundary ? place.wordBoundary : place.noWordBoundary);
}
