/**
 * Checks expressions at parse time for errors that CEL itself finds only at evaluation: an unknown name, an argument of
 * the wrong type, a header name that never matches. Without the check, an expression that fails on every request would
 * be accepted silently, and a limit keyed by it would put all clients into one counter.
 *
 * Types are inferred as far as they are known without a request. Where a type is unknown, the expression is accepted.
 */
import { type CelFunc, CelScalar, type CelType, listType, mapType } from "@bufbuild/cel";
import type {
  Constant,
  Expr,
  Expr_Call,
  Expr_Comprehension,
  Expr_Select,
} from "@bufbuild/cel-spec/cel/expr/syntax_pb.js";
import { patternError, patternSize } from "../regex/pattern.ts";
import { environment } from "./environment.ts";
import { claimsByName, type Phase, phases, textByName, type Variable, variablesOf } from "./variables.ts";

/** An error, and the node of the syntax tree to which it belongs. */
export interface Finding {
  readonly node: bigint;
  readonly message: string;
}

/** The result of a check. */
export interface Checked {
  /** The type of the result; undefined if it depends on the request. */
  readonly type: CelType | undefined;
  /** The variables that the expression reads, without duplicates. */
  readonly variables: readonly Variable[];
  /** The query parameters that the expression reads. */
  readonly query: QueryNames;
  /** Empty if the expression is valid. */
  readonly findings: readonly Finding[];
}

/** Names of the query parameters that an expression reads; `all` if the names depend on the request. */
export type QueryNames = readonly string[] | "all";

/**
 * Checks a whole expression. Never throws.
 *
 * @param phase when the expression is evaluated. A variable that is known only later is an error, like an unknown one.
 */
export function check(expr: Expr, phase: Occasion): Checked {
  const checker = new Checker(phase);
  const type = checker.typeOf(expr, { names: new Set(), macros: 0 });
  return { type, variables: [...checker.used], query: checker.query, findings: checker.findings };
}

/** The names, besides the variables, that are in scope within a macro such as `exists` or `map`. */
interface Locals {
  readonly names: ReadonlySet<string>;
  /** The number of enclosing macros. */
  readonly macros: number;
}

/**
 * Bounds the nesting of macros: each level multiplies the work by the number of headers or parameters of the request.
 */
const maxMacroDepth = 2;

/** The maximum size of all patterns of an expression together. The first request that uses a pattern compiles it. */
const maxPatternSize = 250;

/** The variables whose keys are header names. */
const headerVariables: readonly string[] = ["request.headers", "response.headers"];

/** A header name (RFC 9110 §5.6.2) in lower case, as in the keys of these variables. */
const lowerCaseToken = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;

const booleanOperators: readonly string[] = ["_&&_", "_||_"];

/** When an expression is evaluated: in a phase of a request, or for a connection, which has no request. */
export type Occasion = Phase | "connection";

/** The variables that have a value for a connection. */
const connectionVariables: readonly string[] = [
  ...["source.address", "source.exactAddress", "tls.serverName", "route", "gateway"],
];

/** The texts that messages use for each phase. */
const phaseDescriptions: Readonly<Record<Occasion, string>> = {
  connection: "when a connection opens",
  head: "with the head of the request",
  body: "once the body of the request has been read",
  response: "after the response",
  end: "at the end of the request",
};

class Checker {
  readonly findings: Finding[] = [];
  readonly used = new Set<Variable>();
  readonly #phase: Occasion;
  readonly #variables: readonly Variable[];
  readonly #queryNames = new Set<string>();
  #readsWholeQuery = false;
  #patternSize = 0;

  get query(): QueryNames {
    return this.#readsWholeQuery ? "all" : [...this.#queryNames];
  }

  constructor(phase: Occasion) {
    this.#phase = phase;
    this.#variables = variablesOf(phase === "connection" ? "head" : phase);
  }

