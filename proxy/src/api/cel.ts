/** CEL expressions as fields of resources. */
import { maxExpressionLength, parseExpression } from "../cel/expression.ts";
import * as z from "zod";

/** Text that compiles as a CEL expression over a request. */
export const celExpression = z.unknown().transform((value, context) => {
  if (typeof value !== "string" || value === "") {
    context.addIssue({ code: "custom", params: { accepted }, input: value });
    return z.NEVER;
  }
  const parsed = parseExpression(value);
  if (parsed.ok) return value;
  for (const { message } of parsed.problems) context.addIssue({ code: "custom", message });
  return z.NEVER;
});

const accepted = `a CEL expression of 1 to ${maxExpressionLength} characters`;
