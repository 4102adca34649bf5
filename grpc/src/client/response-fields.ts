/** Reads the fields of a response that matter for a unary call (gRPC over HTTP/2, "Responses"). */
import type { ResponseHead } from "@gatewayproxy/http/http2/client/response-block";

/** The fields of a head or of trailers. */
export interface ResponseFields {
  /** `grpc-status` as a decimal number; undefined if it is absent. */
  readonly grpcStatus: string | undefined;
  /** `grpc-message`, percent-encoded; undefined if it is absent. */
  readonly grpcMessage: string | undefined;
}

/** Reads the fields of a head or of trailers. */
export function readResponseFields({ fields }: ResponseHead): ResponseFields {
  return { grpcStatus: valueOf(fields, "grpc-status"), grpcMessage: valueOf(fields, "grpc-message") };
}

function valueOf(fields: readonly string[], name: string): string | undefined {
  for (let at = 0; at < fields.length; at += 2) if (fields[at] === name) return fields[at + 1];
  return undefined;
}
