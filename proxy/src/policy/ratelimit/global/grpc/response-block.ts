/** What a header block of an answer says, as far as a unary gRPC call is concerned (RFC 9113 §8.3.2). */
import { faultOfFields } from "@gatewayproxy/runtime/http2/fields";

export interface AnswerFields {
  readonly kind: "fields";
  /** `:status`; 0 in trailers. */
  readonly httpStatus: number;
  readonly grpcStatus: string | undefined;
  readonly grpcMessage: string | undefined;
}

export type ResponseBlock = AnswerFields | { readonly kind: "malformed"; readonly reason: string };

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
  // A second pseudo field, or a late one, is no field name.
  const fault = faultOfFields(regular);
  if (fault !== undefined) return malformed(fault);
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
