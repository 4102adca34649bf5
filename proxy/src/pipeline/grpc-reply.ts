/**
 * Local replies to gRPC calls. A client of gRPC reads the status of a call from the field `grpc-status`, so a local
 * reply to a call is a response without messages ("Trailers-Only" of gRPC over HTTP/2): HTTP status 200, the gRPC
 * status, and the text of the reply as the message.
 */
import { percentEncode } from "@gatewayproxy/grpc/status";
import type { FailureReason } from "../telemetry/request-record.ts";
import { isName } from "../filters/hop-by-hop.ts";

/** The codes of google.rpc.Code that local replies use. */
export const GrpcCode = {
  Unknown: 2,
  DeadlineExceeded: 4,
  PermissionDenied: 7,
  ResourceExhausted: 8,
  Unimplemented: 12,
  Internal: 13,
  Unavailable: 14,
  Unauthenticated: 16,
} as const;

/** A code of `GrpcCode`. */
export type GrpcCode = (typeof GrpcCode)[keyof typeof GrpcCode];

/**
 * gRPC codes by HTTP status. 400 to 404, 429 and 502 to 504 are those of gRPC's "HTTP to gRPC Status Code Mapping",
 * which clients use, except for 429 and 504: as in Envoy, an exhausted limit and an exceeded timeout have their own
 * codes. 413 and 431 are sizes above a maximum, which gRPC servers report as an exhausted resource. Any other status is
 * `Unknown`.
 */
const codesByStatus: Readonly<Record<number, GrpcCode>> = {
  400: GrpcCode.Internal,
  401: GrpcCode.Unauthenticated,
  403: GrpcCode.PermissionDenied,
  404: GrpcCode.Unimplemented,
  408: GrpcCode.DeadlineExceeded,
  413: GrpcCode.ResourceExhausted,
  429: GrpcCode.ResourceExhausted,
  431: GrpcCode.ResourceExhausted,
  502: GrpcCode.Unavailable,
  503: GrpcCode.Unavailable,
  504: GrpcCode.DeadlineExceeded,
};

/** Reasons whose HTTP status alone does not decide the code. */
const codesByReason: Readonly<Partial<Record<FailureReason, GrpcCode>>> = {
  // A rule without a usable backend (Gateway API `GRPCRouteRule.backendRefs`).
  InvalidBackend: GrpcCode.Unavailable,
  ForbiddenAddress: GrpcCode.Unavailable,
  Internal: GrpcCode.Internal,
};

/** Returns the gRPC code of a local reply with this HTTP status and reason. */
export function grpcCodeOf(status: number, reason: FailureReason | undefined): GrpcCode {
  return (reason === undefined ? undefined : codesByReason[reason]) ?? codesByStatus[status] ?? GrpcCode.Unknown;
}

/**
 * Whether a request is a gRPC call: it uses HTTP/2, and its `content-type` is `application/grpc`, alone or followed by
 * a message format (`+proto`) or parameters. gRPC-Web (`application/grpc-web`) is another protocol, whose clients read
 * the HTTP status.
 *
 * @param rawHeaders names and values alternate.
 */
export function isGrpcRequest(httpVersion: string, rawHeaders: readonly string[]): boolean {
  if (httpVersion !== "2") return false;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? "";
    if (name.length === 12 && isName(name, "content-type")) return grpcContentType.test(rawHeaders[at + 1] ?? "");
  }
  return false;
}

/** RFC 9110 §8.3.1: media types are case-insensitive. */
const grpcContentType = /^application\/grpc(?:$|[+; \t])/i;

/** Returns the code in the value of `grpc-status`; undefined if it is absent or not a code. */
export function readGrpcStatus(value: string | undefined): number | undefined {
  return value !== undefined && /^\d{1,3}$/.test(value) ? Number(value) : undefined;
}

/** A local reply as a request without gRPC gets it. */
export interface HttpReply {
  readonly status: number;
  readonly reason: FailureReason | undefined;
  /** Names and values alternate. */
  readonly headers: readonly string[];
  readonly body: Buffer | string;
}

/** Fields that describe the body, which a gRPC reply lacks. */
const bodyFields: ReadonlySet<string> = new Set(["content-type", "content-encoding", "content-length"]);

/** Maximum length of a message in bytes, before its encoding. */
const maxMessageBytes = 1_024;

/**
 * Returns the gRPC reply: its code, and its header section, in which names and values alternate. It has no body. It
 * keeps the fields of the HTTP reply that do not describe the body, such as those of limits and `retry-after`.
 */
export function grpcReply({ status, reason, headers, body }: HttpReply): {
  readonly code: GrpcCode;
  readonly headers: string[];
} {
  const code = grpcCodeOf(status, reason);
  const fields = ["content-type", "application/grpc", "grpc-status", String(code)];
  const message = Buffer.from(body).subarray(0, maxMessageBytes).toString("utf8");
  if (message !== "") fields.push("grpc-message", percentEncode(message));
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = headers[at] ?? "";
    if (!bodyFields.has(name.toLowerCase())) fields.push(name, headers[at + 1] ?? "");
  }
  return { code, headers: fields };
}
