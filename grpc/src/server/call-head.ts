/** Parses the headers of a gRPC call (gRPC over HTTP/2, "Requests"), and builds the response to invalid ones. */
import { encodeHeaderBlock } from "@gatewayproxy/http/http2/hpack/hpack-encoder";
import { redactPath } from "@gatewayproxy/runtime/redaction";
import type { RequestHead } from "@gatewayproxy/http/http2/server/request-head";
import type { MessageEncoding } from "../message-framing.ts";
import type { GrpcMethod, GrpcMethods } from "./method.ts";
import { errorResponse, GrpcError, StatusCode } from "../status.ts";

/** The result of parsing the headers of a call. */
export type CallHead =
  | {
      readonly kind: "call";
      readonly method: GrpcMethod;
      /** From the arrival of the headers; absent when the client sets no deadline. */
      readonly timeoutMs?: number;
      readonly encoding: MessageEncoding;
      /** Names in lower case and values, in turn; absent if the method does not read them. */
      readonly fields?: readonly string[];
    }
  /** A call that cannot be served; `response` is the header block of the whole response. */
  | { readonly kind: "rejected"; readonly response: Buffer };

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

/** Parses the headers of a request as a call of one of the methods. */
export function readCallHead(head: RequestHead, methods: GrpcMethods): CallHead {
  if (head.method !== "POST") {
    return { kind: "rejected", response: encodeHeaderBlock([":status", "405", "allow", "POST"]) };
  }
  if (!isGrpc(fieldOf(head, "content-type") ?? "")) {
    return { kind: "rejected", response: encodeHeaderBlock([":status", "415"]) };
  }
  const method = methods.get(head.path);
  if (method === undefined) {
    return rejectCall(StatusCode.Unimplemented, `unknown method ${redactPath(head.path)}`);
  }
  const encoding = fieldOf(head, "grpc-encoding") ?? "identity";
  if (!isAccepted(encoding)) {
    return rejectCall(StatusCode.Unimplemented, `grpc-encoding ${encoding} is not supported`, acceptEncodingFields);
  }
  const fields = method.kind === "unary" && method.readsFields === true ? { fields: head.fields } : undefined;
  const timeout = fieldOf(head, "grpc-timeout");
  if (timeout === undefined) {
    return { kind: "call", method, encoding, ...fields };
  }
  const timeoutMs = parseTimeout(timeout);
  return timeoutMs === undefined
    ? rejectCall(StatusCode.Internal, `grpc-timeout ${timeout} is not up to 8 digits and one of H, M, S, m, u, n`)
    : { kind: "call", method, encoding, timeoutMs, ...fields };
}

/** Returns the milliseconds of a grpc-timeout such as `100m`; `undefined` for anything else. */
export function parseTimeout(text: string): number | undefined {
  const unitMs = millisecondsOf[text.slice(-1)];
  const digits = text.slice(0, -1);
  return unitMs !== undefined && /^\d{1,8}$/.test(digits) ? Number(digits) * unitMs : undefined;
}

function rejectCall(code: StatusCode, message: string, extraFields: readonly string[] = []): CallHead {
  return { kind: "rejected", response: errorResponse(new GrpcError(code, message), extraFields) };
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
