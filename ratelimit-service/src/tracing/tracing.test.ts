/** The spans of calls and of the store, and the trace in the lines of the log. */
import type { UnaryMethod } from "@gatewayproxy/grpc/server/method";
import { GrpcError, StatusCode } from "@gatewayproxy/grpc/status";
import { Propagation } from "@gatewayproxy/runtime/propagation";
import { samplerOf } from "@gatewayproxy/runtime/sampling";
import type { FinishedSpan } from "@gatewayproxy/runtime/span";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { describe, expect, test } from "vitest";
import { type CounterStore, StoreError } from "../model/counter-store.ts";
import type { RateLimitRequest } from "../model/rate-limit.ts";
import { ServiceTracing } from "./service-tracing.ts";
import { CurrentTrace } from "./current-trace.ts";
import { tracedMethod } from "./traced-method.ts";
import { tracedService } from "./traced-service.ts";
import { tracedStore } from "./traced-store.ts";

const path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const callerSpan = "00f067aa0ba902b7";
const inProgress = { isDone: false };
const fromCaller = ["traceparent", `00-${traceId}-${callerSpan}-01`];
const message = Buffer.alloc(0);
const request: RateLimitRequest = { domain: "chat", hitsAddend: 2, descriptors: [] };

/** Traces in memory, and a method whose calls ask `store` twice, the second time after a wait. */
function serviceWith(apply: CounterStore["apply"], ratio = 1) {
  const spans: FinishedSpan[] = [];
  const sink = { add: (ended: readonly FinishedSpan[]) => void spans.push(...ended), close: () => Promise.resolve() };
  const sample = samplerOf({ isParentBased: true, ratio }, false, () => 0);
  const propagation = new Propagation(["tracecontext"]);
  const tracing = new ServiceTracing({ propagation, sample, sink, semconvOptIn: [] }, new FakeClock(), {
    exported: 0,
    failed: 0,
    dropped: 0,
  });
  const bare: CounterStore = {
    apply,
    change: () => Promise.resolve(0),
    isHealthy: () => true,
    close: () => Promise.resolve(),
  };
  const store = tracedStore(bare, "redis", tracing);
  const service = tracedService(
    {
      async shouldRateLimit() {
        await store.apply([{ key: "secret_key", hits: 1, windowSeconds: 1, windowEndSeconds: 1 }]);
        await store.apply([]);
        return { overallCode: "OVER_LIMIT", statuses: [], responseHeaders: [] };
      },
    },
    tracing,
  );
  const method: UnaryMethod = {
    kind: "unary",
    call: async () => {
      await service.shouldRateLimit(request);
      return message;
    },
  };
  return { spans, tracing, method: tracedMethod(path, method, tracing, tracing.current, false) };
}

describe("a call", () => {
  test("has a span below that of its caller, and each use of the store one below it", async () => {
    const { spans, method } = serviceWith(() => Promise.resolve([1]));
    await method.call(message, fromCaller, inProgress);
    const call = spans.at(-1);
    expect(call).toMatchObject({
      name: path.slice(1),
      kind: "server",
      traceId,
      parentSpanId: callerSpan,
      isParentRemote: true,
      isError: false,
      attributes: {
        "rpc.system.name": "grpc",
        "rpc.response.status_code": "OK",
        "gatewayproxy.ratelimit.domain": "chat",
        "gatewayproxy.ratelimit.hits": 2,
        "gatewayproxy.ratelimit.code": "OVER_LIMIT",
      },
    });
    expect(spans.slice(0, -1)).toMatchObject([
      { name: "count redis", kind: "client", traceId, parentSpanId: call?.spanId },
      { name: "count redis", kind: "client", traceId, parentSpanId: call?.spanId },
    ]);
    expect(JSON.stringify(spans)).not.toContain("secret_key");
  });

  test("that the store fails has the error in both spans", async () => {
    const { spans, method } = serviceWith(() => Promise.reject(new StoreError("down")));
    await expect(method.call(message, [], inProgress)).rejects.toThrow("down");
    expect(spans).toMatchObject([
      { isError: true, attributes: { "error.type": "StoreError" } },
      { isError: true, parentSpanId: undefined, attributes: { "error.type": "INTERNAL" } },
    ]);
  });

  test("that its caller has not sampled has no span", async () => {
    const { spans, method } = serviceWith(() => Promise.resolve([1]));
    await method.call(message, ["traceparent", `00-${traceId}-${callerSpan}-00`], inProgress);
    expect(spans).toEqual([]);
  });

  test("with an invalid argument is no error of the server", () => {
    const { spans, tracing } = serviceWith(() => [1]);
    const rejecting: UnaryMethod = {
      kind: "unary",
      call() {
        throw new GrpcError(StatusCode.InvalidArgument, "no");
      },
    };
    expect(() => tracedMethod(path, rejecting, tracing, tracing.current, false).call(message, [], inProgress)).toThrow(
      "no",
    );
    expect(spans).toMatchObject([{ isError: false, attributes: { "rpc.response.status_code": "INVALID_ARGUMENT" } }]);
  });
});

describe("without spans", () => {
  const current = new CurrentTrace();
  const seen: unknown[] = [];
  const method: UnaryMethod = {
    kind: "unary",
    call() {
      seen.push(current.current);
      return message;
    },
  };

  test("the method stays as it is", () => {
    expect(tracedMethod(path, method, undefined, current, false)).toBe(method);
  });

  test("lines of calls have the trace of the caller", () => {
    void tracedMethod(path, method, undefined, current, true).call(message, fromCaller, inProgress);
    expect(seen).toMatchObject([{ traceId, spanId: callerSpan }]);
  });
});

describe("an error that a call ends with", () => {
  const bug = new Error("bug");
  const failing = (call: UnaryMethod["call"]): UnaryMethod => ({ kind: "unary", call });
  const fields = { trace_id: traceId, span_id: callerSpan };

  test.each([
    [
      "at once",
      () => {
        throw bug;
      },
    ],
    ["later", () => Promise.reject(bug)],
  ])("%s has the trace of the call for its line", async (_, call) => {
    const current = new CurrentTrace();
    const traced = tracedMethod(path, failing(call), undefined, current, true);
    await expect(async () => traced.call(message, fromCaller, inProgress)).rejects.toBe(bug);
    expect(current.fieldsOf(bug)).toEqual(fields);
  });

  test("has the span of the call if the service exports it", async () => {
    const { tracing, spans } = serviceWith(() => [1]);
    const traced = tracedMethod(
      path,
      failing(() => Promise.reject(bug)),
      tracing,
      tracing.current,
      false,
    );
    await expect(async () => traced.call(message, fromCaller, inProgress)).rejects.toBe(bug);
    expect(tracing.current.fieldsOf(bug)).toEqual({ ...fields, span_id: spans[0]?.spanId });
  });
});

test("a load of the configuration has a span, with an error if it has problems", () => {
  const { spans, tracing } = serviceWith(() => [1]);
  tracing.load({ parts: [], problems: [{ message: "bad" }] } as never, () => undefined);
  expect(spans).toMatchObject([
    {
      name: "load configuration",
      kind: "internal",
      isError: true,
      attributes: { "gatewayproxy.ratelimit.problems": 1 },
    },
  ]);
});
