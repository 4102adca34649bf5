/** What the API server refuses, and when to ask it again. */
import type { IncomingHttpHeaders } from "node:http";
import { fieldsOf } from "./object.ts";

/** An answer that is no success, or an event that ends a watch (`metav1.Status`). */
export class ApiFailure extends Error {
  /** HTTP status, or `code` of the Status. */
  readonly status: number;
  /** How long the server asks to be left alone. */
  readonly retryAfterMs: number | undefined;

  constructor(status: number, message: string, retryAfterMs?: number) {
    super(message);
    this.name = "ApiFailure";
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

/** @param body the answer, parsed: a Status as a rule. */
export function failureOf(status: number, headers: IncomingHttpHeaders, body: unknown): ApiFailure {
  const message = textField(body, "message") ?? `the API server answered ${status}`;
  const seconds = Number(headers["retry-after"]);
  return new ApiFailure(status, message, Number.isFinite(seconds) && seconds > 0 ? seconds * 1_000 : undefined);
}

/** The failure that an event of type ERROR tells. */
export function failureOfEvent(status: unknown): ApiFailure {
  const { code = 0 } = fieldsOf(status);
  return new ApiFailure(Number(code), textField(status, "message") ?? "the watch failed");
}

function textField(value: unknown, field: string): string | undefined {
  const found = fieldsOf(value)[field];
  return typeof found === "string" && found !== "" ? found : undefined;
}
