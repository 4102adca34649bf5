/** Reads the fields of a response's header block that matter for a unary gRPC call (RFC 9113 §8.3.2). */
import { fieldSectionError } from "@gatewayproxy/http/http2/fields";

/** The fields of a head or of trailers. */
export interface ResponseFields {
  readonly kind: "fields";
  /** `:status`; 0 in trailers. */
  readonly httpStatus: number;
  /** `grpc-status` as a decimal number; undefined if it is absent. */
  readonly grpcStatus: string | undefined;
  /** `grpc-message`, percent-encoded; undefined if it is absent. */
  readonly grpcMessage: string | undefined;
}

/** The fields of a header block, or why it is malformed. */
export type ResponseBlock = ResponseFields | { readonly kind: "malformed"; readonly reason: string };

function malformed(reason: string): ResponseBlock {
  return { kind: "malformed", reason };
}

/** Reads the fields of a response's head or trailers; undefined for too many. */
export function readResponseBlock(fields: readonly string[] | undefined): ResponseBlock {
  if (fields === undefined) return malformed("headers that are too large");
  let httpStatus = 0;
  let regular = fields;
  if (fields[0]?.startsWith(":") === true) {
    const [name, status = ""] = fields;
    if (name !== ":status" || !/^[1-9]\d\d$/.test(status)) return malformed("no valid :status");
    httpStatus = Number(status);
    regular = fields.slice(2);
  }
  // A repeated or late pseudo-header field is not a valid field name.
  const error = fieldSectionError(regular);
  if (error !== undefined) return malformed(error);
  return {
    kind: "fields",
    httpStatus,
    grpcStatus: valueOf(regular, "grpc-status"),
    grpcMessage: valueOf(regular, "grpc-message"),
  };
}

function valueOf(fields: readonly string[], name: string): string | undefined {
  for (let at = 0; at < fields.length; at += 2) if (fields[at] === name) return fields[at + 1];
  return undefined;
}
