/**
 * The variants of the protocol in other rate limit services, and the expected behaviour: one test for each. The
 * services use grpc-js, or bare streams for what grpc-js would never send.
 */
import { createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import { byAddress, globalPolicy, send, serveUnder, type TestResponse } from "../support/global-policy.ts";
import type { TestGateway } from "../support/gateway.ts";
import {
  okMessage,
  respondGrpc,
  type ScriptedResponse,
  startRawService,
  startScriptedService,
} from "../support/rate-limit-service.ts";

async function gatewayTo(port: number, more = ""): Promise<TestGateway> {
  return serveUnder(
    await startBackend(respondWith(200)),
    globalPolicy(`address: '127.0.0.1:${port}', ${more} ${byAddress}`),
  );
}

/** The response to a client when the service sends `response`. */
async function clientSees(response: ScriptedResponse, more = ""): Promise<TestResponse> {
  const service = await startScriptedService(() => response);
  return send(await gatewayTo(service.port, more));
}

const limit = { requestsPerUnit: 10, unit: "MINUTE" } as const;
const reset = { seconds: 30 };

describe("statuses", () => {
  test("none at all on OK: the request is allowed, without headers of limits", async () => {
    expect(await clientSees({ overallCode: "OK" })).toMatchObject({ status: 200, limit: [null, null, null] });
  });

  test("none at all on OVER_LIMIT: 429 with nothing remaining and no reset", async () => {
    const response = await clientSees({ overallCode: "OVER_LIMIT" });
    expect(response).toMatchObject({ status: 429, limit: [null, "0", null] });
    expect(response.headers.has("retry-after")).toBe(false);
  });

  test("more than there are descriptors are all read", async () => {
    const statuses = [
      { code: "OK", currentLimit: limit, limitRemaining: 5 } as const,
      { code: "OK", currentLimit: { ...limit, unit: "HOUR" }, limitRemaining: 2, durationUntilReset: reset } as const,
    ];
    expect(await clientSees({ overallCode: "OK", statuses })).toMatchObject({
      status: 200,
      limit: ["10, 10;w=60, 10;w=3600", "2", "30"],
    });
  });

  test("one without a limit adds no headers", async () => {
    const statuses = [
      { code: "OK", limitRemaining: 0 } as const,
      { code: "OK", currentLimit: limit, limitRemaining: 4, durationUntilReset: reset } as const,
    ];
    expect((await clientSees({ overallCode: "OK", statuses })).limit).toEqual(["10, 10;w=60", "4", "30"]);
  });

  test("unlimited (4294967295 remaining, no limit) adds no headers", async () => {
    const statuses = [{ code: "OK", limitRemaining: 4_294_967_295 } as const];
    expect(await clientSees({ overallCode: "OK", statuses })).toMatchObject({ status: 200, limit: [null, null, null] });
  });

  test.each([
    ["absent", undefined, null],
    ["negative", { seconds: -3 }, null],
    ["fractional", { seconds: 2, nanos: 1 }, "3"],
    ["beyond 32 bits", { seconds: "900000000000" }, null],
  ])("a reset that is %s", async (_, durationUntilReset, shown) => {
    const status = {
      code: "OK",
      currentLimit: limit,
      limitRemaining: 4,
      ...(durationUntilReset && { durationUntilReset }),
    } as const;
    expect((await clientSees({ overallCode: "OK", statuses: [status] })).limit[2]).toBe(shown);
  });

  test.each([
    ["WEEK", { requestsPerUnit: 10, unit: "WEEK" }, "10, 10;w=604800"],
    ["UNKNOWN", { requestsPerUnit: 10, unit: "UNKNOWN" }, "10"],
    ["of a multiple", { requestsPerUnit: 10, unit: "SECOND", unitMultiplier: { value: 30 } }, "10, 10;w=30"],
    ["with a name", { requestsPerUnit: 10, unit: "SECOND", name: 'per "ip"' }, '10, 10;w=1;name="per ip"'],
  ] as const)("a limit whose unit is %s", async (_, currentLimit, shown) => {
    const response = await clientSees({
      overallCode: "OK",
      statuses: [{ code: "OK", currentLimit, limitRemaining: 4 }],
    });
    expect(response.limit[0]).toBe(shown);
  });

  test("overall OK while one is OVER_LIMIT (shadow, quota): the overall code decides", async () => {
    const statuses = [{ code: "OVER_LIMIT", currentLimit: limit, durationUntilReset: reset } as const];
    expect(await clientSees({ overallCode: "OK", statuses })).toMatchObject({
      status: 200,
      limit: ["10, 10;w=60", "0", "30"],
    });
  });

  test("a 429 shows the limit that denies longest, not one that allows", async () => {
    const statuses = [
      {
        code: "OK",
        currentLimit: { requestsPerUnit: 1, unit: "DAY" },
        limitRemaining: 0,
        durationUntilReset: { seconds: 9_000 },
      } as const,
      { code: "OVER_LIMIT", currentLimit: limit, durationUntilReset: { seconds: 5 } } as const,
      {
        code: "OVER_LIMIT",
        currentLimit: { requestsPerUnit: 99, unit: "HOUR" },
        durationUntilReset: { seconds: 700 },
      } as const,
    ];
    const response = await clientSees({ overallCode: "OVER_LIMIT", statuses });
    expect(response.limit).toEqual(["99, 1;w=86400, 10;w=60, 99;w=3600", "0", "700"]);
    expect(response.headers.get("retry-after")).toBe("700");
  });
});

describe("headers", () => {
  const status = { code: "OVER_LIMIT", currentLimit: limit, durationUntilReset: reset } as const;

  test("of the service take precedence over those of the statuses", async () => {
    const responseHeadersToAdd = [
      { key: "X-RateLimit-Limit", value: "7, 7;w=1" },
      { key: "X-RateLimit-Remaining", value: "3" },
    ];
    const response = await clientSees({
      overallCode: "OK",
      statuses: [{ ...status, code: "OK" }],
      responseHeadersToAdd,
    });
    expect(response.limit).toEqual(["7, 7;w=1", "3", null]);
  });

  test("in mixed case and twice are sent once", async () => {
    const responseHeadersToAdd = [
      { key: "X-RateLimit-Limit", value: "7" },
      { key: "x-ratelimit-limit", value: "8" },
      { key: "X-Envoy-RateLimited", value: "true" },
      { key: "x-envoy-ratelimited", value: "true" },
      { key: "Retry-After", value: "9" },
    ];
    const response = await clientSees(
      { overallCode: "OVER_LIMIT", statuses: [status], responseHeadersToAdd },
      "envoyRatelimitedHeader: Always,",
    );
    expect(response.limit[0]).toBe("7");
    expect(response.headers.get("x-envoy-ratelimited")).toBe("true");
    expect(response.headers.get("retry-after")).toBe("9");
  });

  test("that are invalid in HTTP are left out", async () => {
    const responseHeadersToAdd = [
      { key: "content-length", value: "9999" },
      { key: "transfer-encoding", value: "chunked" },
      { key: "x-bad", value: "a\r\nx-smuggled: 1" },
      { key: "bad name", value: "1" },
      { key: "x-good", value: "1" },
    ];
    const response = await clientSees({ overallCode: "OVER_LIMIT", responseHeadersToAdd });
    expect([response.status, response.body]).toEqual([429, "rate limit exceeded"]);
    expect([response.headers.get("x-good"), response.headers.has("x-smuggled"), response.headers.has("x-bad")]).toEqual(
      ["1", false, false],
    );
  });

  test.each(["1e300", "-5", "NaN", "0x10", "Infinity", "", "42 s", "Tue, 99 Foo", "42, 43", "9".repeat(4_000)])(
    "with a malformed number are those of the statuses: %s",
    async (value) => {
      const responseHeadersToAdd = ["Retry-After", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]
        .filter((key) => key === "Retry-After" || value !== "42, 43")
        .map((key) => ({ key, value }));
      const response = await clientSees({ overallCode: "OVER_LIMIT", statuses: [status], responseHeadersToAdd });
      expect([response.headers.get("retry-after"), ...response.limit]).toEqual(["30", "10, 10;w=60", "0", "30"]);
    },
  );

  test.each([
    ["0", "1"],
    ["1.5", "2"],
    ["42", "42"],
    [" 42\t", "42"],
    ["99999999999", "315360000"],
    ["Sun, 06 Nov 2094 08:49:37 GMT", "Sun, 06 Nov 2094 08:49:37 GMT"],
  ])("with a time to wait are sent: %s", async (value, expected) => {
    const responseHeadersToAdd = [{ key: "Retry-After", value }];
    const response = await clientSees({ overallCode: "OVER_LIMIT", statuses: [status], responseHeadersToAdd });
    expect(response.headers.get("retry-after")).toBe(expected);
  });

  test("in great numbers are sent up to 64, and none of those that change how a message is read", async () => {
    const many = Array.from({ length: 2_000 }, (_, at) => ({ key: `x-${at}`, value: "1" }));
    // A name that every object has.
    many.unshift({ key: "constructor", value: "1" });
    const service = await startScriptedService(() => ({
      overallCode: "OK",
      responseHeadersToAdd: many,
      requestHeadersToAdd: [
        { key: "Expect", value: "100-continue" },
        { key: "HTTP2-Settings", value: "AAAA" },
        ...many,
      ],
    }));
    const backend = await startBackend(respondWith(200));
    const gateway = await serveUnder(backend, globalPolicy(`address: '127.0.0.1:${service.port}', ${byAddress}`));
    const { status, headers } = await send(gateway);
    const added = (names: Iterable<string>): number => [...names].filter((name) => /^x-\d+$/.test(name)).length;
    const received = Object.keys(backend.requests[0]?.headers ?? {});
    expect([status, added(headers.keys()), added(received)]).toEqual([200, 63, 63]);
    expect(received).not.toEqual(expect.arrayContaining(["expect"]));
    expect(received).not.toEqual(expect.arrayContaining(["http2-settings"]));
  });

  test("a raw_body that is no text is sent byte for byte", async () => {
    const rawBody = Buffer.from("zu viele Anfragen — später", "utf8");
    expect((await clientSees({ overallCode: "OVER_LIMIT", rawBody })).body).toBe(rawBody.toString());
  });
});

describe("on failures the failure mode decides", () => {
  const closed = "failureMode: Closed,";
  const decided = async (gateway: TestGateway): Promise<unknown> => {
    const { status } = await send(gateway);
    return [status, gateway.records.at(-1)?.globalDecisions[0]?.by];
  };

  test.each([
    ["overall UNKNOWN", { overallCode: "UNKNOWN" } as const],
    ["gRPC UNKNOWN", { code: 2, details: "no rate limit configuration loaded" }],
    ["gRPC INVALID_ARGUMENT", { code: 3, details: "bad" }],
    ["gRPC UNAVAILABLE", { code: 14, details: "storage" }],
  ])("%s", async (_, response) => {
    const service = await startScriptedService(() => response);
    expect(await decided(await gatewayTo(service.port, closed))).toEqual([503, "failureMode"]);
    expect(await decided(await gatewayTo(service.port, "failureMode: Open,"))).toEqual([200, "failureMode"]);
  });

  test("no response: no request waits longer than the timeout", async () => {
    const service = await startScriptedService(() => undefined);
    const gateway = await gatewayTo(service.port, "timeout: 70ms, failureMode: Closed,");
    const response = send(gateway);
    await service.received(1);
    gateway.clock.advance(70);
    expect((await response).status).toBe(503);
  });

  test.each([
    ["bytes that are no message", Buffer.from([0xff, 0xff, 0xff])],
    ["an empty message, whose overall code is UNKNOWN", Buffer.alloc(0)],
    ["a truncated message", Buffer.from([8, 1, 18, 40, 8])],
  ])("%s", async (_, message) => {
    const service = await startRawService((stream) => respondGrpc(stream, message));
    expect(await decided(await gatewayTo(service.port, closed))).toEqual([503, "failureMode"]);
  });

  test.each([
    ["a compressed message", Buffer.from([1, 0, 0, 0, 2, 8, 1])],
    ["a message shorter than its declared length", Buffer.from([0, 0, 0, 0, 9, 8, 1])],
    ["two messages", Buffer.from([0, 0, 0, 0, 2, 8, 1, 0, 0, 0, 0, 2, 8, 1])],
  ])("%s", async (_, body) => {
    const service = await startRawService((stream) => {
      stream.respond({ ":status": 200 }, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      stream.end(body);
    });
    expect(await decided(await gatewayTo(service.port, closed))).toEqual([503, "failureMode"]);
  });

  test("a response without grpc-status", async () => {
    const service = await startRawService((stream) => {
      stream.respond({ ":status": 200 });
      stream.end(Buffer.from([0, 0, 0, 0, 2, 8, 1]));
    });
    expect(await decided(await gatewayTo(service.port, closed))).toEqual([503, "failureMode"]);
  });

  test("an HTTP error of an intermediary", async () => {
    const service = await startRawService((stream) => {
      stream.respond({ ":status": 502 });
      stream.end("bad gateway");
    });
    expect(await decided(await gatewayTo(service.port, closed))).toEqual([503, "failureMode"]);
  });

  test("a reset during a call, which may have been counted and is not sent again", async () => {
    const service = await startRawService((stream) => stream.close(2));
    expect(await decided(await gatewayTo(service.port, closed))).toEqual([503, "failureMode"]);
    expect(service.calls).toBe(1);
  });

  test("a server without HTTP/2", async () => {
    const server = createServer((socket: Socket) =>
      socket.on("error", () => undefined).end("HTTP/1.1 400 Bad Request\r\n\r\n"),
    );
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    // A listening TCP server has such an address.
    const { port } = server.address() as AddressInfo;
    expect(await decided(await gatewayTo(port, closed))).toEqual([503, "failureMode"]);
  });
});

describe("connections", () => {
  test("a GOAWAY fails no request: the call is made on a new connection", async () => {
    const service = await startRawService((stream) => respondGrpc(stream, okMessage));
    const gateway = await gatewayTo(service.port, "failureMode: Closed,");
    expect((await send(gateway)).status).toBe(200);
    service.sessions[0]?.goaway(0);
    service.sessions[0]?.close();
    const statuses = await Promise.all(Array.from({ length: 20 }, async () => (await send(gateway)).status));
    expect(statuses).toEqual(new Array<number>(20).fill(200));
    expect([service.sessions.length, service.calls]).toEqual([2, 21]);
  });

  test("a call that the service rejects unread (REFUSED_STREAM) is sent once more", async () => {
    const service = await startRawService((stream, number) => {
      if (number === 1) stream.close(7);
      else respondGrpc(stream, okMessage);
    });
    expect((await send(await gatewayTo(service.port, "failureMode: Closed,"))).status).toBe(200);
    expect(service.calls).toBe(2);
  });

  test("concurrent calls share one connection", async () => {
    const service = await startRawService((stream) => respondGrpc(stream, okMessage));
    const gateway = await gatewayTo(service.port);
    await Promise.all(Array.from({ length: 50 }, () => send(gateway)));
    expect([service.sessions.length, service.calls]).toEqual([1, 50]);
  });

  test("a response with only a status in its headers is accepted", async () => {
    const service = await startRawService((stream) => {
      stream.respond({ ":status": 200, "grpc-status": "14", "grpc-message": "no%20store" }, { endStream: true });
    });
    expect((await send(await gatewayTo(service.port, "failureMode: Closed,"))).status).toBe(503);
  });
});
