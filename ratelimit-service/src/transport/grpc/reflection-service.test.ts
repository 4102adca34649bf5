import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeWith } from "../../../../test/support/describe-with.ts";
import { healthServiceNames, ServingStatus } from "../serving-status.ts";
import { GrpcServer } from "@gatewayproxy/grpc/server/grpc-server";
import { healthMethods } from "@gatewayproxy/grpc/server/health-service";
import { describedFiles } from "./described-files.ts";
import { rateLimitMethod } from "./rate-limit-method.ts";
import { reflectionMethods } from "@gatewayproxy/grpc/server/reflection-service";

describeWith(["grpcurl"], "grpcurl, knowing nothing but the port", ({ grpcurl }) => {
  const limit = { requestsPerUnit: 10, unit: "MINUTE" } as const;
  const status = { code: "OK", currentLimit: limit, limitRemaining: 9, durationUntilResetSeconds: 58 } as const;
  const response = { overallCode: "OK", statuses: [status], responseHeaders: [], dynamicMetadata: { a: [1] } } as const;
  const server = new GrpcServer({
    methods: new Map([
      rateLimitMethod({ shouldRateLimit: () => response }),
      ...healthMethods(new ServingStatus(true), healthServiceNames),
      ...reflectionMethods(describedFiles),
    ]),
    clock: systemClock,
    random: () => 0,
    onError: () => undefined,
    onClientError: () => undefined,
  });
  let address: string;

  beforeAll(async () => {
    address = `127.0.0.1:${await server.listen({ kind: "tcp", host: "127.0.0.1", port: 0 })}`;
  });
  afterAll(() => server.close(0));

  const run = async (...args: readonly string[]) =>
    (await promisify(execFile)(grpcurl, ["-plaintext", ...args])).stdout.trim();

  test("lists the services", async () => {
    expect((await run(address, "list")).split("\n")).toEqual([
      "envoy.service.ratelimit.v3.RateLimitService",
      "grpc.health.v1.Health",
      "grpc.reflection.v1.ServerReflection",
      "grpc.reflection.v1alpha.ServerReflection",
    ]);
  });

  test("describes a message with the fields as the protocol writes them", async () => {
    const text = await run(address, "describe", "envoy.extensions.common.ratelimit.v3.RateLimitDescriptor");

    expect(text).toContain(".google.protobuf.UInt64Value hits_addend = 3;");
    expect(text).toContain("repeated .envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry entries = 1;");
  });

  test("calls a method with JSON", async () => {
    const request = JSON.stringify({ domain: "rl", descriptors: [{ entries: [{ key: "a" }], hits_addend: 2 }] });
    const method = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

    expect(JSON.parse(await run("-d", request, address, method))).toEqual({
      overallCode: "OK",
      statuses: [{ code: "OK", currentLimit: limit, limitRemaining: 9, durationUntilReset: "58s" }],
      dynamicMetadata: { a: [1] },
    });
    expect(await run(address, "grpc.health.v1.Health/Check")).toContain("SERVING");
  });

  test("gets an error for an unknown symbol", async () => {
    await expect(run(address, "describe", "no.Such")).rejects.toThrow("Symbol not found: no.Such");
  });
});
