/** Local replies to gRPC calls: the status of gRPC that a real client reads, on any route. */
import { status } from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  serviceManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";
import { callGrpc, connectGrpc, type GrpcOutcome, startGrpcBackend } from "../support/grpc-backend.ts";

async function say(gateway: TestGateway): Promise<Pick<GrpcOutcome, "code" | "details">> {
  const { code, details } = await callGrpc(connectGrpc(new URL(gateway.url()).host), "Say", ["hello"]);
  return { code, details };
}

/** Serves the rule on an HTTPRoute for all paths. */
function serve(rule: string, ...more: readonly string[]): Promise<TestGateway> {
  return startGateway(manifests(gatewayManifest(), routeManifest("chat", [rule]), ...more));
}

describe("a gRPC call gets the status of gRPC for", () => {
  test("a path without a route: UNIMPLEMENTED", async () => {
    const gateway = await serve(`matches: [{ path: { value: /elsewhere } }]`);
    expect(await say(gateway)).toEqual({ code: status.UNIMPLEMENTED, details: "no route matches" });
    expect(gateway.records[0]).toMatchObject({ status: 200, grpcStatus: 12, reason: "RouteNotFound" });
  });

  test("a rule without a backend: UNAVAILABLE", async () => {
    expect(await say(await serve("{}"))).toEqual({ code: status.UNAVAILABLE, details: "no valid backend" });
  });

  test("a backend without a ready endpoint: UNAVAILABLE", async () => {
    const gateway = await serve("backendRefs: [{ name: idle, port: 80 }]", serviceManifest("idle", []));
    expect(await say(gateway)).toEqual({ code: status.UNAVAILABLE, details: "no ready endpoint" });
  });

  test("an exhausted limit: RESOURCE_EXHAUSTED", async () => {
    const { port } = await startGrpcBackend();
    const gateway = await serve(
      "backendRefs: [{ name: echo, port: 80 }]",
      serviceManifest("echo", [port], "appProtocol: kubernetes.io/h2c"),
      policyManifest("calls", "kind: HTTPRoute, name: chat", ["{ requests: 1, unit: Hours }"]),
    );
    expect((await say(gateway)).code).toBe(status.OK);
    expect(await say(gateway)).toEqual({ code: status.RESOURCE_EXHAUSTED, details: "rate limit exceeded" });
    expect(gateway.records.map(({ grpcStatus }) => grpcStatus)).toEqual([0, 8]);
  });

  test("an exceeded timeout: DEADLINE_EXCEEDED", async () => {
    const received = Promise.withResolvers<undefined>();
    const silent = await startBackend(() => received.resolve(undefined));
    const gateway = await serve(
      `{ timeouts: { request: 1s }, backendRefs: [${backendRef("silent")}] }`,
      backendManifest("silent", silent.port),
    );
    const outcome = say(gateway);
    await received.promise;
    gateway.clock.advance(1_000);
    expect(await outcome).toEqual({ code: status.DEADLINE_EXCEEDED, details: "the request took too long" });
  });
});

test("other requests get the HTTP status, gRPC-Web among them", async () => {
  const gateway = await serve(`matches: [{ path: { value: /elsewhere } }]`);
  for (const type of ["application/json", "application/grpc-web+proto", "application/grpc"]) {
    const response = await fetch(gateway.url(), { method: "POST", headers: { "content-type": type }, body: "x" });
    expect(response.status).toBe(404);
    expect(await response.text()).toBe("no route matches");
  }
  expect(gateway.records.map(({ grpcStatus }) => grpcStatus)).toEqual([undefined, undefined, undefined]);
});
