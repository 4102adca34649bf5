/**
 * Evaluates the expressions of a limit's descriptors for one request: the values for the decision, and the charge.
 *
 * Rule: a client does not escape a limit by leaving something out, or by sending a form that an expression cannot read.
 * A value that the request does not have is `noValue`, and a cost that cannot be computed is 1. A request whose cost
 * takes too much work to compute is denied (`costsTooMuch`), since its cost could be any number. The failure mode is
 * not used for it, because a client must not be able to select the failure mode.
 */
import { hash } from "node:crypto";
import { type Expression, failed, parseExpression, type Use } from "../../../cel/expression.ts";
import type { RequestView } from "../../../cel/request-view.ts";
import { isCostTooCostly, maxUnits, unitsOf } from "../cost.ts";
import type { GlobalDescriptor } from "../../../ir/global-limit.ts";
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
  /** The hits; undefined: 1 for a request, and all tokens for a response. */
  readonly cost: Expression | undefined;
  /** Its entries, or its cost if that is needed before the response, read the request's body. */
  readonly needsBody: boolean;
}

/** A descriptor of one request. */
export interface RequestDescriptor {
  readonly compiled: CompiledDescriptor;
  readonly entries: readonly DescriptorEntry[];
  /** Units that the request costs; 0 for tokens, which are counted after the response. */
  readonly hits: number;
}

/** Compiles a descriptor. Throws if an expression does not parse, which the configuration's validation excludes. */
export function compileDescriptor(descriptor: GlobalDescriptor, target: string): CompiledDescriptor {
  const entries = descriptor.entries.map(({ key, expression, skipsAbsent = false }) => {
    return { key, expression: compile(expression, { phase: "body", result: "text" }), skipsAbsent };
  });
  const countsRequests = descriptor.counts === "requests";
  const phase = countsRequests ? "body" : "response";
  const cost = descriptor.cost === undefined ? undefined : compile(descriptor.cost, { phase, result: "number" });
  const needsBody = [...entries.map(({ expression }) => expression), cost].some(
    (expression) => expression !== undefined && expression.phase !== "head",
  );
  return { descriptor, target, entries, cost, needsBody };
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

/** Returns the descriptor of a request; undefined if the descriptor skips requests without the values that it reads. */
export function describeRequest(compiled: CompiledDescriptor, view: RequestView): RequestDescriptor | undefined {
  const allowance = view.work?.allowanceOf(compiled.target);
  const entries: DescriptorEntry[] = [];
  for (const { key, expression, skipsAbsent } of compiled.entries) {
    const value = expression.tryEvaluate(view, allowance);
    if (value === undefined && skipsAbsent) return undefined;
    entries.push({ key, value: value === undefined || value === failed || value === "" ? noValue : value });
  }
  const hits = compiled.descriptor.counts === "tokens" ? 0 : (unitsOf(compiled.cost, view, compiled.target) ?? 1);
  return { compiled, entries, hits };
}

/**
 * Returns whether the cost takes too much work to compute, of the request, or of its response as far as the request
 * determines it.
 */
export function costsTooMuch({ cost, descriptor, target }: CompiledDescriptor, view: RequestView): boolean {
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
