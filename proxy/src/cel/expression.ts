/**
 * CEL expressions over a request, as used by the `key` of a limit and by descriptors. Parsing finds every error that
 * can be found without a request. An evaluation gives a value or none and never throws.
 */
import { type CelInput, type CelValue, isCelError, isCelUint, parse, plan } from "@bufbuild/cel";
import type { Expr, ParsedExpr, SourceInfo } from "@bufbuild/cel-spec/cel/expr/syntax_pb.js";
import type { Problem, Result } from "@gatewayproxy/runtime/problem";
import { BudgetExceeded } from "../regex/work-budget.ts";
import { type Checked, check, type Occasion, type QueryNames, textConstant } from "./check.ts";
import { costOfReading, evaluationBudget, unitsPerNode } from "./cost.ts";
import { environment } from "./environment.ts";
import { type IdentityVariable, identityVariables, type PolicyOwner } from "./identity.ts";
import { callsSome, countNodes, instrument } from "./instrument.ts";
import type { RequestView } from "./request-view.ts";
import { type Allowance, maxEvaluationUnits } from "./request-work.ts";
import { headerOf, type Phase, phases, responseHeaderOf, type Variable } from "./variables.ts";

/** The maximum length of an expression. Bounds the recursion of the parser and the size of the snapshot. */
export const maxExpressionLength = 1024;

/**
 * Valid expressions by source and use, for as long as something refers to them. All targets and rules of a policy share
 * one expression. `latest` refers to the latest ones, because nothing else refers to an expression between parsing and
 * compilation.
 */
const shared = new Map<string, WeakRef<Expression>>();
let latest: Expression[] = [];
let latestLength = 0;
/** The maximum length of all sources in `latest` together. A compiled expression takes up to 95 bytes per character. */
const maxLatestLength = 65_536;
const collected = new FinalizationRegistry<string>((key) => {
  if (shared.get(key)?.deref() === undefined) shared.delete(key);
});

function share(key: string, expression: Expression): void {
  shared.set(key, new WeakRef(expression));
  collected.register(expression, key);
  if (latestLength + expression.source.length > maxLatestLength) {
    latest = [];
    latestLength = 0;
  }
  latest.push(expression);
  latestLength += expression.source.length;
}

/** The use of an expression. */
export interface Use {
  /** When the expression is evaluated, which bounds the variables that it can read. */
  readonly phase: Occasion;
  /** The kind of its result. */
  readonly result: "text" | "number" | "condition";
}

const asKey: Use = { phase: "head", result: "text" };

/** Returned instead of a value: the evaluation failed for this request. */
export const failed = Symbol("the expression failed");

/** Returned instead of a value: the evaluation exceeds its work budget. */
const tooCostly = Symbol("the expression costs too much");

type Evaluate<Value> = (view: RequestView, allowance?: Allowance) => Value;
/** A value that can be shown as text. */
export type Scalar = string | number | bigint | boolean;
type Outcome = Scalar | undefined | typeof failed | typeof tooCostly;

/** A valid expression, ready to be evaluated. One evaluation costs at most `maxEvaluationUnits`. */
export interface Expression {
  /** The source text as written. */
  readonly source: string;
  /** The earliest phase at which all variables that it reads are known. */
  readonly phase: Phase;
  /** Whether it reads the body of the request, alone or beside the response. */
  readonly readsBody: boolean;
  readonly target: TargetReads;
  /** The identities that it reads. */
  readonly identities: readonly IdentityVariable[];
  /**
   * The value of the expression for one request as text; numbers and booleans are formatted like CEL's `string()`
   * does. Undefined if it has no value: a header is absent, or any other error. Never throws.
   *
   * All functions also charge their work to the allowance, if one is given.
   */
  readonly evaluate: Evaluate<string | undefined>;
  /** Like `evaluate`, but the value keeps its type. */
  readonly evaluateScalar: Evaluate<Scalar | undefined>;
  /**
   * Like `evaluate`, but distinguishes the reasons for having no value: undefined if the request lacks a header, a
   * parameter or a claim that the expression reads, `failed` for any other error. Never throws.
   */
  readonly tryEvaluate: Evaluate<string | undefined | typeof failed>;
  /** Whether an evaluation for the request exceeds its work budget. A client can cause this. */
  readonly exceedsBudget: Evaluate<boolean>;
}

/**
 * Parses and checks an expression. Each problem contains the column (from 1) and the text found there. The caller adds
 * resource, path and location. Never throws.
 */
export function parseExpression(source: string, use: Use = asKey): Result<Expression> {
  const key = `${use.phase} ${use.result} ${source}`;
  const cached = shared.get(key)?.deref();
  if (cached !== undefined) return { ok: true, value: cached };
  const parsed = parseUncached(source, use);
  if (parsed.ok) share(key, parsed.value);
  return parsed;
}

/** The parts of the request target that an expression reads. */
export interface TargetReads {
  readonly path: boolean;
  /** Names of the query parameters. */
  readonly query: QueryNames;
}

