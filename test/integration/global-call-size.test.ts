/**
 * Long values in descriptors: a client cannot cause a call that a rate limit service rejects because of its size, so it
 * can neither choose the failure mode nor make the service unavailable to others.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { describe, expect, onTestFinished, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import { silentObserver } from "../../proxy/src/policy/ratelimit/global/observer.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { globalPolicy, manifestsUnder, send, serveUnder } from "../support/global-policy.ts";
import { startRateLimitService } from "../support/ratelimit-process.ts";
import { type Script, startScriptedService } from "../support/rate-limit-service.ts";
import { rawHttp } from "../support/raw-http.ts";

const allow: Script = () => ({ overallCode: "OK" });
const maxValueBytes = 8_192;

const user = `{ name: user, expression: 'request.headers["x-user"]' }`;
const threeTimes = (unit: string): string =>
  `descriptors: [${["request.path", "request.method", '"all"'].map((expression) => `{ unit: ${unit}, entries: [${user}, { name: other, expression: '${expression}' }] }`).join(", ")}]`;

/** The status and the body for a request whose header is sent in Latin-1. */
async function sendHeader(gateway: TestGateway, header: string) {
  const head = `GET / HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\n${header}\r\n\r\n`;
  const response = await rawHttp(gateway.url(), head);
  return { status: response.status, body: response.body };
}

const costing: Parameters<typeof startBackend>[0] = (_request, response) => {
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify({ usage: { total_tokens: 100 } }));
};

describe("a value of a descriptor", () => {
  test.each([
    ["of the maximum length", "x".repeat(maxValueBytes), 200],
    ["a byte longer", "x".repeat(maxValueBytes + 1), 431],
    // As UTF-8 a character of Latin-1 takes two bytes.
    ["of the maximum length in UTF-8", "\u00e9".repeat(maxValueBytes / 2), 200],
    ["longer in UTF-8", "\u00e9".repeat(maxValueBytes / 2 + 1), 431],
    ["as long as headers can be", "\u00e9".repeat(58_000), 431],
  ])("%s: its bytes decide", async (_, value, expected) => {
    const backend = await startBackend(respondWith(200));
    const service = await startScriptedService(allow);
    const gateway = await serveUnder(
      backend,
      globalPolicy(`address: '127.0.0.1:${service.port}', ${threeTimes("Requests")}`),
    );
    expect((await sendHeader(gateway, `x-user: ${value}`)).status).toBe(expected);
    expect([service.calls.length, backend.requests.length]).toEqual(expected === 200 ? [1, 1] : [0, 0]);
    expect(gateway.records[0]?.reason).toBe(expected === 200 ? undefined : "LimitValueTooLong");
  });

  test.each(["Local", "Open", "Closed"])("is bounded whatever the failure mode (%s)", async (failureMode) => {
    const backend = await startBackend(respondWith(200));
    const service = await startScriptedService(allow);
    const gateway = await serveUnder(
      backend,
      globalPolicy(`address: '127.0.0.1:${service.port}', failureMode: ${failureMode}, ${threeTimes("Requests")}`),
    );
    expect(await sendHeader(gateway, `x-user: ${"\u00e9".repeat(58_000)}`)).toEqual({
      status: 431,
      body: "a rate limit uses values of the request that are too long, accepted are 8192 bytes, 131072 together",
    });
    expect(backend.requests).toHaveLength(0);
  });

  test("is bounded together with all values of the call", async () => {
    const backend = await startBackend(respondWith(200));
    const service = await startScriptedService(allow);
    const descriptors = Array.from({ length: 16 }, () => `{ entries: [${user}, ${user}] }`).join(", ");
    const policy = globalPolicy(`address: '127.0.0.1:${service.port}', descriptors: [${descriptors}]`);
    const gateway = await serveUnder(backend, policy);
    expect((await sendHeader(gateway, `x-user: ${"x".repeat(4_096)}`)).status).toBe(200);
    expect((await sendHeader(gateway, `x-user: ${"x".repeat(4_097)}`)).status).toBe(431);
    expect(service.calls).toHaveLength(1);
  });

  test("may be longer in shadow mode, which then makes no call", async () => {
    const backend = await startBackend(respondWith(200));
    const service = await startScriptedService(allow);
    const policy = globalPolicy(`address: '127.0.0.1:${service.port}', mode: Shadow, ${threeTimes("Requests")}`);
    const gateway = await serveUnder(backend, policy);
    expect((await sendHeader(gateway, `x-user: ${"x".repeat(9_000)}`)).status).toBe(200);
    expect(service.calls).toHaveLength(0);
    expect(gateway.records[0]?.globalDecisions).toMatchObject([{ outcome: "allowed", by: "none" }]);
  });

  test("that is too long for one limit prevents the calls of all limits", async () => {
    const backend = await startBackend(respondWith(200));
    const service = await startScriptedService(allow);
    const byMethod = `address: '127.0.0.1:${service.port}', descriptors: [{ entries: [{ name: m, expression: request.method }] }]`;
    const gateway = await serveUnder(
      backend,
      globalPolicy(byMethod),
      globalPolicy(`address: '127.0.0.1:${service.port}', ${threeTimes("Requests")}`).replace(
        "name: chat, n",
        "name: long, n",
      ),
    );
    expect((await sendHeader(gateway, `x-user: ${"x".repeat(9_000)}`)).status).toBe(431);
    expect(service.calls).toHaveLength(0);
  });
});

