/** Descriptors of global limits with `when` and with an override by expression, end to end. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { describe, expect, onTestFinished, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import type { TestGateway } from "../support/gateway.ts";
import { globalPolicy, send, serveUnder } from "../support/global-policy.ts";
import { type Script, startScriptedService } from "../support/rate-limit-service.ts";
import { FixedClock, startInProcess } from "../support/ratelimit-in-process.ts";

const allow: Script = () => ({ overallCode: "OK" });
const byUser = `entries: [{ name: user, expression: 'request.headers["x-user"]' }]`;

/** Serves a route under the descriptors, in flow YAML, of the service on a port. */
async function serve(port: number, descriptors: readonly string[], more = "", backend = respondWith(200)) {
  const policy = globalPolicy(`address: '127.0.0.1:${port}', ${more} descriptors: [${descriptors.join(", ")}]`);
  return serveUnder(await startBackend(backend), policy);
}

async function statuses(gateway: TestGateway, count: number, headers: Record<string, string>, path = "/") {
  const found: number[] = [];
  for (let at = 0; at < count; at++) found.push((await send(gateway, { headers }, path)).status);
  return found;
}

/** The service of this project, in memory, with one limit of 3 a minute for the value `-` of `user`. */
async function startService() {
  const root = mkdtempSync(join(tmpdir(), "overrides-"));
  onTestFinished(() => rmSync(root, { recursive: true }));
  mkdirSync(join(root, "config"));
  const rule = "{ key: user, rate_limit: { unit: minute, requests_per_unit: 3 } }";
  writeFileSync(join(root, "config", "chat.yaml"), `domain: chat\ndescriptors: [${rule}]\n`);
  return startInProcess({ RUNTIME_ROOT: root, BACKEND_TYPE: "memory" }, { clock: new FixedClock() });
}

describe("when", () => {
  test("leaves a descriptor out if it is false, and not if it has no value", async () => {
    const service = await startScriptedService(allow);
    const gateway = await serve(service.port, [
      `{ ${byUser}, when: 'request.headers["x-tier"] != "internal"' }`,
      `{ entries: [{ name: all, expression: '"x"' }] }`,
    ]);
    await send(gateway, { headers: { "x-tier": "internal" } });
    await send(gateway, { headers: { "x-tier": "free" } });
    await send(gateway);
    const sent = service.calls.map(({ request }) => request.descriptors.map(({ entries }) => entries[0]?.key));
    expect(sent).toEqual([["all"], ["user", "all"], ["user", "all"]]);
    expect(gateway.records.map(({ globalDecisions }) => globalDecisions[0]?.notApplied.length)).toEqual([1, 0, 0]);
  });

  test("makes no call if no descriptor applies, and reads the body if it needs it", async () => {
    const service = await startScriptedService(() => ({ overallCode: "OVER_LIMIT" }));
    const gateway = await serve(service.port, [`{ ${byUser}, when: 'llm.requestModel == "large"' }`]);
    const post = (model: string) => send(gateway, { method: "POST", body: JSON.stringify({ model }) });
    expect((await post("small")).status).toBe(200);
    expect(gateway.records[0]?.globalDecisions).toMatchObject([
      { outcome: "allowed", by: "none", notApplied: [{ because: "when", descriptor: { index: 0 } }] },
    ]);
    expect(service.calls).toHaveLength(0);
    expect((await post("large")).status).toBe(429);
    expect(service.calls).toHaveLength(1);
  });

  test("decides once: the response is charged to the descriptors that were checked, with their overrides", async () => {
    const service = await startScriptedService(allow);
    const gateway = await serve(
      service.port,
      [
        `{ ${byUser}, unit: Tokens, when: 'request.headers["x-tier"] == "free"', limitOverride: { requestsPerUnit: 'int(request.headers["x-limit"])', unit: Day } }`,
        `{ entries: [{ name: gold, expression: '"x"' }], unit: Tokens, when: 'request.headers["x-tier"] == "gold"' }`,
      ],
      "",
      (request, response) => {
        request.resume();
        response.writeHead(200, { "content-type": "application/json" });
        response.end(JSON.stringify({ usage: { prompt_tokens: 1, completion_tokens: 6, total_tokens: 7 } }));
      },
    );
    await send(gateway, { headers: { "x-user": "ann", "x-tier": "free", "x-limit": "500" } });
    await service.received(2);
    const [check, charge] = service.calls.map(({ request }) => request.descriptors);
    const limit = { requestsPerUnit: 500, unit: "DAY" };
    expect(check).toMatchObject([{ entries: [{ key: "user", value: "ann" }], hitsAddend: { value: "0" }, limit }]);
    expect(charge).toMatchObject([{ entries: [{ key: "user", value: "ann" }], limit }]);
    expect(service.calls[1]?.request.hitsAddend).toBe(7);
  });

  test("of a descriptor whose cost takes too much work exempts a request from it", async () => {
    const service = await startScriptedService(allow);
    const costly = `size(request.headers["x-long"].split("").map(x, x + "1").join(","))`;
    const gateway = await serve(service.port, [
      `{ ${byUser}, when: 'request.path != "/free"', cost: '${costly} > 0 ? 1 : 2' }`,
    ]);
    const headers = { "x-long": "a".repeat(16_000) };
    expect(await statuses(gateway, 1, headers, "/free")).toEqual([200]);
    expect(await statuses(gateway, 1, headers)).toEqual([400]);
    expect(service.calls).toHaveLength(0);
  });
});

