/** Wraps the method of gRPC with the span of each call, and makes its trace known to the log. */
import type { UnaryMethod } from "@gatewayproxy/grpc/server/method";
import { GrpcError, StatusCode } from "@gatewayproxy/grpc/status";
import { parseTraceparent, traceparentHeader } from "@gatewayproxy/runtime/trace-context";
import type { CurrentTrace } from "./current-trace.ts";
import type { ServiceTracing } from "./service-tracing.ts";

/**
 * Wraps a method.
 *
 * @param path `/package.Service/Method`
 * @param tracing exports spans; undefined: none are exported.
 * @param current gets the trace of each call.
 * @param logsCalls whether lines of calls are logged; if not, and without spans, the method is returned as it is.
 */
export function tracedMethod(
  path: string,
  method: UnaryMethod,
  tracing: ServiceTracing | undefined,
  current: CurrentTrace,
  logsCalls: boolean,
): UnaryMethod {
  if (tracing !== undefined) return methodWithSpans(path.slice(1), method, tracing);
  return logsCalls ? methodWithTrace(method, current) : method;
}

function methodWithTrace(method: UnaryMethod, current: CurrentTrace): UnaryMethod {
  return {
    kind: "unary",
    readsFields: true,
    call(message, fields, state) {
      const at = fields.findIndex((name, index) => index % 2 === 0 && name === traceparentHeader);
      const trace = at === -1 ? undefined : parseTraceparent(fields[at + 1]);
      if (trace === undefined) return method.call(message, fields, state);
      const failed = (error: unknown): never => {
        current.endedWith(error, trace);
        throw error;
      };
      try {
        const response = current.run(trace, () => method.call(message, fields, state));
        return response instanceof Promise ? response.catch(failed) : response;
      } catch (error) {
        return failed(error);
      }
    },
  };
}

function methodWithSpans(name: string, method: UnaryMethod, tracing: ServiceTracing): UnaryMethod {
  return {
    kind: "unary",
    readsFields: true,
    call(message, fields, state) {
      const call = tracing.begin(fields);
      const end = (status: string, isError: boolean): void => {
        const error = isError ? { "error.type": status } : {};
        tracing.end(call, name, isError, {
          ...{ "rpc.system.name": "grpc", "rpc.method": name, "rpc.response.status_code": status, ...error },
        });
      };
      const failed = (error: unknown): never => {
        const code = error instanceof GrpcError ? error.code : StatusCode.Internal;
        end(codeNames[code], serverErrors.has(code));
        tracing.current.endedWith(error, call);
        throw error;
      };
      try {
        const response = tracing.current.run(call, () => method.call(message, fields, state));
        if (!(response instanceof Promise)) {
          end("OK", false);
          return response;
        }
        return response.then((bytes) => {
          end("OK", false);
          return bytes;
        }, failed);
      } catch (error) {
        return failed(error);
      }
    },
  };
}

/** The names of the codes of gRPC (google.rpc.Code). */
const codeNames: Readonly<Record<StatusCode, string>> = {
  [StatusCode.Ok]: "OK",
  [StatusCode.Unknown]: "UNKNOWN",
  [StatusCode.InvalidArgument]: "INVALID_ARGUMENT",
  [StatusCode.DeadlineExceeded]: "DEADLINE_EXCEEDED",
  [StatusCode.NotFound]: "NOT_FOUND",
  [StatusCode.ResourceExhausted]: "RESOURCE_EXHAUSTED",
  [StatusCode.Unimplemented]: "UNIMPLEMENTED",
  [StatusCode.Internal]: "INTERNAL",
  [StatusCode.Unavailable]: "UNAVAILABLE",
};

/** The codes that are errors of a server (RPC conventions, "gRPC"). */
const serverErrors: ReadonlySet<StatusCode> = new Set([
  ...[StatusCode.Unknown, StatusCode.DeadlineExceeded, StatusCode.Unimplemented],
  ...[StatusCode.Internal, StatusCode.Unavailable],
]);
