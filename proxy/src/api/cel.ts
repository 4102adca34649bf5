/** CEL expressions as fields of resources. */
import { maxExpressionLength, parseExpression, type Use } from "../cel/expression.ts";
import * as z from "zod";
import { text } from "./schema.ts";

/** Text that compiles as a CEL expression over a request. */
export const celExpression = z
  .unknown()
  // The API server cannot compile it: what does not compile is told by the policy's status.
  .meta({ type: "string", minLength: 1, maxLength: maxExpressionLength })
  .transform((value, context) => {
    if (typeof value !== "string" || value === "") {
      context.addIssue({ code: "custom", params: { accepted }, input: value });
      return z.NEVER;
    }
    const parsed = parseExpression(value);
    if (parsed.ok) return value;
    for (const { message } of parsed.problems) context.addIssue({ code: "custom", message });
    return z.NEVER;
  });

/** An expression that was read but may be wrong: then the rest of its resource can still be served. */
export interface CheckedExpression {
  readonly source: string;
  /** What is wrong, each with its place in the source; empty when it is sound. */
  readonly faults: readonly string[];
}

/** Text that is meant as an expression for `use`; what is wrong with it is told by whoever serves it. */
export function checkedExpression(use: Use) {
  return text(accepted, { max: maxExpressionLength }).transform((source) => checkExpression(source, use));
}

/** Checks one text; never refuses it. */
export function checkExpression(source: string, use: Use): CheckedExpression {
  const parsed = parseExpression(source, use);
  return { source, faults: parsed.ok ? [] : parsed.problems.map(({ message }) => message) };
}

const accepted = `a CEL expression of 1 to ${maxExpressionLength} characters`;
