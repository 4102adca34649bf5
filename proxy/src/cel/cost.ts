/**
 * What evaluating an expression costs, in the units of `regex/work-budget.ts`. Every function of CEL is charged before it
 * runs, by the sizes of what it is given, and after it by what it gives; so are the rounds of a macro and what is read of
 * the request. So no expression, over any request, costs more than the budget of one evaluation.
 */
import {
  type CelEnv,
  type CelFunc,
  type CelResult,
  type CelValue,
  isCelError,
  isCelList,
  isCelMap,
} from "@bufbuild/cel";
import { WorkBudget } from "../regex/work-budget.ts";
import type { RequestView } from "./request-view.ts";
import { headerOf, type Variable } from "./variables.ts";

/** Of the evaluation that is under way: an evaluation begins and ends without a pause. */
export const evaluationBudget = new WorkBudget(0);

/** For each node of the syntax tree that one evaluation, or one round of a macro, may visit. */
export const unitsPerNode = 10;

/** For the record of what went wrong. */
const unitsPerError = 300;

type Operands = readonly (CelValue | undefined)[];

/**
 * The functions of `env`, each of which charges the budget of the evaluation. One that goes beyond it throws
 * `BudgetExceeded` through the evaluator, which would turn what a function itself throws into a value.
 */
export function metered(env: CelEnv): CelEnv {
  const funcs = Object.create(env.funcs, { find: { value: findMetered } }) as CelEnv["funcs"];
  const groups = new Map<string, FuncGroup>();

  function findMetered(name: string): FuncGroup | undefined {
    const known = groups.get(name);
    if (known !== undefined) return known;
    const group = env.funcs.find(name);
    if (group === undefined) return undefined;
    const made = meteredGroup(group, costs[name] ?? linear);
    groups.set(name, made);
    return made;
  }
  return Object.create(env, { funcs: { value: funcs } }) as CelEnv;
}

type FuncGroup = NonNullable<ReturnType<CelEnv["funcs"]["find"]>>;

function meteredGroup(group: FuncGroup, cost: (operands: Operands) => number): FuncGroup {
  const call: CelFunc["call"] = (id, target, args) => {
    evaluationBudget.spend(cost([target, ...args]));
    const result = group.call(id, target, args);
    if (evaluationBudget.isExceeded) evaluationBudget.spend(0);
    if (result !== undefined) evaluationBudget.spend(costOfResult(result));
    return result;
  };
  return Object.create(group, { call: { value: call } }) as FuncGroup;
}

function costOfResult(result: CelResult): number {
  if (isCelError(result)) return unitsPerError;
  if (isCelList(result)) return 2 * result.size;
  return lengthOf(result) / 8;
}

/** A function that reads what it is given once, as fast as memory. */
function linear(operands: Operands): number {
  return 10 + sum(operands, lengthOf) / 4;
}

/** The others, by name. */
const costs: Readonly<Record<string, (operands: Operands) => number>> = {
  "_==_": compared,
  "_!=_": compared,
  "@in": compared,
  "_+_": ([, a, b]) => 10 + (lengthOf(a) + lengthOf(b)) / 8 + 20 + sizeOf(a) + sizeOf(b),
  size: linear,
  contains: searched,
  indexOf: searched,
  lastIndexOf: ([text, part]) => 10 + (lengthOf(text) * (1 + lengthOf(part))) / 2,
  split: (operands) => searched(operands) + 6 * lengthOf(operands[0]),
  replace: (operands) => 3 * searched(operands) + sum(operands, lengthOf),
  join: ([list]) => 10 + (list === undefined ? 0 : extent(list, 4)),
  lowerAscii: spelled,
  upperAscii: spelled,
  "strings.quote": spelled,
  trim: spelled,
  format: (operands) => formatted(operands),
  matches: matched,
  "@matches": matched,
  // A list is copied before its first round. A text is passed through, and refused by the macro.
  "@iterate": ([, range]) => 10 + 5 * sizeOf(range) + lengthOf(range) / 8,
  "@step": ([, , nodes]) => unitsPerNode * Number(nodes),
  // A key that is a number is looked for among all keys, and one that is not there is an error.
  "@indexed": ([, operand]) => 80 + sizeOf(operand),
  int: parsedNumber,
  uint: parsedNumber,
  double: parsedNumber,
  string: (operands) => 20 + 4 * sum(operands, lengthOf),
  bytes: (operands) => 20 + 4 * sum(operands, lengthOf),
  timestamp: (operands) => 500 + 4 * sum(operands, lengthOf),
  duration: (operands) => 200 + 20 * sum(operands, lengthOf),
  ...Object.fromEntries(
    [
      "FullYear",
      "Month",
      "Date",
      "DayOfMonth",
      "DayOfWeek",
      "DayOfYear",
      "Hours",
      "Minutes",
      "Seconds",
      "Milliseconds",
    ].map(
      // With a time zone the calendar of that zone is loaded each time.
      (part) => [`get${part}`, ([, zone]: Operands) => (zone === undefined ? 300 : 20_000)],
    ),
  ),
};

