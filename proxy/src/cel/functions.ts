/**
 * Functions of CEL in the place of the library's, which are too slow for texts that a client chooses: `replace` copies
 * the text at each occurrence, `size` makes a list of the characters, and a list that a macro makes is a chain of lists
 * of one. They give what the library's give.
 */
import {
  type CelFunc,
  celFunc,
  type CelList,
  celList,
  celMethod,
  CelScalar,
  type CelValue,
  listType,
} from "@bufbuild/cel";
import { patternError, patternFor, patternSize } from "../regex/pattern.ts";
import { evaluationBudget } from "./cost.ts";

const { BOOL, INT, STRING, DYN } = CelScalar;
const list = listType(DYN);

/** Elements of the lists that `concat` has made. */
const elements = new WeakMap<CelList, readonly CelValue[]>();

function elementsOf(value: CelList): readonly CelValue[] {
  return elements.get(value) ?? Array.from(value);
}

function concat(left: CelList, right: CelList): CelList {
  const all = elementsOf(left).concat(elementsOf(right));
  const made = celList(all);
  elements.set(made, all);
  return made;
}

/** In characters: a pair of surrogates is one. */
function sizeOfText(text: string): bigint {
  let size = text.length;
  for (let at = 1; at < text.length; at += 1) {
    if ((text.charCodeAt(at) & 0xfc00) !== 0xdc00 || (text.charCodeAt(at - 1) & 0xfc00) !== 0xd800) continue;
    size -= 1;
    at += 1;
  }
  return BigInt(size);
}

function replace(this: string, part: string, by: string, limit?: bigint): string {
  const most = limit === undefined ? this.length : Number(limit);
  const places: number[] = [];
  if (part === "") {
    const times = by === "" ? 0 : Math.max(0, most);
    spendOn(this.length + times * by.length);
    return by.repeat(times) + this;
  }
  for (let at = this.indexOf(part); at !== -1 && places.length < most; at = this.indexOf(part, at + part.length)) {
    places.push(at);
  }
  spendOn(this.length + places.length * (by.length + 16));
  let text = "";
  let end = 0;
  for (const at of places) {
    text += this.slice(end, at) + by;
    end = at + part.length;
  }
  return text + this.slice(end);
}

function join(this: CelList, separator = ""): string {
  const all = elementsOf(this);
  spendOn(all.length * separator.length);
  if (!all.every((each) => typeof each === "string")) {
    throw new Error("invalid argument to function join: list contains non-string value");
  }
  return all.join(separator);
}

/** Before a text is made that is longer than what it is made of. */
function spendOn(length: number): void {
  evaluationBudget.spend(length / 4);
}

/** Units for each unit of size of a pattern that an expression makes while it is evaluated. */
const unitsOfCompiling = 400;

function matches(this: string, source: string): boolean {
  evaluationBudget.spend(unitsOfCompiling * patternSize(source));
  const fault = patternError(source);
  if (fault !== undefined) throw new Error(fault);
  return matchesConstant.call(this, source);
}

/** By a pattern that was judged with the expression, and is compiled once. */
function matchesConstant(this: string, source: string): boolean {
  return patternFor(source, "part").test(this, evaluationBudget);
}

/** Names of functions that only `instrument.ts` calls. */
export const internal = { matches: "@matches", iterate: "@iterate", step: "@step", indexed: "@indexed" } as const;

export const functions: readonly CelFunc[] = [
  celFunc("_+_", [list, list], list, concat),
  celFunc("size", [STRING], INT, sizeOfText),
  celMethod("size", STRING, [], INT, function () {
    return sizeOfText(this);
  }),
  celMethod("replace", STRING, [STRING, STRING], STRING, replace),
  celMethod("replace", STRING, [STRING, STRING, INT], STRING, replace),
  celMethod("join", list, [], STRING, join),
  celMethod("join", list, [STRING], STRING, join),
  celMethod("matches", STRING, [STRING], BOOL, matches),
  celMethod(internal.matches, STRING, [STRING], BOOL, matchesConstant),
  celFunc(internal.iterate, [DYN], DYN, (range) => range),
  celFunc(internal.step, [DYN, INT], DYN, (condition) => condition),
  celFunc(internal.indexed, [DYN], DYN, (operand) => operand),
];
