/**
 * A limit's descriptors for one request: their expressions evaluated into what the service is asked, and what it will be
 * charged.
 *
 * Rule: a client leaves no limit by what it leaves out, or sends in a form that an expression cannot read. A value that the
 * request does not have is `noValue`, and a cost that cannot be told is 1. A request for which the cost takes too much work
 * to compute is refused (`costsTooMuch`): it could be any. The failure mode is for services that fail; a client must not
 * choose it.
 */
import { hash } from "node:crypto";
import { type Expression, failed, parseExpression, type Use } from "../../../cel/expression.ts";
import type { RequestView } from "../../../cel/request-view.ts";
import type { GlobalDescriptor } from "../../../ir/global-limit.ts";
import type { DescriptorEntry } from "./messages.ts";

export interface CompiledDescriptor {
  readonly descriptor: GlobalDescriptor;
  /** Of its policy. */
  readonly target: string;
  readonly entries: readonly {
    readonly key: string;
    readonly expression: Expression;
    readonly skipsAbsent: boolean;
  }[];
  readonly cost: Expression | undefined;
  /** Its entries, or its cost where that is needed before the response, ask for the request's body. */
  readonly needsBody: boolean;
}

/** A descriptor of one request. */
export interface RequestDescriptor {
  readonly compiled: CompiledDescriptor;
  readonly entries: readonly DescriptorEntry[];
  /** Units that the request costs; 0 for tokens, which are known later. */
  readonly hits: number;
}

/** Throws when an expression does not parse, which the configuration's own check has ruled out. */
export function compileDescriptor(descriptor: GlobalDescriptor, target: string): CompiledDescriptor {
  const entries = descriptor.entries.map(({ key, expression, skipsAbsent = false }) => {
    return { key, expression: compile(expression, { phase: "body", gives: "text" }), skipsAbsent };
  });
  const isOfRequest = descriptor.counts === "requests";
  const phase = isOfRequest ? "body" : "response";
  const cost = descriptor.cost === undefined ? undefined : compile(descriptor.cost, { phase, gives: "number" });
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

/** The value of an entry for which a request has none. Not empty: Envoy's protocol wants at least one character. */
export const noValue = "-";

/** The descriptor of a request; undefined where it is not for requests without what it reads. */
export function describeRequest(compiled: CompiledDescriptor, view: RequestView): RequestDescriptor | undefined {
  const allowance = view.work?.allowanceOf(compiled.target);
  const entries: DescriptorEntry[] = [];
  for (const { key, expression, skipsAbsent } of compiled.entries) {
    const value = expression.tryEvaluate(view, allowance);
    if (value === undefined && skipsAbsent) return undefined;
    entries.push({ key, value: value === undefined || value === failed || value === "" ? noValue : value });
  }
  const hits = compiled.descriptor.counts === "tokens" ? 0 : (costOf(compiled, view) ?? 1);
  return { compiled, entries, hits };
}

/** Whether the cost of a request, or of its response as far as the request decides it, takes too much work to compute. */
export function costsTooMuch({ cost, descriptor, target }: CompiledDescriptor, view: RequestView): boolean {
  if (cost === undefined) return false;
  const asked = descriptor.counts === "tokens" ? { ...view, llm: { ...view.llm, ...anyUsage } } : view;
  return cost.exceedsBudget(asked, view.work?.allowanceOf(target));
}

/** In the place of what a response will tell. */
const anyUsage = { inputTokens: 1, outputTokens: 1, totalTokens: 2, responseModel: "x".repeat(256) };

/**
 * Tokens to charge for a response; all of them where the cost cannot be told.
 *
 * @param view with what the response told.
 * @param totalTokens of the response.
 */
export function chargeOf(compiled: CompiledDescriptor, view: RequestView, totalTokens: number): number {
  return costOf(compiled, view) ?? Math.min(totalTokens, maxUnits);
}

/**
 * The most units that a call counts for a descriptor. No limit of a service is larger (`requests_per_unit` is a uint32), and
 * a counter of 64 bits cannot be made to overflow with it, which would make the service fail.
 */
export const maxUnits = 0xffff_ffff;

/** A whole number from 0 to `maxUnits`, a fraction rounded up; undefined for no number and a negative one. */
function costOf({ cost, target }: CompiledDescriptor, view: RequestView): number | undefined {
  const value = cost?.tryEvaluate(view, view.work?.allowanceOf(target));
  const units = typeof value === "string" && value !== "" ? Math.ceil(Number(value)) : Number.NaN;
  return units >= 0 ? Math.min(units, maxUnits) : undefined;
}

/** A longer key gives way to its digest, so that what is remembered by key is bounded in bytes too. */
const maxKeyLength = 256;

/** Tells apart what a service counts apart: lengths are written, so that no value can pass for two. */
export function keyOf(domain: string, { entries }: RequestDescriptor): string {
  let text = `${domain.length}:${domain}`;
  for (const { key, value } of entries) text += ` ${key.length}:${key}=${value.length}:${value}`;
  return text.length <= maxKeyLength ? text : hash("sha256", text, "base64");
}
