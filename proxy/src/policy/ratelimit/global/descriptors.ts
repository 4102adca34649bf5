/**
 * Evaluates the expressions of a limit's descriptors for one request: the values for the decision, and the charge.
 *
 * Rule: a client does not escape a limit by leaving something out, or by sending a form that an expression cannot read.
 * A value that the request does not have is `noValue`, and a cost that cannot be computed is 1. A condition exempts a
 * request only if it is false. An override without a value is the number beside it, or the limit of the service. A
 * request whose cost or override takes too much work to compute is denied (`costsTooMuch`), since either could be any
 * number. The failure mode is not used for it, because a client must not be able to select the failure mode.
 */
import { hash } from "node:crypto";
import { type Expression, failed, parseExpression, type Use } from "../../../cel/expression.ts";
import type { RequestView } from "../../../cel/request-view.ts";
import { isCostTooCostly, maxUnits, unitsOf, viewWithUsage } from "../cost.ts";
import type {
  DescriptorNotApplied,
  GlobalDescriptor,
  GlobalLimit,
  LimitOverride,
  OverrideRule,
} from "../../../ir/global-limit.ts";
import type { DescriptorEntry } from "./messages.ts";

/** A descriptor with its compiled expressions. */
export interface CompiledDescriptor {
  readonly descriptor: GlobalDescriptor;
  /** `LocalLimit.target` of its policy. */
  readonly target: string;
  readonly entries: readonly {
    readonly key: string;
    readonly expression: Expression;
    readonly skipsAbsent: boolean;
  }[];
  /** The descriptor applies unless its value is false; undefined: to every request. */
  readonly when: Expression | undefined;
  /** The hits; undefined: 1 for a request, and all tokens for a response. */
  readonly cost: Expression | undefined;
  /** The amount of the override; undefined: the constant one, if any. */
  readonly amount: Expression | undefined;
  /** The override of a request for which `amount` has no value; undefined: none. */
  readonly override: LimitOverride | undefined;
  /** All expressions. */
  readonly expressions: readonly Expression[];
  /**
   * An expression that is needed before the response, or the cost, reads the request's body, or an estimate depends on
   * it.
   */
  readonly needsBody: boolean;
}

/** A descriptor of one request. */
export interface RequestDescriptor {
  readonly compiled: CompiledDescriptor;
  readonly entries: readonly DescriptorEntry[];
  /** Units that the request costs; of tokens the estimate that it holds until its response, 0 if it holds none. */
  readonly hits: number;
  /** The limit in place of that of the service; undefined: none. The charge of the response has it too. */
  readonly override: LimitOverride | undefined;
}

/** What a limit sends for a request. */
export interface DescribedRequest {
  readonly descriptors: readonly RequestDescriptor[];
  /** The descriptors that do not apply. */
  readonly notApplied: readonly DescriptorNotApplied[];
}

/** Compiles a descriptor. Throws if an expression does not parse, which the configuration's validation excludes. */
export function compileDescriptor(descriptor: GlobalDescriptor, target: string): CompiledDescriptor {
  const { when: condition, limitOverride } = descriptor;
  const entries = descriptor.entries.map(({ key, expression, skipsAbsent = false }) => {
    return { key, expression: compile(expression, { phase: "body", result: "text" }), skipsAbsent };
  });
  const countsRequests = descriptor.counts === "requests";
  const phase = countsRequests ? "body" : "response";
  const cost = compileField(descriptor.cost, { phase, result: "number" });
  const when = compileField(condition, { phase: "body", result: "condition" });
  const amount = compileField(limitOverride?.requestsPerUnitFrom, { phase: "body", result: "number" });
  const override = constantOverride(limitOverride);
  const optional = [when, cost, amount].filter((expression) => expression !== undefined);
  const expressions = [...entries.map(({ expression }) => expression), ...optional];
  const needsBody = descriptor.reserves === true || expressions.some((expression) => expression.phase !== "head");
  return { descriptor, target, entries, when, cost, amount, override, expressions, needsBody };
}

/** Returns the override without its expression; undefined without a number. */
function constantOverride(rule: OverrideRule | undefined): LimitOverride | undefined {
  if (rule?.requestsPerUnit === undefined) return undefined;
  return { requestsPerUnit: rule.requestsPerUnit, unit: rule.unit };
}

function compileField(source: string | undefined, use: Use): Expression | undefined {
  return source === undefined ? undefined : compile(source, use);
}

function compile(source: string, use: Use): Expression {
  const parsed = parseExpression(source, use);
  if (!parsed.ok) throw new Error(`expression ${source}: ${parsed.problems.map(({ message }) => message).join("; ")}`);
  return parsed.value;
}

