/** How gRPC frames messages and tells how a call ended (gRPC over HTTP/2, "Requests" and "Responses"). */
import { type CallOutcome, callFailure } from "./unary-client.ts";

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
 * Status codes that say that the call itself was refused; all others that are not 0 say that the service cannot serve.
 * UNKNOWN (2) is one of the others: the reference service answers so while it has no Redis or no configuration.
 */
const rejections: ReadonlySet<string> = new Set([
  "3", // INVALID_ARGUMENT
  "5", // NOT_FOUND
  "7", // PERMISSION_DENIED
  "9", // FAILED_PRECONDITION
  "12", // UNIMPLEMENTED
  "16", // UNAUTHENTICATED
]);

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
    return callFailure(httpStatus >= 500 ? "unavailable" : "rejected", `an answer with HTTP status ${httpStatus}`);
  }
  if (grpcStatus !== "0") {
    // DEADLINE_EXCEEDED: the service has given up at the deadline that we told it.
    if (grpcStatus === "4") return callFailure("timeout", "the service did not answer in time");
    const said = grpcMessage === undefined ? "" : `: ${printable(grpcMessage)}`;
    return callFailure(
      rejections.has(grpcStatus) ? "rejected" : "unavailable",
      `gRPC status ${printable(grpcStatus)}${said}`,
    );
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