describe("an override by expression", () => {
  test.each([
    ["5", 5],
    ["0", 0],
    ["-0", 0],
    ["2.9", 2],
    ["4294967295", 4_294_967_295],
    ["-1", 7],
    ["-0.5", 7],
    ["NaN", 7],
    ["Infinity", 7],
    ["4294967296", 7],
    ["1e300", 7],
    ["many", 7],
    ["", 7],
  ])("of %j sends the limit %i", async (value, requestsPerUnit) => {
    const service = await startScriptedService(allow);
    const gateway = await serve(service.port, [
      `{ ${byUser}, limitOverride: { requestsPerUnit: 'double(request.query.n)', default: 7, unit: Hour } }`,
      `{ ${byUser}, limitOverride: { requestsPerUnit: 'double(request.query.n)', unit: Hour } }`,
    ]);
    expect((await send(gateway, {}, `/?n=${value}`)).status).toBe(200);
    const [withDefault, without] = service.calls[0]?.request.descriptors ?? [];
    expect(withDefault?.limit).toEqual({ requestsPerUnit, unit: "HOUR", unitMultiplier: null });
    expect(without?.limit?.requestsPerUnit).toBe(requestsPerUnit === 7 ? undefined : requestsPerUnit);
  });

  test("that is absent sends the default, and the descriptor without one", async () => {
    const service = await startScriptedService(allow);
    const gateway = await serve(service.port, [
      `{ ${byUser}, limitOverride: { requestsPerUnit: 'int(jwt.rpm)', default: 7, unit: Hour } }`,
      `{ ${byUser}, limitOverride: { requestsPerUnit: 'int(jwt.rpm)', unit: Hour } }`,
    ]);
    await send(gateway);
    expect(service.calls[0]?.request.descriptors).toMatchObject([{ limit: { requestsPerUnit: 7 } }, { limit: null }]);
  });

  test("gives each client its limit at the bundled service, which has its own limit for the others", async () => {
    const { grpcPort } = await startService();
    const gateway = await serve(grpcPort, [
      `{ ${byUser}, limitOverride: { requestsPerUnit: 'int(request.headers["x-rpm"])', unit: Minute } }`,
    ]);
    expect(await statuses(gateway, 3, { "x-user": "ann", "x-rpm": "2" })).toEqual([200, 200, 429]);
    expect(await statuses(gateway, 3, { "x-user": "bob", "x-rpm": "1" })).toEqual([200, 429, 429]);
    expect(await statuses(gateway, 4, { "x-user": "cyd" })).toEqual([200, 200, 200, 429]);
    // A malformed value gives the limit of the service, and no higher one.
    for (const [at, rpm] of ["-1", "1e9", "99999999999", "", "NaN"].entries()) {
      expect(await statuses(gateway, 4, { "x-user": `eve${at}`, "x-rpm": rpm })).toEqual([200, 200, 200, 429]);
    }
  });

  test("of 0 denies every request at the bundled service", async () => {
    const { grpcPort } = await startService();
    const gateway = await serve(grpcPort, [`{ ${byUser}, limitOverride: { requestsPerUnit: '0', unit: Minute } }`]);
    expect(await statuses(gateway, 2, { "x-user": "ann" })).toEqual([429, 429]);
  });

  test("that takes too much work to compute does not select another limit", async () => {
    const service = await startScriptedService(allow);
    const costly = `size(request.headers["x-long"].split("").map(x, x + "1").join(","))`;
    const gateway = await serve(service.port, [
      `{ ${byUser}, limitOverride: { requestsPerUnit: '${costly} > 0 ? 1 : 2', default: 100, unit: Minute } }`,
    ]);
    expect(await statuses(gateway, 1, { "x-long": "a".repeat(16_000) })).toEqual([400]);
    expect(service.calls).toHaveLength(0);
  });

  test("belongs to a cached denial: a request with another limit makes a call", async () => {
    const service = await startScriptedService(() => ({
      overallCode: "OVER_LIMIT",
      statuses: [{ code: "OVER_LIMIT", durationUntilReset: { seconds: 42 } }],
    }));
    const gateway = await serve(service.port, [
      `{ ${byUser}, limitOverride: { requestsPerUnit: 'int(request.headers["x-rpm"])', unit: Minute } }`,
    ]);
    await statuses(gateway, 2, { "x-user": "ann", "x-rpm": "2" });
    expect(service.calls).toHaveLength(1);
    await statuses(gateway, 1, { "x-user": "ann", "x-rpm": "3" });
    await statuses(gateway, 1, { "x-user": "ann" });
    expect(service.calls).toHaveLength(3);
  });

  test("is the limit while the service is unavailable: none gets that of another request with the same values", async () => {
    let isAway = false;
    const service = await startScriptedService(({ request }) => {
      if (isAway) return { code: status.UNAVAILABLE, details: "away" };
      const { requestsPerUnit = 1 } = request.descriptors[0]?.limit ?? {};
      return {
        overallCode: "OK",
        statuses: [{ code: "OK", currentLimit: { requestsPerUnit, unit: "MINUTE" }, limitRemaining: 1 }],
      };
    });
    const gateway = await serve(service.port, [
      `{ ${byUser}, limitOverride: { requestsPerUnit: 'int(request.headers["x-rpm"])', unit: Minute } }`,
    ]);
    const small = { "x-user": "ann", "x-rpm": "2" };
    const large = { "x-user": "ann", "x-rpm": "4" };
    for (const headers of [small, large, { "x-user": "ann" }]) await statuses(gateway, 1, headers);
    isAway = true;
    // The limit of the configuration, of 1, and those of the requests count in one counter, as in the service.
    expect(await statuses(gateway, 2, { "x-user": "ann" })).toEqual([200, 429]);
    expect(await statuses(gateway, 2, small)).toEqual([200, 429]);
    expect(await statuses(gateway, 3, large)).toEqual([200, 200, 429]);
    gateway.clock.advance(60_000);
    expect(await statuses(gateway, 2, { "x-user": "ann" })).toEqual([200, 429]);
  });
});
