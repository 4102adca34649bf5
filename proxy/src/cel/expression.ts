/**
 * CEL expressions over a request: what a limit's `key` and a descriptor are written in. All that can be known to be
 * wrong without a request is found when the expression is parsed; while serving, an expression has a value or none and
 * never throws.
 */
import { type CelInput, type CelValue, isCelError, isCelUint, parse, plan } from "@bufbuild/cel";
import type { Expr, ParsedExpr } from "@bufbuild/cel-spec/cel/expr/syntax_pb.js";
import type { Result } from "@gatewayproxy/runtime/problem";
import { BudgetExceeded } from "../regex/work-budget.ts";
import { type Checked, check, type QueryNames, textConstant } from "./check.ts";
import { costOfReading, evaluationBudget, unitsPerNode } from "./cost.ts";
import { environment } from "./environment.ts";
import { callsAny, countNodes, instrument } from "./instrument.ts";
import type { RequestView } from "./request-view.ts";
import { type Allowance, maxEvaluationUnits } from "./request-work.ts";
import { headerOf, type Phase, phases, type Variable } from "./variables.ts";

/** Far more than an expression needs that a person reads; bounds the parser's depth and a Snapshot's size. */
export const maxExpressionLength = 1024;

/**
 * Valid expressions by source and use, for as long as something refers to them. The entries of a policy at all of its
 * targets, in every rule, share one. The latest are kept, since each configuration is parsed before it is compiled.
 */
const shared = new Map<string, WeakRef<Expression>>();
const latest: Expression[] = [];
const maxLatest = 1024;
const collected = new FinalizationRegistry<string>((memo) => {
  if (shared.get(memo)?.deref() === undefined) shared.delete(memo);
});
let next = 0;

function share(memo: string, expression: Expression): void {
  shared.set(memo, new WeakRef(expression));
  collected.register(expression, memo);
  latest[next++ % maxLatest] = expression;
}

/** What an expression is for. */
export interface Use {
  /** When it is evaluated, which bounds what it can read. */
  readonly phase: Phase;
  /** What its value must be. */
  readonly gives: "text" | "number" | "condition";
}

const asKey: Use = { phase: "head", gives: "text" };

/** In place of a value: the expression went wrong for this request. */
export const failed = Symbol("the expression failed");

/** In place of a value: the evaluation takes more work than it may. */
const tooCostly = Symbol("the expression costs too much");

type Evaluate<Value> = (view: RequestView, allowance?: Allowance) => Value;
type Outcome = string | undefined | typeof failed | typeof tooCostly;

export interface Expression {
  /** As it was written. */
  readonly source: string;
  /** The earliest at which everything that it reads is known. */
  readonly phase: Phase;
  readonly target: TargetReads;
  /**
   * The expression's value for one request as text; numbers and booleans as CEL's `string()` writes them. Undefined
   * when it has none: a header that is absent, or any other error. Never throws.
   *
   * All three take their work from the allowance, too, where one is given.
   */
  readonly evaluate: Evaluate<string | undefined>;
  /**
   * The same, with the two reasons for having no value apart: undefined when the request lacks a header, a parameter or a
   * claim that it reads, `failed` when anything else went wrong. Never throws.
   */
  readonly tryEvaluate: Evaluate<string | undefined | typeof failed>;
  /** Whether an evaluation for the request would take more work than it may, which is for a client to choose. */
  readonly exceedsBudget: Evaluate<boolean>;
}

/**
 * Parses and checks an expression. The problem says at which column (from 1) what was found; its resource, path and
 * location are the caller's to add. Never throws.
 */
export function parseExpression(source: string, use: Use = asKey): Result<Expression> {
  const memo = `${use.phase} ${use.gives} ${source}`;
  const known = shared.get(memo)?.deref();
  if (known !== undefined) return { ok: true, value: known };
  const parsed = parseAnew(source, use);
  if (parsed.ok) share(memo, parsed.value);
  return parsed;
}

/** What an expression reads of the request target. */
export interface TargetReads {
  readonly path: boolean;
  /** Names of the query parameters. */
  readonly query: QueryNames;
}

/** What a sound expression, whatever it is for, reads of the request target. */
export function targetReads(source: string): TargetReads {
  const parsed = parseExpression(source, { phase: "response", gives: "text" });
  return parsed.ok ? parsed.value.target : { path: false, query: [] };
}

