/** CEL expressions as fields of resources. */
import { maxExpressionLength, parseExpression, type Use } from "../cel/expression.ts";
import * as z from "zod";
import { text } from "./schema.ts";

/** Text that compiles as a CEL expression for `use`. */
export function celExpression(use: Use) {
  return (
    z
      .unknown()
      // The API server cannot compile the expression, so errors in it are reported in the status of the policy.
      .meta({ type: "string", minLength: 1, maxLength: maxExpressionLength })
      .transform((value, context) => {
        if (typeof value !== "string" || value === "") {
          context.addIssue({ code: "custom", params: { accepted }, input: value });
          return z.NEVER;
        }
        const parsed = parseExpression(value, use);
        if (parsed.ok) return value;
        for (const { message } of parsed.problems) context.addIssue({ code: "custom", message });
        return z.NEVER;
      })
  );
}

/** An expression that may have errors. The rest of its resource can be served without it. */
export interface CheckedExpression {
  readonly source: string;
  /** The errors with their positions in the source; empty for a valid expression. */
  readonly errors: readonly string[];
}

/** Text that should be an expression for `use`. Its errors are left to the caller to report. */
export function checkedExpression(use: Use) {
  return text(accepted, { max: maxExpressionLength }).transform((source) => checkExpression(source, use));
}

/** Checks an expression; never throws. */
export function checkExpression(source: string, use: Use): CheckedExpression {
  const parsed = parseExpression(source, use);
  return { source, errors: parsed.ok ? [] : parsed.problems.map(({ message }) => message) };
}

const accepted = `a CEL expression of 1 to ${maxExpressionLength} characters`;
