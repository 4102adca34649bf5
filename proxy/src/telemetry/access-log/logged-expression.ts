/** Expressions whose values are logged. Credentials are redacted as in dumps. */
import { redactValue, secretExpressionCheck } from "@gatewayproxy/runtime/redaction";
import type { Result } from "@gatewayproxy/runtime/problem";
import { parseExpression, type Scalar } from "../../cel/expression.ts";
import { type LogFieldName, logFieldKinds } from "../../cel/log-fields.ts";
import { shownText } from "../shown-text.ts";
import type { Ended } from "./ended-request.ts";

/** A value of a field. */
export type LogValue = string | number | boolean | readonly string[];

/** Reads a value of a request; undefined if the request does not have it. */
export type ReadValue = (request: Ended) => LogValue | undefined;

/** Whether a text is the name of a field of the line. */
export function isLogField(name: string): name is LogFieldName {
  return Object.hasOwn(logFieldKinds, name);
}

/** Returns a reader of a field of the line, which is redacted. */
export function readField(name: LogFieldName): ReadValue {
  return ({ line }) => line[name];
}

/**
 * Parses an expression whose value is logged. The value of an expression with the name of a secret is logged as a
 * fingerprint; texts are redacted and cut as all texts of clients are. `log.NAME` alone is the field as in the line.
 */
export function parseLoggedExpression(source: string): Result<ReadValue> {
  const [, name = ""] = /^\s*log\.(\w+)\s*$/.exec(source) ?? [];
  if (isLogField(name)) return { ok: true, value: readField(name) };
  const parsed = parseExpression(source, { phase: "end", result: "text" });
  if (!parsed.ok) return parsed;
  const { evaluateScalar } = parsed.value;
  const isSecret = secretExpressionCheck(source);
  const read: ReadValue = (request) => {
    const value = evaluateScalar(request.view, request.allowance);
    if (value === undefined) return undefined;
    return isSecret() ? redactValue(String(value), true).text : shownValue(value);
  };
  return { ok: true, value: read };
}

/** JSON has no integers of 64 bits, and neither infinity nor NaN. */
function shownValue(value: Scalar): LogValue {
  if (typeof value === "string") return shownText(value);
  if (typeof value === "boolean") return value;
  const number = Number(value);
  const isExact = typeof value === "number" ? Number.isFinite(value) : Number.isSafeInteger(number);
  return isExact ? number : String(value);
}