  typeOf(expr: Expr, locals: Locals): CelType | undefined {
    const kind = expr.exprKind;
    switch (kind.case) {
      case "constExpr":
        return constantType(kind.value);
      case "identExpr":
        return this.#name(expr, kind.value.name, locals);
      case "selectExpr":
        return this.#select(expr, kind.value, locals);
      case "callExpr":
        return this.#call(expr, kind.value, locals);
      case "comprehensionExpr":
        return this.#macro(expr, kind.value, locals);
      case "listExpr":
        for (const element of kind.value.elements) this.typeOf(element, locals);
        return listType(CelScalar.DYN);
      case "structExpr":
        if (kind.value.messageName !== "") this.#report(expr, `message "${kind.value.messageName}" is not known`);
        for (const entry of kind.value.entries) {
          if (entry.keyKind.case === "mapKey") this.typeOf(entry.keyKind.value, locals);
          if (entry.value !== undefined) this.typeOf(entry.value, locals);
        }
        return mapType(CelScalar.DYN, CelScalar.DYN);
      case undefined:
        return undefined;
    }
  }

  /** Adds a finding. Returns undefined as the type, so that one mistake causes one finding only. */
  #report(at: Expr, message: string): CelType | undefined {
    this.findings.push({ node: leftmost(at).id, message });
    return undefined;
  }

  /** @param dotted a plain name or a chain of names, as written in the source. */
  #name(at: Expr, dotted: string, locals: Locals): CelType | undefined {
    const name = dotted.startsWith(".") ? dotted.slice(1) : dotted;
    const variable = this.#variables.find((candidate) => isWithin(name, candidate.name));
    if (variable === undefined) {
      if (locals.names.has(name.split(".", 1)[0] ?? "")) return undefined;
      const knownNames = this.#variables
        .filter((candidate) => this.#isKnown(candidate))
        .map((candidate) => candidate.name);
      return this.#report(at, `unknown variable "${name}", known are ${knownNames.join(", ")}`);
    }
    if (!this.#isKnown(variable)) {
      const here = phaseDescriptions[this.#phase];
      return this.#report(
        at,
        `${variable.name} is known ${phaseDescriptions[variable.phase]}; this is evaluated ${here}`,
      );
    }
    this.used.add(variable);
    if (name === variable.name) {
      this.#readsWholeQuery ||= name === "request.query";
      return variable.type;
    }
    const field = name.slice(variable.name.length + 1);
    if (variable.type === textByName && field.includes(".")) {
      return this.#report(at, `values of ${variable.name} are strings and have no fields`);
    }
    return this.#field(at, variable, field);
  }

  #isKnown({ name, phase }: Variable): boolean {
    if (this.#phase === "connection") return connectionVariables.includes(name);
    return phases.indexOf(phase) <= phases.indexOf(this.#phase);
  }

  /** Checks the selection of a value of a map variable, and returns the type of the value. */
  #field(at: Expr, variable: Variable, field: string): CelType | undefined {
    if (variable.type === claimsByName) return undefined;
    if (variable.type !== textByName) {
      const type = variable.type === CelScalar.STRING ? "a string" : `of type ${variable.type.name}`;
      return this.#report(at, `${variable.name} is ${type} and has no "${field}"`);
    }
    if (variable.name === "request.query") this.#queryNames.add(field);
    if (headerVariables.includes(variable.name) && !lowerCaseToken.test(field)) {
      return this.#report(at, `"${field}" never matches, accepted are header names in lower case`);
    }
    return CelScalar.STRING;
  }

  #select(expr: Expr, select: Expr_Select, locals: Locals): CelType | undefined {
    const dotted = dottedName(expr);
    if (select.testOnly) {
      // CEL resolves `has()` by its operand alone, which gives false for a variable whose own name contains a dot.
      if (this.#variables.some((variable) => variable.name === dotted)) {
        return this.#report(
          expr,
          `has() takes one header, query parameter or claim; ${dotted ?? ""} is always present`,
        );
      }
      if (dotted === undefined) this.#operand(select.operand, locals);
      else this.#name(expr, dotted, locals);
      return CelScalar.BOOL;
    }
    if (dotted !== undefined) return this.#name(expr, dotted, locals);
    const operand = this.#operand(select.operand, locals);
    if (operand?.kind === "map") return knownType(operand.value);
    if (operand?.kind === "scalar" && knownType(operand) !== undefined) {
      return this.#report(expr, `a value of type ${operand.name} has no field "${select.field}"`);
    }
    return undefined;
  }

  #operand(expr: Expr | undefined, locals: Locals): CelType | undefined {
    return expr === undefined ? undefined : this.typeOf(expr, locals);
  }

  #call(expr: Expr, call: Expr_Call, locals: Locals): CelType | undefined {
    if (call.function === "_[_]") return this.#index(expr, call, locals);
    const namespace = call.target === undefined ? undefined : dottedName(call.target);
    const qualified = namespace === undefined ? undefined : `${namespace}.${call.function}`;
    const isQualified = qualified !== undefined && environment.funcs.find(qualified) !== undefined;
    const target = isQualified ? undefined : call.target;
    const findingsBefore = this.findings.length;
    const readsWholeQuery = this.#readsWholeQuery;
    const targetType = this.#operand(target, locals);
    const args = call.args.map((arg) => this.typeOf(arg, locals));
    const [element, container] = call.args;
    if (call.function === "@in" && element !== undefined && container !== undefined) {
      const name = dottedName(container) === "request.query" ? textConstant(element) : undefined;
      if (name !== undefined) {
        this.#queryNames.add(name);
        this.#readsWholeQuery = readsWholeQuery;
      }
    }
    if (this.findings.length > findingsBefore) return undefined;
    if (booleanOperators.includes(call.function)) return this.#expectBool(expr, call.function, args);
    if (call.function === "_?_:_") {
      this.#expectBool(expr, "?:", args.slice(0, 1));
      return args[1]?.name === args[2]?.name ? args[1] : undefined;
    }
    if (call.function === "@not_strictly_false") return CelScalar.BOOL;
    if (call.function === "matches") this.#pattern(call.args.at(-1));
    return this.#overload(expr, isQualified ? qualified : call.function, target && { type: targetType }, args);
  }

  #expectBool(at: Expr, operator: string, args: readonly (CelType | undefined)[]): CelType {
    for (const type of args) {
      if (type !== undefined && type !== CelScalar.BOOL) {
        this.#report(at, `${displayName(operator)} takes bool, found ${type.name}`);
      }
    }
    return CelScalar.BOOL;
  }

  /** Checks `map["name"]` and `list[0]`. */
  #index(expr: Expr, call: Expr_Call, locals: Locals): CelType | undefined {
    const [operand, key] = call.args;
    if (operand === undefined || key === undefined) return undefined;
    const readsWholeQuery = this.#readsWholeQuery;
    const type = this.typeOf(operand, locals);
    const variable = this.#variables.find((candidate) => candidate.name === dottedName(operand));
    const literal = textConstant(key);
    // A constant key reads one query parameter, not all of them.
    if (literal !== undefined) this.#readsWholeQuery = readsWholeQuery;
    this.typeOf(key, locals);
    if (variable !== undefined && literal !== undefined && variable.type === textByName) {
      return this.#field(expr, variable, literal);
    }
    if (type?.kind === "map") return knownType(type.value);
    if (type?.kind === "list") return knownType(type.element);
    if (type?.kind === "scalar" && knownType(type) !== undefined) {
      return this.#report(expr, `a value of type ${type.name} cannot be indexed`);
    }
    return undefined;
  }

  #overload(
    expr: Expr,
    name: string,
    target: { readonly type: CelType | undefined } | undefined,
    args: readonly (CelType | undefined)[],
  ): CelType | undefined {
    if (name === "has") {
      return this.#report(expr, 'has() takes a field; for a name with a dash write "x-api-key" in request.headers');
    }
    const group = environment.funcs.find(name);
    if (group === undefined) return this.#report(expr, `unknown function "${name}"`);
    const matching = [...group].filter((candidate) => acceptsCall(candidate, target, args));
    const [first] = matching;
    if (first === undefined) {
      const found = args.map((type) => type?.name ?? "dyn").join(", ");
      const on = target === undefined ? "" : ` on ${target.type?.name ?? "dyn"}`;
      return this.#report(expr, `${displayName(name)} does not take (${found})${on}`);
    }
    return matching.every((candidate) => candidate.result.name === first.result.name)
      ? knownType(first.result)
      : undefined;
  }

  #pattern(expr: Expr | undefined): void {
    const source = expr === undefined ? undefined : textConstant(expr);
    if (expr === undefined || source === undefined) return;
    this.#patternSize += patternSize(source);
    if (this.#patternSize > maxPatternSize) {
      const found = `the patterns of an expression have a size of ${this.#patternSize}`;
      this.#report(expr, `${found}, accepted is at most ${maxPatternSize}; counted repetitions multiply`);
      return;
    }
    const error = patternError(source);
    if (error !== undefined) this.#report(expr, error);
  }

  #macro(expr: Expr, macro: Expr_Comprehension, locals: Locals): CelType | undefined {
    if (locals.macros === maxMacroDepth) {
      return this.#report(expr, `macros may be nested ${maxMacroDepth} deep at most`);
    }
    if (this.#variables.some((variable) => isWithin(variable.name, macro.iterVar))) {
      return this.#report(expr, `"${macro.iterVar}" is the name of a variable already`);
    }
    this.#operand(macro.iterRange, locals);
    this.#operand(macro.accuInit, locals);
    const inner = { names: new Set([...locals.names, macro.iterVar, macro.accuVar]), macros: locals.macros + 1 };
    this.#operand(macro.loopCondition, inner);
    this.#operand(macro.loopStep, inner);
    return this.#operand(macro.result, { ...inner, macros: locals.macros });
  }
}