/**
 * The value of an entry that has none in the request. Not empty, since Envoy's protocol requires at least one
 * character.
 */
export const noValue = "-";

/** Returns the descriptor of a request, or why it does not apply. */
export function describeRequest(
  compiled: CompiledDescriptor,
  view: RequestView,
): RequestDescriptor | DescriptorNotApplied["because"] {
  if (!appliesTo(compiled, view)) return "when";
  const allowance = view.work?.allowanceOf(compiled.target);
  const entries: DescriptorEntry[] = [];
  for (const { key, expression, skipsAbsent } of compiled.entries) {
    const value = expression.tryEvaluate(view, allowance);
    if (value === undefined && skipsAbsent) return "ifAbsent";
    entries.push({ key, value: value === undefined || value === failed || value === "" ? noValue : value });
  }
  const override = overrideOf(compiled, view);
  const isCounted = compiled.descriptor.counts === "requests";
  const hits = isCounted ? (unitsOf(compiled.cost, view, compiled.target) ?? 1) : heldHitsOf(compiled, view, override);
  return { compiled, entries, hits, override };
}

/**
 * Returns the estimate that a request holds: at most the override, so that a larger request fits where nothing is
 * counted.
 */
function heldHitsOf(
  { descriptor, cost, target }: CompiledDescriptor,
  view: RequestView,
  override?: LimitOverride,
): number {
  const estimate = view.llm?.estimate;
  if (descriptor.reserves !== true || estimate === undefined) return 0;
  const costs = cost === undefined ? undefined : unitsOf(cost, viewWithUsage(view, estimate), target);
  return Math.min(costs ?? estimate.total, maxUnits, Math.max(1, override?.requestsPerUnit ?? maxUnits));
}

/** A condition without a value does not exempt a request. */
function appliesTo({ when, target }: CompiledDescriptor, view: RequestView): boolean {
  return when?.evaluate(view, view.work?.allowanceOf(target)) !== "false";
}

function overrideOf({ amount, override, descriptor, target }: CompiledDescriptor, view: RequestView) {
  const unit = descriptor.limitOverride?.unit;
  if (amount === undefined || unit === undefined) return override;
  const requestsPerUnit = uint32Of(amount.evaluate(view, view.work?.allowanceOf(target)));
  return requestsPerUnit === undefined ? override : { requestsPerUnit, unit };
}

/**
 * Returns a whole number from 0 to 2^32 - 1, fractions rounded down. Undefined for any other value: a larger one is not
 * reduced to the bound, since no such limit was meant.
 */
function uint32Of(value: string | undefined): number | undefined {
  if (value === undefined || value.trim() === "") return undefined;
  const amount = Math.floor(Number(value));
  // Not -0, which is no number of a message.
  return amount >= 0 && amount <= maxUnits ? Math.abs(amount) : undefined;
}

/**
 * Returns whether the descriptor applies, and its cost takes too much work to compute, of the request, or of its
 * response as far as the request determines it; or the amount of its override does.
 */
export function costsTooMuch(compiled: CompiledDescriptor, view: RequestView): boolean {
  const { amount, cost, descriptor, target } = compiled;
  if (amount === undefined && cost === undefined) return false;
  if (!appliesTo(compiled, view)) return false;
  if (amount?.exceedsBudget(view, view.work?.allowanceOf(target)) === true) return true;
  return isCostTooCostly(cost, descriptor.counts, view, target);
}

/**
 * Returns the tokens to charge for a response; all of them if the cost cannot be computed.
 *
 * @param view With the usage of the response.
 * @param totalTokens Of the response.
 */
export function chargeOf({ cost, target }: CompiledDescriptor, view: RequestView, totalTokens: number): number {
  return unitsOf(cost, view, target) ?? Math.min(totalTokens, maxUnits);
}

/** Returns a text that differs for overrides that the service enforces differently; empty without one. */
export function overrideKeyOf({ override }: RequestDescriptor): string {
  return override === undefined ? "" : ` of ${override.requestsPerUnit}/${override.unit}`;
}

/** Returns the namespace of a limit's policy. */
export function namespaceOf({ policy }: GlobalLimit): string {
  return policy.slice(0, policy.indexOf("/"));
}

/** A longer key is replaced by its digest, which bounds the memory of caches by key. */
const maxKeyLength = 256;

/**
 * Returns a key that differs for descriptors that the service counts separately. It contains lengths, so that no value
 * can imitate another.
 */
export function keyOf(domain: string, { entries }: RequestDescriptor): string {
  let text = `${domain.length}:${domain}`;
  for (const { key, value } of entries) text += ` ${key.length}:${key}=${value.length}:${value}`;
  return text.length <= maxKeyLength ? text : hash("sha256", text, "base64");
}
