/**
 * The cost of evaluating an expression, in the units of `regex/work-budget.ts`. Each CEL function is charged before it
 * runs, by the sizes of its operands, and afterwards by the size of its result. The rounds of a macro and the reading
 * of variables are charged too. Thus no expression costs more than the budget of one evaluation for any request.
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

/** The budget of the current evaluation. One budget is enough, because evaluations are synchronous. */
export const evaluationBudget = new WorkBudget(0);

/** Units for each node of the syntax tree that an evaluation, or one round of a macro, may visit. */
export const unitsPerNode = 10;

/** Units for the creation of an error. */
const unitsPerError = 300;

type Operands = readonly (CelValue | undefined)[];

/**
 * Wraps the functions of `env` so that each charges the budget of the evaluation. The wrapper throws `BudgetExceeded`
 * through the evaluator; the evaluator would turn an error thrown by the function itself into a value.
 */
export function metered(env: CelEnv): CelEnv {
  const funcs = Object.create(env.funcs, { find: { value: findMetered } }) as CelEnv["funcs"];
  const groups = new Map<string, FuncGroup>();

  function findMetered(name: string): FuncGroup | undefined {
    const cached = groups.get(name);
    if (cached !== undefined) return cached;
    const group = env.funcs.find(name);
    if (group === undefined) return undefined;
    const meteredFunctions = meteredGroup(group, costs[name] ?? linearCost);
    groups.set(name, meteredFunctions);
    return meteredFunctions;
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

/** The cost of a function that reads its operands once, at the speed of memory. */
function linearCost(operands: Operands): number {
  return 10 + sum(operands, lengthOf) / 4;
}

/** The functions with other costs, by name. */
const costs: Readonly<Record<string, (operands: Operands) => number>> = {
  "_==_": costOfComparing,
  "_!=_": costOfComparing,
  "@in": costOfComparing,
  "_+_": ([, a, b]) => 10 + (lengthOf(a) + lengthOf(b)) / 8 + 20 + sizeOf(a) + sizeOf(b),
  size: linearCost,
  contains: costOfSearching,
  indexOf: costOfSearching,
  lastIndexOf: ([text, part]) => 10 + (lengthOf(text) * (1 + lengthOf(part))) / 2,
  split: (operands) => costOfSearching(operands) + 6 * lengthOf(operands[0]),
  replace: (operands) => 3 * costOfSearching(operands) + sum(operands, lengthOf),
  join: ([list]) => 10 + (list === undefined ? 0 : costOfTraversing(list, 4)),
  lowerAscii: costPerCharacter,
  upperAscii: costPerCharacter,
  "strings.quote": costPerCharacter,
  trim: costPerCharacter,
  format: (operands) => costOfFormatting(operands),
  matches: costOfMatching,
  "@matches": costOfMatching,
  // The macro copies a list before its first round. It rejects a text.
  "@iterate": ([, range]) => 10 + 5 * sizeOf(range) + lengthOf(range) / 8,
  "@step": ([, , nodes]) => unitsPerNode * Number(nodes),
  // A numeric key is compared with all keys, and a missing key causes an error.
  "@indexed": ([, operand]) => 80 + sizeOf(operand),
  int: costOfParsingNumber,
  uint: costOfParsingNumber,
  double: costOfParsingNumber,
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
      // A call with a time zone loads the calendar of that zone each time.
      (part) => [`get${part}`, ([, zone]: Operands) => (zone === undefined ? 300 : 20_000)],
    ),
  ),
};

/** The automaton charges its steps itself. */
function costOfMatching([text]: Operands): number {
  return 20 + lengthOf(text) / 8;
}

/** A comparison descends into lists and maps. */
function costOfComparing(operands: Operands): number {
  return operands.reduce<number>(
    (units, operand) => units + (operand === undefined ? 0 : costOfTraversing(operand, 1)),
    10,
  );
}

/** In the worst case two long texts nearly match at each position. */
function costOfSearching([text, part]: Operands): number {
  return 10 + (lengthOf(text) / 4) * (1 + lengthOf(part) / 32);
}

/** For functions that process each character. */
function costPerCharacter(operands: Operands): number {
  return 10 + 3 * sum(operands, lengthOf);
}

/** The time to parse digits grows with the square of their number. */
function costOfParsingNumber(operands: Operands): number {
  const length = sum(operands, lengthOf);
  return 20 + 4 * length + (length * length) / 64;
}

/** `%f` loads the rules of a locale each time. */
function costOfFormatting([template, values]: Operands): number {
  const text = typeof template === "string" ? template : "";
  const decimals = text.match(/%(?:\.\d+)?f/g)?.length ?? 0;
  return 50 + 4 * text.length + 15_000 * decimals + (values === undefined ? 0 : costOfTraversing(values, 8));
}

function sum(operands: Operands, measure: (value: CelValue | undefined) => number): number {
  let total = 0;
  for (const operand of operands) total += measure(operand);
  return total;
}

/** The length of a text or of bytes; 0 for other values. */
function lengthOf(value: CelResult | undefined): number {
  return typeof value === "string" || value instanceof Uint8Array ? value.length : 0;
}

/** The number of elements of a list or map; 0 for other values. */
export function sizeOf(value: CelValue | undefined): number {
  return isCelList(value) || isCelMap(value) ? value.size : 0;
}

/**
 * Units to traverse a value with all that it contains, by characters and elements. A value that is contained several
 * times is counted each time, which can take long, so the traversal stops when the budget is exceeded.
 */
function costOfTraversing(value: CelValue, perChar: number): number {
  let units = 0;
  const measure = (part: CelValue): void => {
    units += 20 + (lengthOf(part) * perChar) / 4;
    if (units > evaluationBudget.left) return;
    if (isCelList(part)) {
      for (const item of part) {
        measure(item);
        if (units > evaluationBudget.left) return;
      }
    } else if (isCelMap(part)) {
      for (const [key, item] of part) {
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

/** Units to read a variable. The cost of variables that are parsed from a text of the request depends on its length. */
export function costOfReading({ name }: Variable, view: RequestView): number {
  const { path, rawHeaders, responseHeaders = [] } = view;
  switch (name) {
    case "request.headers":
      return 20 * rawHeaders.length;
    case "response.headers":
      return 20 * responseHeaders.length;
    case "request.query":
      return 20 + 3 * (path.length - Math.max(0, path.indexOf("?")));
    case "unverifiedJwt":
      return 20 + 3 * (headerOf(view, "authorization")?.length ?? 0);
    default:
      return 10;
  }
}