/** Running the pattern is charged as it goes. */
function matched([text]: Operands): number {
  return 20 + lengthOf(text) / 8;
}

/** Values are compared to their depth. */
function compared(operands: Operands): number {
  return operands.reduce<number>((units, each) => units + (each === undefined ? 0 : extent(each, 1)), 10);
}

/** Two long texts may nearly match everywhere. */
function searched([text, part]: Operands): number {
  return 10 + (lengthOf(text) / 4) * (1 + lengthOf(part) / 32);
}

/** Functions that look at each character. */
function spelled(operands: Operands): number {
  return 10 + 3 * sum(operands, lengthOf);
}

/** The time that it takes to read digits grows with the square of their number. */
function parsedNumber(operands: Operands): number {
  const length = sum(operands, lengthOf);
  return 20 + 4 * length + (length * length) / 64;
}

/** A fixed number of decimals loads the rules of a language each time. */
function formatted([template, values]: Operands): number {
  const text = typeof template === "string" ? template : "";
  const decimals = text.match(/%(?:\.\d+)?f/g)?.length ?? 0;
  return 50 + 4 * text.length + 15_000 * decimals + (values === undefined ? 0 : extent(values, 8));
}

function sum(operands: Operands, measure: (value: CelValue | undefined) => number): number {
  let total = 0;
  for (const operand of operands) total += measure(operand);
  return total;
}

/** Of a text or of bytes; 0 for anything else. */
function lengthOf(value: CelResult | undefined): number {
  return typeof value === "string" || value instanceof Uint8Array ? value.length : 0;
}

/** Of a list or a map; 0 for anything else. */
export function sizeOf(value: CelValue | undefined): number {
  return isCelList(value) || isCelMap(value) ? value.size : 0;
}

/**
 * Units of reading a value to its depth, some for each character and more for each element. A value that holds another
 * twice is as deep as it looks, so the measure ends where the budget does.
 */
function extent(value: CelValue, perChar: number): number {
  let units = 0;
  const measure = (each: CelValue): void => {
    units += 20 + (lengthOf(each) * perChar) / 4;
    if (units > evaluationBudget.left) return;
    if (isCelList(each)) {
      for (const item of each) {
        measure(item);
        if (units > evaluationBudget.left) return;
      }
    } else if (isCelMap(each)) {
      for (const [key, item] of each) {
        // Some functions sort by the key.
        units += 100;
        if (typeof key === "string") units += (key.length * perChar) / 4;
        measure(item);
        if (units > evaluationBudget.left) return;
      }
    }
  };
  measure(value);
  return units;
}

/** Units of reading a variable: those that are made of the request's text cost by its length. */
export function costOfReading({ name }: Variable, view: RequestView): number {
  const { path, rawHeaders } = view;
  switch (name) {
    case "request.headers":
      return 20 * rawHeaders.length;
    case "request.query":
      return 20 + 3 * (path.length - Math.max(0, path.indexOf("?")));
    case "unverifiedJwt":
      return 20 + 3 * (headerOf(view, "authorization")?.length ?? 0);
    default:
      return 10;
  }
}