describe("a service that rejects calls because of their size", () => {
  const tooLarge = { code: status.RESOURCE_EXHAUSTED, details: "message of 348108 bytes, at most 262144 are accepted" };
  const isLong: Script = ({ request }) =>
    (request.descriptors[0]?.entries[0]?.value.length ?? 0) > 1_000 ? tooLarge : { overallCode: "OK" };

  test("gets all other calls, before and after", async () => {
    const service = await startScriptedService(isLong);
    const policy = globalPolicy(`address: '127.0.0.1:${service.port}', failureMode: Closed, ${threeTimes("Requests")}`);
    const gateway = await serveUnder(await startBackend(respondWith(200)), policy);
    const long = await Promise.all(
      Array.from({ length: 45 }, () => sendHeader(gateway, `x-user: ${"x".repeat(2_000)}`)),
    );
    expect(new Set(long.map((response) => response.status))).toEqual(new Set([503]));
    expect((await send(gateway)).status).toBe(200);
    expect(gateway.dataPlane.rateLimitServices()).toMatchObject([{ breaker: "closed", failuresInARow: 0 }]);
  });

  test("gets the charges of others, and rejected charges are dropped", async () => {
    const service = await startScriptedService((call, number) =>
      (call.request.descriptors[0]?.hitsAddend?.value ?? "0") === "0" && call.request.hitsAddend === 0
        ? { overallCode: "OK" }
        : isLong(call, number),
    );
    const policy = globalPolicy(`address: '127.0.0.1:${service.port}', failureMode: Closed, ${threeTimes("Tokens")}`);
    const gateway = await serveUnder(await startBackend(costing), policy);
    const post = (name: string) => send(gateway, { method: "POST", body: "{}", headers: { "x-user": name } });
    const state = () => gateway.dataPlane.rateLimitServices()[0];
    const long = await Promise.all(Array.from({ length: 45 }, () => post("x".repeat(2_000))));
    expect(new Set(long.map((response) => response.status))).toEqual(new Set([200]));
    expect((await post("ann")).status).toBe(200);
    const charged = () => service.calls.some((call) => call.request.hitsAddend === 100 && isLong(call, 0) !== tooLarge);
    await expect.poll(() => (gateway.clock.advance(500), [charged(), state()?.chargesBuffered])).toEqual([true, 0]);
    expect(state()?.breaker).toBe("closed");
  });
});

const isCharge: (call: Parameters<Script>[0]) => boolean = ({ request }) =>
  request.hitsAddend > 0 || (request.descriptors[0]?.hitsAddend?.value ?? "0") !== "0";

describe("a service that fails", () => {
  test("at one charge gets it five times, and gets the charges of others", async () => {
    const internal = { code: status.INTERNAL, details: "no" };
    const isOf = (name: string, { request }: Parameters<Script>[0]) =>
      request.descriptors[0]?.entries[0]?.value === name;
    const service = await startScriptedService((call) =>
      isCharge(call) && isOf("bob", call) ? internal : { overallCode: "OK" },
    );
    const dropped: string[] = [];
    const globalLimits = { ...silentObserver, chargeDropped: (_: string, reason: string) => void dropped.push(reason) };
    const policy = globalPolicy(`address: '127.0.0.1:${service.port}', failureMode: Closed, ${threeTimes("Tokens")}`);
    const gateway = await startGateway(manifestsUnder(await startBackend(costing), policy), { globalLimits });
    const post = (name: string) => send(gateway, { method: "POST", body: "{}", headers: { "x-user": name } });
    const charges = (name: string) => service.calls.filter((call) => isCharge(call) && isOf(name, call)).length;
    await post("bob");
    await expect.poll(() => charges("bob")).toBe(1);
    await expect.poll(() => (gateway.clock.advance(500), dropped)).toEqual(["failed"]);
    expect(charges("bob")).toBe(5);
    expect((await post("ann")).status).toBe(200);
    await expect.poll(() => charges("ann")).toBe(1);
    expect(gateway.dataPlane.rateLimitServices()).toMatchObject([{ breaker: "closed", chargesBuffered: 0 }]);
  });

  test("at every call because it is full gets no more calls after a second, until it recovers", async () => {
    let hasRoom = false;
    const full = { code: status.RESOURCE_EXHAUSTED, details: "too many requests" };
    const service = await startScriptedService(() => (hasRoom ? { overallCode: "OK" } : full));
    const policy = globalPolicy(`address: '127.0.0.1:${service.port}', failureMode: Open, ${threeTimes("Requests")}`);
    const gateway = await serveUnder(await startBackend(respondWith(200)), policy);
    for (let at = 0; at < 20; at++) expect((await send(gateway)).status).toBe(200);
    gateway.clock.advance(1_000);
    for (let at = 0; at < 50; at++) expect((await send(gateway)).status).toBe(200);
    expect(gateway.dataPlane.rateLimitServices()).toMatchObject([
      { breaker: "open", cause: expect.any(String) as string },
    ]);
    expect(service.calls.length).toBeLessThan(30);
    hasRoom = true;
    await expect
      .poll(async () => {
        gateway.clock.advance(500);
        await send(gateway);
        return gateway.dataPlane.rateLimitServices()[0]?.breaker;
      })
      .toBe("closed");
  });
});

