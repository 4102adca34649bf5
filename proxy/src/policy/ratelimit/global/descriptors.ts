/**
 * A limit's descriptors for one request: their expressions evaluated into what the service is asked, and what it will be
 * charged. A descriptor that cannot be made is left out; whether the request simply does not have what it is about, or
 * the expression failed, is told apart.
 */
import { hash } from "node:crypto";
import { type Expression, failed, parseExpression, type Use } from "../../../cel/expression.ts";
import type { RequestView } from "../../../cel/request-view.ts";
import type { GlobalDescriptor } from "../../../ir/global-limit.ts";
import type { DescriptorEntry } from "./messages.ts";

export interface CompiledDescriptor {
  readonly descriptor: GlobalDescriptor;
  readonly entries: readonly { readonly key: string; readonly expression: Expression }[];
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
export function compileDescriptor(descriptor: GlobalDescriptor): CompiledDescriptor {
  const entries = descriptor.entries.map(({ key, expression }) => {
    return { key, expression: compile(expression, { phase: "body", gives: "text" }) };
  });
  const isOfRequest = descriptor.counts === "requests";
  const phase = isOfRequest ? "body" : "response";
  const cost = descriptor.cost === undefined ? undefined : compile(descriptor.cost, { phase, gives: "number" });
  const needsBody = [...entries.map(({ expression }) => expression), cost].some(
    (expression) => expression !== undefined && expression.phase !== "head",
  );
  return { descriptor, entries, cost, needsBody };
}

function compile(source: string, use: Use): Expression {
  const parsed = parseExpression(source, use);
  if (!parsed.ok) throw new Error(`expression ${source}: ${parsed.problems.map(({ message }) => message).join("; ")}`);
  return parsed.value;
}

/** The descriptor of a request; `absent` where it has nothing of the kind, `failed` where an expression went wrong. */
export function describeRequest(
  compiled: CompiledDescriptor,
  view: RequestView,
): RequestDescriptor | "absent" | "failed" {
  const entries: DescriptorEntry[] = [];
  for (const { key, expression } of compiled.entries) {
    const value = expression.tryEvaluate(view);
    if (value === undefined) return "absent";
    if (value === failed) return "failed";
    entries.push({ key, value });
  }
  if (compiled.descriptor.counts === "tokens") return { compiled, entries, hits: 0 };
  const hits = compiled.cost === undefined ? 1 : costOf(compiled.cost, view);
  return hits === undefined ? "failed" : { compiled, entries, hits };
}

/**
 * Tokens to charge for a response.
 *
 * @param view with what the response told.
 * @param totalTokens of the response.
 * @returns undefined where the cost cannot be told.
 */
export function chargeOf({ cost }: CompiledDescriptor, view: RequestView, totalTokens: number): number | undefined {
  return cost === undefined ? totalTokens : costOf(cost, view);
}

/** A whole number from 0 on, a fraction rounded up; undefined for anything else, so that no expression can corrupt a budget. */
function costOf(cost: Expression, view: RequestView): number | undefined {
  const value = cost.tryEvaluate(view);
  const units = typeof value === "string" ? Math.ceil(Number(value)) : Number.NaN;
  return Number.isSafeInteger(units) && units >= 0 ? units : undefined;
}

/** A longer key gives way to its digest, so that what is remembered by key is bounded in bytes too. */
const maxKeyLength = 256;

/** Tells apart what a service counts apart: lengths are written, so that no value can pass for two. */
export function keyOf(domain: string, { entries }: RequestDescriptor): string {
  let text = `${domain.length}:${domain}`;
  for (const { key, value } of entries) text += ` ${key.length}:${key}=${value.length}:${value}`;
  return text.length <= maxKeyLength ? text : hash("sha256", text, "base64");
}