function parseAnew(source: string, { phase, gives }: Use): Result<Expression> {
  if (source.length > maxExpressionLength) {
    return refuse(`expression has ${source.length} characters, at most ${maxExpressionLength} are accepted`);
  }
  const parsed = parseSyntax(source);
  if (typeof parsed === "string") return refuse(parsed);
  const { expr, sourceInfo } = parsed;
  if (expr === undefined) return refuse("expression is empty");

  const checked = check(expr, phase);
  if (checked.findings.length > 0) {
    const problems = checked.findings.map(({ node, message }) => {
      const offset = sourceInfo?.positions[node.toString()] ?? 0;
      return { message: `expression at ${describePosition(source, offset)}: ${message}` };
    });
    return { ok: false, problems };
  }
  if (checked.type !== undefined && !typesOf[gives].includes(checked.type.name)) {
    return refuse(`expression gives a ${checked.type.name}, accepted ${acceptedTypes(typesOf[gives])}`);
  }
  const latestPhase = latestOf(checked.variables);
  const outcomeOf =
    directRead(expr, checked) ??
    remembering({ source, readsLlm: latestPhase !== "head" }, evaluation(expr, checked.variables));
  const tryEvaluate: Expression["tryEvaluate"] = (view, allowance) => {
    const outcome = outcomeOf(view, allowance);
    return outcome === tooCostly ? failed : outcome;
  };
  const exceedsBudget: Expression["exceedsBudget"] = (view, allowance) => outcomeOf(view, allowance) === tooCostly;
  const evaluate: Expression["evaluate"] = (view, allowance) => {
    const value = tryEvaluate(view, allowance);
    return value === failed ? undefined : value;
  };
  const target = { path: checked.variables.some(({ name }) => name === "request.path"), query: checked.query };
  return {
    ok: true,
    value: { source, phase: latestPhase, target, evaluate, tryEvaluate, exceedsBudget },
  };
}

function acceptedTypes(types: readonly string[]): string {
  const [only = "", ...others] = types;
  return others.length === 0 ? `is ${only}` : `are ${types.slice(0, -1).join(", ")} and ${types.at(-1) ?? ""}`;
}

function latestOf(used: readonly Variable[]): Phase {
  return phases.findLast((phase) => used.some((variable) => variable.phase === phase)) ?? "head";
}

function refuse(message: string): Result<never> {
  return { ok: false, problems: [{ message }] };
}

/** The syntax tree, or what is wrong. */
function parseSyntax(source: string): ParsedExpr | string {
  try {
    return parse(source);
  } catch (error) {
    if (error instanceof RangeError) return "expression is nested too deeply";
    const offset = syntaxErrorOffset(error);
    if (offset === undefined) return `expression cannot be read: ${error instanceof Error ? error.message : "unknown"}`;
    const found = offset < source.length ? `"${source.slice(offset, offset + 16)}"` : "its end";
    return (
      `expression at ${describePosition(source, offset)}: cannot go on at ${found}, accepted is a CEL expression such ` +
      `as request.headers["x-api-key"] or source.address`
    );
  }
}

/** The parser's error class is not exported; its place is looked for by shape. */
function syntaxErrorOffset(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("location" in error)) return undefined;
  // Checked field by field below; anything else yields undefined.
  const location = error.location as { readonly start?: { readonly offset?: unknown } } | undefined;
  const offset = location?.start?.offset;
  return typeof offset === "number" ? offset : undefined;
}

/** The parser places an operator at the blank before it; the first character after is what a reader looks for. */
function describePosition(source: string, offset: number): string {
  const blanks = Math.max(0, source.slice(offset).search(/\S/));
  const before = source.slice(0, offset + blanks).split("\n");
  const column = (before.at(-1)?.length ?? 0) + 1;
  return before.length === 1 ? `column ${column}` : `line ${before.length}, column ${column}`;
}

/** The types of CEL that can be read as what an expression is to give. */
const typesOf: Readonly<Record<Use["gives"], readonly string[]>> = {
  text: ["string", "int", "uint", "double", "bool"],
  condition: ["bool"],
  number: ["int", "uint", "double"],
};

