/** Error responses of the API server, with their retry delay. */
import type { IncomingHttpHeaders } from "node:http";
import { detachedText } from "@gatewayproxy/runtime/detached-text";
import { fieldsOf } from "./object.ts";

/**
 * The maximum length of a message. An admission webhook may take it from what a tenant has written, and it is kept for
 * each object and logged.
 */
const maxMessageLength = 2_048;

/** An error response, or an event that ends a watch (`metav1.Status`). */
export class ApiFailure extends Error {
  /** The HTTP status, or the `code` of the Status. */
  readonly status: number;
  /** The `Retry-After` of the response, in ms. */
  readonly retryAfterMs: number | undefined;

  constructor(status: number, message: string, retryAfterMs?: number) {
    super(message);
    this.name = "ApiFailure";
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

/**
 * Builds the error for a response.
 *
 * @param body the parsed body, normally a Status.
 */
export function failureOfResponse(status: number, headers: IncomingHttpHeaders, body: unknown): ApiFailure {
  const message = textField(body, "message") ?? `the API server responded with ${status}`;
  const seconds = Number(headers["retry-after"]);
  return new ApiFailure(status, message, Number.isFinite(seconds) && seconds > 0 ? seconds * 1_000 : undefined);
}

/** Builds the error for an event of type ERROR. */
export function failureOfEvent(status: unknown): ApiFailure {
  const { code = 0 } = fieldsOf(status);
  return new ApiFailure(Number(code), textField(status, "message") ?? "the watch failed");
}

function textField(value: unknown, field: string): string | undefined {
  const found = fieldsOf(value)[field];
  if (typeof found !== "string" || found === "") return undefined;
  if (found.length <= maxMessageLength) return found;
  return `${detachedText(found.slice(0, maxMessageLength - 1).toWellFormed())}…`;
}
