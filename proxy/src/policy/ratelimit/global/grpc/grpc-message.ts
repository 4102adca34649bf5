/** How gRPC frames messages and tells how a call ended (gRPC over HTTP/2, "Requests" and "Responses"). */
import { type CallOutcome, callFailure, type FailureCause } from "./unary-client.ts";

const prefixBytes = 5;

/** Length-Prefixed-Message, not compressed. */
export function frameMessage(message: Buffer): Buffer {
  const framed = Buffer.allocUnsafe(prefixBytes + message.length);
  framed[0] = 0;
  framed.writeUInt32BE(message.length, 1);
  message.copy(framed, prefixBytes);
  return framed;
}

/** How long a body is with its framing, by what it begins with; 0 where that has too few bytes to tell. */
export function announcedBytes(beginning: Buffer): number {
  return beginning.length < prefixBytes ? 0 : prefixBytes + beginning.readUInt32BE(1);
}

/**
 * By status code (google.rpc.Code). `rejected` and `exhausted` are about this one call: others may well be answered. All that
 * are not listed and not 0 are failures of the service. UNKNOWN says that it cannot serve: the reference service answers so
 * while it has no Redis or no configuration.
 */
const causesByStatus: Readonly<Record<string, FailureCause>> = {
  "2": "unavailable", // UNKNOWN
  "3": "rejected", // INVALID_ARGUMENT
  "4": "timeout", // DEADLINE_EXCEEDED: the service has given up at the deadline that we told it.
  "5": "rejected", // NOT_FOUND
  "6": "rejected", // ALREADY_EXISTS
  "7": "rejected", // PERMISSION_DENIED
  "8": "exhausted", // RESOURCE_EXHAUSTED
  "9": "rejected", // FAILED_PRECONDITION
  "11": "rejected", // OUT_OF_RANGE, as tonic answers messages that are too long
  "12": "rejected", // UNIMPLEMENTED
  "14": "unavailable", // UNAVAILABLE
  "16": "rejected", // UNAUTHENTICATED
};

/** The same for HTTP statuses of a proxy in between; of the others, those below 500 are `rejected`. */
const causesByHttpStatus: Readonly<Record<number, FailureCause>> = {
  408: "timeout",
  429: "exhausted",
  502: "unavailable",
  503: "unavailable",
  504: "unavailable",
};

/** How long a message of a service is told. */
const maxMessageLength = 200;

/**
 * What a finished answer comes to.
 *
 * @param httpStatus `:status`; a proxy in between may answer in gRPC's place.
 * @param grpcStatus `grpc-status` as it came; undefined where it did not.
 * @param body all of it, framing included.
 */
export function concludeCall(
  httpStatus: number,
  grpcStatus: string | undefined,
  grpcMessage: string | undefined,
  body: Buffer,
): CallOutcome {
  if (grpcStatus === undefined) {
    if (httpStatus === 200) return callFailure("garbage", "an answer without grpc-status");
    const cause = causesByHttpStatus[httpStatus] ?? (httpStatus >= 500 ? "failed" : "rejected");
    return callFailure(cause, `an answer with HTTP status ${httpStatus}`);
  }
  if (grpcStatus !== "0") {
    const cause = Object.hasOwn(causesByStatus, grpcStatus) ? causesByStatus[grpcStatus] : undefined;
    if (cause === "timeout") return callFailure(cause, "the service did not answer in time");
    const said = grpcMessage === undefined ? "" : `: ${printable(grpcMessage)}`;
    return callFailure(cause ?? "failed", `gRPC status ${printable(grpcStatus)}${said}`);
  }
  if (body.length < prefixBytes || body[0] !== 0 || body.readUInt32BE(1) !== body.length - prefixBytes) {
    return callFailure("garbage", "an answer that is not one uncompressed message");
  }
  return { kind: "answered", message: body.subarray(prefixBytes) };
}

/** `grpc-message` is percent-encoded; decoded for people, and never more than a line. */
function printable(text: string): string {
  let decoded = text;
  try {
    decoded = decodeURIComponent(text);
  } catch {
    // Told as it came.
  }
  return decoded.replaceAll(/\p{Cc}/gu, " ").slice(0, maxMessageLength);
}
