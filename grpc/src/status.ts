/**
 * gRPC statuses and their encoding: header blocks for each way in which a call can end (gRPC over HTTP/2, "Responses").
 */
import { encodeHeaderBlock } from "@gatewayproxy/http/http2/hpack/hpack-encoder";

/** Status codes of gRPC. */
export const StatusCode = {
  Ok: 0,
  Unknown: 2,
  InvalidArgument: 3,
  DeadlineExceeded: 4,
  NotFound: 5,
  ResourceExhausted: 8,
  Unimplemented: 12,
  Internal: 13,
  Unavailable: 14,
} as const;

/** One of the status codes that this server sends. */
export type StatusCode = (typeof StatusCode)[keyof typeof StatusCode];

/** Ends a call with this status. The message goes to the client. */
export class GrpcError extends Error {
  readonly code: StatusCode;

  constructor(code: StatusCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "GrpcError";
    this.code = code;
  }
}

/** Starts a response with messages. */
export const responseHeaders: Buffer = encodeHeaderBlock([":status", "200", "content-type", "application/grpc"]);

/** Ends a successful call. */
export const okTrailers: Buffer = encodeHeaderBlock(["grpc-status", "0"]);

/** Encodes the trailers that end a call after its response headers. */
export function errorTrailers(error: GrpcError): Buffer {
  return encodeHeaderBlock(statusFields(error));
}

/** Encodes a response with an error only; `extraFields` are [name, value, …]. */
export function errorResponse(error: GrpcError, extraFields: readonly string[] = []): Buffer {
  return encodeHeaderBlock([
    ":status",
    "200",
    "content-type",
    "application/grpc",
    ...statusFields(error),
    ...extraFields,
  ]);
}

function statusFields(error: GrpcError): string[] {
  return ["grpc-status", String(error.code), "grpc-message", percentEncode(error.message)];
}

/** Maximum length of a message; clients reject longer ones by their header limit. */
const maxMessageBytes = 2_048;

/** Encodes `grpc-message`: UTF-8, percent-encoded except for printable ASCII without `%`. */
export function percentEncode(text: string): string {
  let encoded = "";
  for (const byte of Buffer.from(text, "utf8").subarray(0, maxMessageBytes)) {
    const isPlain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25;
    encoded += isPlain ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  // A field's value cannot begin or end with a space.
  return encoded.replace(/^ | $/g, "%20");
}
