/** The outcome of a unary call (gRPC over HTTP/2, "Responses"). */
import { prefixBytes } from "../message-framing.ts";
import { type CallOutcome, callFailure, type FailureCause } from "./unary-client.ts";

/** Returns the length of a body with its framing, from its prefix; 0 if `beginning` is shorter than the prefix. */
export function framedLength(beginning: Buffer): number {
  return beginning.length < prefixBytes ? 0 : prefixBytes + beginning.readUInt32BE(1);
}

/**
 * Failure causes by status code (google.rpc.Code). `rejected` and `exhausted` are about this one call: others may
 * succeed. Codes that are not listed and not 0 are failures of the service. UNKNOWN means that it cannot serve:
 * envoyproxy/ratelimit returns it while it has no Redis or no configuration.
 */
const causesByStatus: Readonly<Record<string, FailureCause>> = {
  "2": "unavailable", // UNKNOWN
  "3": "rejected", // INVALID_ARGUMENT
  "4": "timeout", // DEADLINE_EXCEEDED: the service gave up at the deadline of the call.
  "5": "rejected", // NOT_FOUND
  "6": "rejected", // ALREADY_EXISTS
  "7": "rejected", // PERMISSION_DENIED
  "8": "exhausted", // RESOURCE_EXHAUSTED
  "9": "rejected", // FAILED_PRECONDITION
  "11": "rejected", // OUT_OF_RANGE, as tonic reports messages that are too long
  "12": "rejected", // UNIMPLEMENTED
  "14": "unavailable", // UNAVAILABLE
  "16": "rejected", // UNAUTHENTICATED
};

/** Failure causes by HTTP status of a proxy in between; others below 500 are `rejected`. */
const causesByHttpStatus: Readonly<Record<number, FailureCause>> = {
  408: "timeout",
  429: "exhausted",
  502: "unavailable",
  503: "unavailable",
  504: "unavailable",
};

/** Maximum characters of a service's message in the log. */
const maxMessageLength = 200;

/**
 * Returns the outcome of a complete response.
 *
 * @param httpStatus `:status`; a proxy in between may respond without gRPC.
 * @param grpcStatus `grpc-status` as received; undefined if absent.
 * @param body The whole body, with its framing.
 */
export function outcomeOf(
  httpStatus: number,
  grpcStatus: string | undefined,
  grpcMessage: string | undefined,
  body: Buffer,
): CallOutcome {
  if (grpcStatus === undefined) {
    if (httpStatus === 200) return callFailure("garbage", "a response without grpc-status");
    const cause = causesByHttpStatus[httpStatus] ?? (httpStatus >= 500 ? "failed" : "rejected");
    return callFailure(cause, `a response with HTTP status ${httpStatus}`);
  }
  if (grpcStatus !== "0") {
    const cause = Object.hasOwn(causesByStatus, grpcStatus) ? causesByStatus[grpcStatus] : undefined;
    if (cause === "timeout") return callFailure(cause, "the service did not respond in time");
    const detail = grpcMessage === undefined ? "" : `: ${printable(grpcMessage)}`;
    return callFailure(cause ?? "failed", `gRPC status ${printable(grpcStatus)}${detail}`);
  }
  if (body.length < prefixBytes || body[0] !== 0 || body.readUInt32BE(1) !== body.length - prefixBytes) {
    return callFailure("garbage", "a response that is not one uncompressed message");
  }
  return { kind: "responded", message: body.subarray(prefixBytes) };
}

/** Decodes a percent-encoded `grpc-message` and limits it to one line. */
function printable(text: string): string {
  let decoded = text;
  try {
    decoded = decodeURIComponent(text);
  } catch {
    // Invalid encoding: shown as received.
  }
  return decoded.replaceAll(/\p{Cc}/gu, " ").slice(0, maxMessageLength);
}