/**
 * The commonest expressions are a lookup and need no evaluator, which would copy all headers into a map first: a
 * constant, a plain variable, one header. Undefined for all others.
 */
function directRead(expr: Expr, checked: Checked): Evaluate<Outcome> | undefined {
  const constant = textConstant(expr);
  if (constant !== undefined) return () => constant;
  const [variable] = checked.variables;
  if (variable === undefined) return undefined;
  const header = variable.name === "request.headers" ? headerName(expr) : undefined;
  if (header !== undefined) return (view) => headerOf(view, header);
  if (expr.exprKind.case !== "identExpr" && expr.exprKind.case !== "selectExpr") return undefined;
  if (checked.type?.kind !== "scalar" || variable.type !== checked.type) return undefined;
  return (view) => {
    const value = variable.read(view);
    return value === undefined ? failed : (asText(value) ?? failed);
  };
}

/** `x` of `request.headers["x"]` and `request.headers.x`; the caller knows that the map is request.headers. */
function headerName(expr: Expr): string | undefined {
  const kind = expr.exprKind;
  if (kind.case === "selectExpr" && !kind.value.testOnly) return kind.value.field;
  if (kind.case !== "callExpr" || kind.value.function !== "_[_]") return undefined;
  const [map, key] = kind.value.args;
  return map?.exprKind.case === "selectExpr" && key !== undefined ? textConstant(key) : undefined;
}

/** Evaluates once per allowance; an expression that reads the LLM request, once for each state of what is known of it. */
function remembering(
  { source, readsLlm }: { readonly source: string; readonly readsLlm: boolean },
  evaluate: Evaluate<Outcome>,
): Evaluate<Outcome> {
  return (view, allowance) => {
    const known = allowance?.recall(source);
    // What is remembered for a source comes from here.
    if (known !== undefined && (!readsLlm || known.llm === view.llm)) return known.value as Outcome;
    const value = evaluate(view, allowance);
    allowance?.remember(source, { llm: view.llm, value });
    return value;
  };
}

/** Runs the planned expression over the variables that it reads, within the budget of one evaluation. */
function evaluation(expr: Expr, used: readonly Variable[]): Evaluate<Outcome> {
  const run = plan(environment, instrument(expr));
  loadLocales(expr);
  const ownUnits = unitsPerNode * countNodes(expr);
  const evaluate = (view: RequestView): Outcome => {
    const bindings: Record<string, CelInput> = {};
    for (const variable of used) {
      evaluationBudget.spend(costOfReading(variable, view));
      const value = variable.read(view);
      if (value !== undefined) bindings[variable.name] = value;
    }
    const value = run(bindings);
    if (evaluationBudget.isExceeded) return tooCostly;
    if (isCelError(value)) return isAbsence(value.message) ? undefined : failed;
    return asText(value) ?? failed;
  };
  return (view, allowance) => {
    const units = Math.min(maxEvaluationUnits, allowance?.left ?? maxEvaluationUnits);
    evaluationBudget.left = units - ownUnits;
    if (evaluationBudget.isExceeded) return tooCostly;
    // An expression may come upon an error in each round of a macro, and nobody reads where.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    try {
      return evaluate(view);
    } catch (error) {
      if (error instanceof BudgetExceeded) return tooCostly;
      throw error;
    } finally {
      Error.stackTraceLimit = stackTraceLimit;
      // What would have gone beyond was not begun.
      if (allowance !== undefined) allowance.left -= units - Math.max(0, evaluationBudget.left);
    }
  };
}

let hasLoadedLocales = false;

/** What time zones and decimals need of ICU is loaded at their first use, which takes far longer than an evaluation may. */
function loadLocales(expr: Expr): void {
  if (hasLoadedLocales || !callsAny(expr, (name) => name === "format" || /^get[A-Z]/.test(name))) return;
  hasLoadedLocales = true;
  new Intl.DateTimeFormat("en-US", { timeZone: "Asia/Tokyo", hour: "2-digit" }).formatToParts(0);
  new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 }).format(1.5);
}

/** The library tells a map without the name asked for by its message alone. */
function isAbsence(message: string): boolean {
  return message.startsWith("field not found");
}

function asText(value: CelValue | CelInput): string | undefined {
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "bigint" || typeof value === "boolean") return String(value);
  return isCelUint(value) ? value.value.toString() : undefined;
}