function parseUncached(source: string, { phase, result }: Use): Result<Expression> {
  if (source.length > maxExpressionLength) {
    return invalid(`expression has ${source.length} characters, at most ${maxExpressionLength} are accepted`);
  }
  const parsed = parseSyntax(source);
  if (typeof parsed === "string") return invalid(parsed);
  const { expr, sourceInfo } = parsed;
  if (expr === undefined) return invalid("expression is empty");

  const checked = check(expr, phase);
  if (checked.findings.length > 0) return { ok: false, problems: problemsOf(checked, source, sourceInfo) };
  if (checked.type !== undefined && !typesOf[result].includes(checked.type.name)) {
    return invalid(`expression has the type ${checked.type.name}, accepted ${acceptedTypes(typesOf[result])}`);
  }
  return { ok: true, value: compile(source, expr, checked) };
}

/**
 * A separate function: the returned functions keep alive everything that a closure here refers to, and syntax trees are
 * large.
 */
function compile(source: string, expr: Expr, checked: Checked): Expression {
  const latestPhase = latestOf(checked.variables);
  const outcomeOf =
    directRead(expr, checked) ??
    cachedPerAllowance({ source, readsLlm: latestPhase !== "head" }, boundedEvaluation(expr, checked.variables));
  const tryEvaluate: Expression["tryEvaluate"] = (view, allowance) => {
    const outcome = outcomeOf(view, allowance);
    if (outcome === tooCostly) return failed;
    return typeof outcome === "number" || typeof outcome === "bigint" || typeof outcome === "boolean"
      ? String(outcome)
      : outcome;
  };
  const evaluateScalar: Expression["evaluateScalar"] = (view, allowance) => {
    const outcome = outcomeOf(view, allowance);
    return typeof outcome === "symbol" ? undefined : outcome;
  };
  const exceedsBudget: Expression["exceedsBudget"] = (view, allowance) => outcomeOf(view, allowance) === tooCostly;
  const evaluate: Expression["evaluate"] = (view, allowance) => {
    const value = tryEvaluate(view, allowance);
    return value === failed ? undefined : value;
  };
  const target = { path: checked.variables.some(({ name }) => name === "request.path"), query: checked.query };
  const readsBody = checked.variables.some(({ phase }) => phase === "body");
  const identities = identityVariables.filter((name) => checked.variables.some((variable) => variable.name === name));
  return {
    source,
    phase: latestPhase,
    readsBody,
    target,
    identities,
    evaluate,
    evaluateScalar,
    tryEvaluate,
    exceedsBudget,
  };
}

function problemsOf({ findings }: Checked, source: string, sourceInfo: SourceInfo | undefined): readonly Problem[] {
  return findings.map(({ node, message }) => {
    const offset = sourceInfo?.positions[node.toString()] ?? 0;
    return { message: `expression at ${describePosition(source, offset)}: ${message}` };
  });
}

function acceptedTypes(types: readonly string[]): string {
  const [only = "", ...others] = types;
  return others.length === 0 ? `is ${only}` : `are ${types.slice(0, -1).join(", ")} and ${types.at(-1) ?? ""}`;
}

function latestOf(used: readonly Variable[]): Phase {
  return phases.findLast((phase) => used.some((variable) => variable.phase === phase)) ?? "head";
}

function invalid(message: string): Result<never> {
  return { ok: false, problems: [{ message }] };
}

/** Returns the syntax tree, or an error message. */
function parseSyntax(source: string): ParsedExpr | string {
  try {
    return parse(source);
  } catch (error) {
    if (error instanceof RangeError) return "expression is nested too deeply";
    const offset = syntaxErrorOffset(error);
    if (offset === undefined) return `expression cannot be read: ${error instanceof Error ? error.message : "unknown"}`;
    const found = offset < source.length ? `"${source.slice(offset, offset + 16)}"` : "its end";
    return (
      `expression at ${describePosition(source, offset)}: found unexpected ${found}, accepted is a CEL expression such ` +
      `as request.headers["x-api-key"] or source.address`
    );
  }
}

/**
 * Returns the offset of a syntax error. The parser does not export its error class, so it is recognized by its shape.
 */
function syntaxErrorOffset(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("location" in error)) return undefined;
  // The checks below accept this shape only.
  const location = error.location as { readonly start?: { readonly offset?: unknown } } | undefined;
  const offset = location?.start?.offset;
  return typeof offset === "number" ? offset : undefined;
}

/** Describes a position. The parser reports an operator at the blank before it, so blanks are skipped first. */
function describePosition(source: string, offset: number): string {
  const blanks = Math.max(0, source.slice(offset).search(/\S/));
  const before = source.slice(0, offset + blanks).split("\n");
  const column = (before.at(-1)?.length ?? 0) + 1;
  return before.length === 1 ? `column ${column}` : `line ${before.length}, column ${column}`;
}

/** The CEL types that each kind of result accepts. */
const typesOf: Readonly<Record<Use["result"], readonly string[]>> = {
  text: ["string", "int", "uint", "double", "bool"],
  condition: ["bool"],
  number: ["int", "uint", "double"],
};