/** Whether `name` is `outer` or a field of it. */
function isWithin(name: string, outer: string): boolean {
  return name === outer || name.startsWith(`${outer}.`);
}

/**
 * Returns the first name of a chain of fields. The parser reports the position of its last dot as the position of the
 * chain.
 */
function leftmost(expr: Expr): Expr {
  const kind = expr.exprKind;
  return kind.case === "selectExpr" && kind.value.operand !== undefined ? leftmost(kind.value.operand) : expr;
}

/** The text `a.b.c` of a chain of names; undefined if the chain begins with anything but a name. */
function dottedName(expr: Expr): string | undefined {
  const kind = expr.exprKind;
  if (kind.case === "identExpr") return kind.value.name;
  if (kind.case !== "selectExpr" || kind.value.operand === undefined) return undefined;
  const operand = dottedName(kind.value.operand);
  return operand === undefined ? undefined : `${operand}.${kind.value.field}`;
}

/** The value of a string literal, undefined for any other expression. */
export function textConstant(expr: Expr): string | undefined {
  if (expr.exprKind.case !== "constExpr") return undefined;
  const constant = expr.exprKind.value.constantKind;
  return constant.case === "stringValue" ? constant.value : undefined;
}

const constantTypes: Readonly<Record<string, CelType>> = {
  boolValue: CelScalar.BOOL,
  bytesValue: CelScalar.BYTES,
  doubleValue: CelScalar.DOUBLE,
  int64Value: CelScalar.INT,
  nullValue: CelScalar.NULL,
  stringValue: CelScalar.STRING,
  uint64Value: CelScalar.UINT,
};

function constantType(constant: Constant): CelType | undefined {
  return constantTypes[constant.constantKind.case ?? ""];
}

function acceptsCall(
  candidate: CelFunc,
  target: { readonly type: CelType | undefined } | undefined,
  args: readonly (CelType | undefined)[],
): boolean {
  if ((candidate.target === undefined) !== (target === undefined)) return false;
  if (candidate.target !== undefined && !accepts(candidate.target, target?.type)) return false;
  if (candidate.arguments.length !== args.length) return false;
  return candidate.arguments.every((parameter, at) => accepts(parameter, args[at]));
}

function accepts(parameter: CelType, type: CelType | undefined): boolean {
  return type === undefined || knownType(parameter) === undefined || parameter.name === type.name;
}

/** Returns undefined for `dyn`, the type by which CEL marks unknown types. */
function knownType(type: CelType): CelType | undefined {
  return type === CelScalar.DYN ? undefined : type;
}

/** Returns the name of a function for messages. CEL writes the names of operators with placeholders: `_+_`. */
function displayName(name: string): string {
  return /^[a-z]/i.test(name) ? `${name}()` : name.replaceAll(/[_@]/g, "");
}