describe("the service of this project with its defaults", () => {
  async function startService(config: string) {
    const folder = mkdtempSync(join(tmpdir(), "call-size-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    writeFileSync(join(folder, "chat.yaml"), config);
    const service = await startRateLimitService(folder);
    onTestFinished(() => service.kill());
    return service;
  }

  test("accepts the longest call that a policy can make", async () => {
    const service = await startService("domain: chat\ndescriptors: []\n");
    const name = (at: number): string => `${"\u20ac".repeat(62)}${String(at).padStart(2, "0")}`;
    const entries = Array.from(
      { length: 16 },
      (_, at) => `{ name: '${name(at)}', expression: 'request.headers["x-user"]' }`,
    );
    const override = "limitOverride: { requestsPerUnit: 2147483647, unit: Year }, cost: '4294967295'";
    const descriptors = Array.from(
      { length: 16 },
      (_, at) => `{ entries: [${entries.join(", ")}], ${at === 0 ? "cost: '7'" : override} }`,
    );
    const domain = "\u20ac".repeat(256);
    const policy = globalPolicy(
      `address: '127.0.0.1:${service.grpcPort}', timeout: 60s, failureMode: Closed, descriptors: [${descriptors.join(", ")}]`,
    ).replace("domain: chat", `domain: '${domain}'`);
    const gateway = await serveUnder(await startBackend(respondWith(200)), policy);
    // 256 values of 512 bytes are the maximum of a call.
    expect(await sendHeader(gateway, `x-user: ${"\u00e9".repeat(256)}`)).toMatchObject({ status: 200 });
    expect((await sendHeader(gateway, `x-user: ${"\u00e9".repeat(256)}x`)).status).toBe(431);
    expect(gateway.dataPlane.rateLimitServices()[0]).toMatchObject({ breaker: "closed", failuresInARow: 0 });
    expect(gateway.records.map(({ globalDecisions }) => globalDecisions[0]?.by)).toEqual(["service", undefined]);
  });

  test("serves all clients during and after a burst of long values, whatever the failure mode", async () => {
    const service = await startService(
      "domain: chat\ndescriptors: [{ key: address, rate_limit: { unit: hour, requests_per_unit: 300 } }]\n",
    );
    const backend = await startBackend(costing);
    const address = "{ unit: Tokens, entries: [{ name: address, expression: source.address }] }";
    const descriptors = threeTimes("Tokens").replace("descriptors: [", `descriptors: [${address}, `);
    const policy = (failureMode: string) =>
      globalPolicy(
        `address: '127.0.0.1:${service.grpcPort}', timeout: 60s, failureMode: ${failureMode}, ${descriptors}`,
      );
    const gateway = await serveUnder(backend, policy("Open"));
    const state = () => gateway.dataPlane.rateLimitServices()[0];
    const post = () => send(gateway, { method: "POST", body: "{}" });
    const huge = `x-user: ${"\u00e9".repeat(58_000)}`;
    const burst = await Promise.all(Array.from({ length: 45 }, () => sendHeader(gateway, huge)));
    expect(new Set(burst.map((response) => response.status))).toEqual(new Set([431]));
    // 300 tokens: charges arrive after the response, so it takes a while until the last is counted.
    await expect.poll(async () => (await post()).status, { timeout: 10_000 }).toBe(429);
    expect(state()).toMatchObject({ breaker: "closed", failuresInARow: 0, chargesBuffered: 0 });
    const served = backend.requests.length;
    for (const failureMode of ["Open", "Local", "Closed"]) {
      await gateway.apply(manifestsUnder(backend, policy(failureMode)));
      expect((await sendHeader(gateway, huge)).status).toBe(431);
      expect((await post()).status).toBe(429);
    }
    expect(backend.requests).toHaveLength(served);
  });
});
