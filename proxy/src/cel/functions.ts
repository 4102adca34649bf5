/**
 * CEL functions that replace functions of the library. Most give the same results: those of the library are too slow
 * for texts that a client chooses, where `replace` copies the text at each occurrence, `size` makes a list of the
 * characters, and a macro builds its list as a chain of lists with one element each. Conversions of texts to numbers
 * accept what CEL does: those of the library read an empty text as 0, so that an empty header would be a cost or a
 * limit of 0.
 */
import {
  type CelFunc,
  celFunc,
  type CelList,
  celList,
  celMethod,
  CelScalar,
  type CelUint,
  celUint,
  type CelValue,
  listType,
} from "@bufbuild/cel";
import { patternError, patternFor, patternSize } from "../regex/pattern.ts";
import { evaluationBudget } from "./cost.ts";

const { BOOL, DOUBLE, INT, UINT, STRING, DYN } = CelScalar;
const list = listType(DYN);

/** The elements of the lists that `concat` created. */
const elements = new WeakMap<CelList, readonly CelValue[]>();

function elementsOf(value: CelList): readonly CelValue[] {
  return elements.get(value) ?? Array.from(value);
}

function concat(left: CelList, right: CelList): CelList {
  const all = elementsOf(left).concat(elementsOf(right));
  const result = celList(all);
  elements.set(result, all);
  return result;
}

/** The size of a text in characters: a surrogate pair is one character. */
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
  const maxReplacements = limit === undefined ? this.length : Number(limit);
  const positions: number[] = [];
  if (part === "") {
    const times = by === "" ? 0 : Math.max(0, maxReplacements);
    spendOn(this.length + times * by.length);
    return by.repeat(times) + this;
  }
  for (
    let at = this.indexOf(part);
    at !== -1 && positions.length < maxReplacements;
    at = this.indexOf(part, at + part.length)
  ) {
    positions.push(at);
  }
  spendOn(this.length + positions.length * (by.length + 16));
  let text = "";
  let end = 0;
  for (const at of positions) {
    text += this.slice(end, at) + by;
    end = at + part.length;
  }
  return text + this.slice(end);
}

function join(this: CelList, separator = ""): string {
  const all = elementsOf(this);
  spendOn(all.length * separator.length);
  if (!all.every((element) => typeof element === "string")) {
    throw new Error("invalid argument to function join: list contains non-string value");
  }
  return all.join(separator);
}

/** Charges for a result that may be longer than the operands. Called before the result is created. */
function spendOn(length: number): void {
  evaluationBudget.spend(length / 4);
}

/** Units per unit of pattern size to compile a pattern that is computed during the evaluation. */
const compileUnits = 400;

function matches(this: string, source: string): boolean {
  evaluationBudget.spend(compileUnits * patternSize(source));
  const error = patternError(source);
  if (error !== undefined) throw new Error(error);
  return matchesConstant.call(this, source);
}

/** Matches a constant pattern, which was validated with the expression and is compiled once. */
function matchesConstant(this: string, source: string): boolean {
  return patternFor(source, "part").test(this, evaluationBudget);
}

/** A 64-bit integer has at most 20 characters. */
const integerPattern = /^[+-]?\d{1,20}$/;
const decimalPattern = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;
const specialNumbers: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  "+Infinity": Number.POSITIVE_INFINITY,
  "-Infinity": Number.NEGATIVE_INFINITY,
};
const maxNumberLength = 400;

function integerOf(text: string, min: bigint, max: bigint): bigint {
  if (!integerPattern.test(text)) throw new Error("no integer");
  const value = BigInt(text.replace("+", ""));
  if (value < min || value > max) throw new Error("integer out of range");
  return value;
}

function intOfText(text: string): bigint {
  return integerOf(text, -(2n ** 63n), 2n ** 63n - 1n);
}

function uintOfText(text: string): CelUint {
  return celUint(integerOf(text, 0n, 2n ** 64n - 1n));
}

function doubleOfText(text: string): number {
  const special = Object.hasOwn(specialNumbers, text) ? specialNumbers[text] : undefined;
  if (special !== undefined) return special;
  if (text.length > maxNumberLength || !decimalPattern.test(text)) throw new Error("no number");
  return Number(text);
}

/** Names of functions that only `instrument.ts` inserts. */
export const internal = { matches: "@matches", iterate: "@iterate", step: "@step", indexed: "@indexed" } as const;

/** The replacements, and the functions in `internal`, which only `instrument.ts` inserts. */
export const functions: readonly CelFunc[] = [
  celFunc("_+_", [list, list], list, concat),
  celFunc("int", [STRING], INT, intOfText),
  celFunc("uint", [STRING], UINT, uintOfText),
  celFunc("double", [STRING], DOUBLE, doubleOfText),
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