/** The readers of one header, by the variable of all of them. */
const headerReaders: Readonly<Record<string, typeof headerOf | undefined>> = {
  "request.headers": headerOf,
  "response.headers": responseHeaderOf,
};

/**
 * Returns a function for the most frequent expressions, which need no evaluator: a constant, a plain variable, one
 * header. The evaluator would copy all headers into a map first. Undefined for all other expressions.
 */
function directRead(expr: Expr, checked: Checked): Evaluate<Outcome> | undefined {
  const constant = textConstant(expr);
  if (constant !== undefined) return () => constant;
  const [variable] = checked.variables;
  if (variable === undefined) return undefined;
  const readHeader = headerReaders[variable.name];
  const header = readHeader === undefined ? undefined : headerName(expr);
  if (readHeader !== undefined && header !== undefined) return (view) => readHeader(view, header);
  if (expr.exprKind.case !== "identExpr" && expr.exprKind.case !== "selectExpr") return undefined;
  if (checked.type?.kind !== "scalar" || variable.type !== checked.type) return undefined;
  return (view, allowance) => {
    const value = variable.read(view, allowance?.owner ?? "route");
    return value === undefined ? failed : (asScalar(value) ?? failed);
  };
}

/**
 * The name `x` in `request.headers["x"]` and `request.headers.x`. The caller has checked that the map is one
 * of headers.
 */
function headerName(expr: Expr): string | undefined {
  const kind = expr.exprKind;
  if (kind.case === "selectExpr" && !kind.value.testOnly) return kind.value.field;
  if (kind.case !== "callExpr" || kind.value.function !== "_[_]") return undefined;
  const [map, key] = kind.value.args;
  return map?.exprKind.case === "selectExpr" && key !== undefined ? textConstant(key) : undefined;
}

/**
 * Evaluates once per allowance. An expression that reads the LLM request is evaluated again after a change of its view.
 */
function cachedPerAllowance(
  { source, readsLlm }: { readonly source: string; readonly readsLlm: boolean },
  evaluate: Evaluate<Outcome>,
): Evaluate<Outcome> {
  return (view, allowance) => {
    const cached = allowance?.cached(source);
    // Only this function caches values of `source`, so the type is known.
    if (cached !== undefined && (!readsLlm || cached.llm === view.llm)) return cached.value as Outcome;
    const value = evaluate(view, allowance);
    allowance?.cache(source, { llm: view.llm, value });
    return value;
  };
}

/** Runs the planned expression over the variables that it reads, within the budget of one evaluation. */
function boundedEvaluation(expr: Expr, used: readonly Variable[]): Evaluate<Outcome> {
  const run = plan(environment, instrument(expr));
  loadLocales(expr);
  const ownUnits = unitsPerNode * countNodes(expr);
  const evaluate = (view: RequestView, owner: PolicyOwner): Outcome => {
    const bindings: Record<string, CelInput> = {};
    for (const variable of used) {
      evaluationBudget.spend(costOfReading(variable, view));
      const value = variable.read(view, owner);
      if (value !== undefined) bindings[variable.name] = value;
    }
    const value = run(bindings);
    if (evaluationBudget.isExceeded) return tooCostly;
    if (isCelError(value)) return isMissingField(value.message) ? undefined : failed;
    return asScalar(value) ?? failed;
  };
  return (view, allowance) => {
    const units = Math.min(maxEvaluationUnits, allowance?.left ?? maxEvaluationUnits);
    evaluationBudget.left = units - ownUnits;
    if (evaluationBudget.isExceeded) return tooCostly;
    // An expression may cause an error in each round of a macro. Their stack traces are never read.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    try {
      return evaluate(view, allowance?.owner ?? "route");
    } catch (error) {
      if (error instanceof BudgetExceeded) return tooCostly;
      throw error;
    } finally {
      Error.stackTraceLimit = stackTraceLimit;
      // Work beyond the budget was not done, so it is not charged.
      if (allowance !== undefined) allowance.left -= units - Math.max(0, evaluationBudget.left);
    }
  };
}

let hasLoadedLocales = false;

/**
 * Loads the ICU data of time zones and decimals. Loading it at its first use would take far longer than the budget of
 * an evaluation.
 */
function loadLocales(expr: Expr): void {
  if (hasLoadedLocales || !callsSome(expr, (name) => name === "format" || /^get[A-Z]/.test(name))) return;
  hasLoadedLocales = true;
  new Intl.DateTimeFormat("en-US", { timeZone: "Asia/Tokyo", hour: "2-digit" }).formatToParts(0);
  new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 }).format(1.5);
}

/** Recognizes a missing map entry. The library distinguishes it by the message only. */
function isMissingField(message: string): boolean {
  return message.startsWith("field not found");
}

function asScalar(value: CelValue | CelInput): Scalar | undefined {
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "bigint" || typeof value === "boolean") return value;
  return isCelUint(value) ? value.value : undefined;
}
