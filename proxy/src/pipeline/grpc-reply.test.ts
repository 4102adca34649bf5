import { describe, expect, test } from "vitest";
import { GrpcCode, grpcCodeOf, grpcReply, isGrpcRequest, readGrpcStatus } from "./grpc-reply.ts";

function isGrpc(contentType: string | undefined, httpVersion = "2"): boolean {
  const type = contentType === undefined ? [] : ["content-type", contentType];
  return isGrpcRequest(httpVersion, ["te", "trailers", ...type]);
}

describe("a request is a gRPC call", () => {
  test.each(["application/grpc", "application/grpc+proto", "Application/gRPC;charset=utf-8", "application/grpc ;a=b"])(
    "with content-type %s",
    (type) => expect(isGrpc(type)).toBe(true),
  );

  test.each([
    undefined,
    "application/json",
    "application/grpc-web",
    "application/grpc-web+proto",
    "application/grpcish",
  ])("not with content-type %s", (type) => expect(isGrpc(type)).toBe(false));

  test("only over HTTP/2", () => expect(isGrpc("application/grpc", "1.1")).toBe(false));
});

test.each([
  [404, "RouteNotFound", GrpcCode.Unimplemented],
  [500, "InvalidBackend", GrpcCode.Unavailable],
  [500, "Internal", GrpcCode.Internal],
  [503, "NoReadyEndpoint", GrpcCode.Unavailable],
  [504, "RequestTimeout", GrpcCode.DeadlineExceeded],
  [429, "RateLimited", GrpcCode.ResourceExhausted],
  [508, "LoopDetected", GrpcCode.Unknown],
] as const)("HTTP status %d with reason %s is code %d", (status, reason, code) => {
  expect(grpcCodeOf(status, reason)).toBe(code);
});

test("a reply keeps the fields that do not describe the body", () => {
  const headers = ["Content-Type", "text/plain", "retry-after", "7", "content-length", "3"];
  expect(grpcReply({ status: 429, reason: "RateLimited", headers, body: "50 % – used\n" })).toEqual({
    code: GrpcCode.ResourceExhausted,
    headers: [
      ...["content-type", "application/grpc", "grpc-status", "8"],
      ...["grpc-message", "50 %25 %E2%80%93 used%0A", "retry-after", "7"],
    ],
  });
});

test("a message is truncated to 1024 bytes", () => {
  const { headers } = grpcReply({ status: 503, reason: undefined, headers: [], body: "x".repeat(5_000) });
  expect(headers.at(-1)).toBe("x".repeat(1_024));
});

test.each([
  ["0", 0],
  ["16", 16],
  ["", undefined],
  ["-1", undefined],
  [undefined, undefined],
])("grpc-status %s", (text, code) => {
  expect(readGrpcStatus(text)).toBe(code);
});
