/** envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit as a method of the gRPC server. */
import { type CallBounds, CallTooLargeError, defaultCallBounds } from "../../limiter/call-bounds.ts";
import { RateLimitError, type RateLimitErrorCode, type RateLimitService } from "../../service.ts";
import type { CallState, UnaryMethod } from "@gatewayproxy/grpc/server/method";
import { decodeRateLimitRequest, encodeRateLimitResponse } from "./rate-limit-codec.ts";
import { GrpcError, StatusCode } from "@gatewayproxy/grpc/status";
import { WireError } from "@gatewayproxy/protos/wire-reader";

/** envoyproxy/ratelimit returns UNKNOWN for all its errors, and clients may rely on that. */
const statusCodes: Readonly<Record<RateLimitErrorCode, StatusCode>> = {
  EmptyDomain: StatusCode.Unknown,
  NoDescriptors: StatusCode.Unknown,
  NoConfig: StatusCode.Unknown,
  StoreUnavailable: StatusCode.Unknown,
  InvalidArgument: StatusCode.InvalidArgument,
};

/** Returns the method with its path. A call beyond `bounds` gets INVALID_ARGUMENT and counts nothing. */
export function rateLimitMethod(
  service: RateLimitService,
  bounds: CallBounds = defaultCallBounds,
): [path: string, method: UnaryMethod] {
  return ["/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", { kind: "unary", call }];

  function call(message: Buffer, _fields: readonly string[], state: CallState): Uint8Array | Promise<Uint8Array> {
    try {
      const request = decodeRateLimitRequest(message, bounds);
      const response = service.shouldRateLimit(request.reserves === true ? { ...request, state } : request);
      return response instanceof Promise
        ? response.then(encodeRateLimitResponse, fail)
        : encodeRateLimitResponse(response);
    } catch (error) {
      return fail(error);
    }
  }
}

function fail(error: unknown): never {
  if (error instanceof RateLimitError) {
    throw new GrpcError(statusCodes[error.code], error.message, { cause: error });
  }
  if (error instanceof CallTooLargeError) {
    throw new GrpcError(StatusCode.InvalidArgument, error.message, { cause: error });
  }
  if (error instanceof WireError) {
    throw new GrpcError(StatusCode.Internal, `reading a RateLimitRequest: ${error.message}`, { cause: error });
  }
  throw error;
}
