/** What the headers of a gRPC call say (gRPC over HTTP/2, "Requests"), and the answer to those that say it wrong. */
import { encodeHeaderBlock } from "@gatewayproxy/runtime/http2/hpack-encoder";
import { shownPath } from "@gatewayproxy/runtime/redaction";
import type { RequestHead } from "../http2/request-head.ts";
import type { GrpcMethod, GrpcMethods } from "./method.ts";
import { errorResponse, GrpcError, StatusCode } from "./status.ts";

export type CallHead =
  | {
      readonly kind: "call";
      readonly method: GrpcMethod;
      /** From the arrival of the headers; absent when the client waits for ever. */
      readonly timeoutMs?: number;
      readonly encoding: MessageEncoding;
    }
  /** Not a call that can be served; `response` is the header block of the whole answer. */
  | { readonly kind: "refused"; readonly response: Buffer };

/** How messages with the compressed flag are compressed. */
export type MessageEncoding = "identity" | "gzip" | "deflate";

const acceptedEncodings: readonly string[] = ["identity", "gzip", "deflate"];
const acceptEncodingFields = ["grpc-accept-encoding", acceptedEncodings.join(",")];

const millisecondsOf: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 0.001,
  n: 0.000_001,
};

/** Reads a request's head as a call of one of the methods. */
export function readCallHead(head: RequestHead, methods: GrpcMethods): CallHead {
  if (head.method !== "POST") {
    return { kind: "refused", response: encodeHeaderBlock([":status", "405", "allow", "POST"]) };
  }
  if (!isGrpc(fieldOf(head, "content-type") ?? "")) {
    return { kind: "refused", response: encodeHeaderBlock([":status", "415"]) };
  }
  const method = methods.get(head.path);
  if (method === undefined) {
    return refuse(StatusCode.Unimplemented, `unknown method ${shownPath(head.path)}`);
  }
  const encoding = fieldOf(head, "grpc-encoding") ?? "identity";
  if (!isAccepted(encoding)) {
    return refuse(StatusCode.Unimplemented, `grpc-encoding ${encoding} is not supported`, acceptEncodingFields);
  }
  const timeout = fieldOf(head, "grpc-timeout");
  if (timeout === undefined) {
    return { kind: "call", method, encoding };
  }
  const timeoutMs = parseTimeout(timeout);
  return timeoutMs === undefined
    ? refuse(StatusCode.Internal, `grpc-timeout ${timeout} is not up to 8 digits and one of H, M, S, m, u, n`)
    : { kind: "call", method, encoding, timeoutMs };
}

/** Milliseconds of a grpc-timeout such as `100m`; `undefined` when it is none. */
export function parseTimeout(text: string): number | undefined {
  const unitMs = millisecondsOf[text.slice(-1)];
  const digits = text.slice(0, -1);
  return unitMs !== undefined && /^\d{1,8}$/.test(digits) ? Number(digits) * unitMs : undefined;
}

function refuse(code: StatusCode, message: string, extraFields: readonly string[] = []): CallHead {
  return { kind: "refused", response: errorResponse(new GrpcError(code, message), extraFields) };
}

function isGrpc(contentType: string): boolean {
  return /^application\/grpc(?:\+proto)?(?:$|[ ;])/.test(contentType);
}

function isAccepted(encoding: string): encoding is MessageEncoding {
  return acceptedEncodings.includes(encoding);
}

function fieldOf(head: RequestHead, name: string): string | undefined {
  for (let index = 0; index < head.fields.length; index += 2) {
    if (head.fields[index] === name) {
      return head.fields[index + 1];
    }
  }
  return undefined;
}
