/** The loss and the return of a rate limit service, step by step on a fake clock. */
import { status } from "@grpc/grpc-js";
import type { RateLimitResponse } from "@gatewayproxy/protos/gen/envoy/service/ratelimit/v3/RateLimitResponse";
import { describe, expect, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";
import { byAddress, globalPolicy, manifestsUnder, send, serveUnder, tokensByUser } from "../support/global-policy.ts";
import { type Script, startRawService, startScriptedService } from "../support/rate-limit-service.ts";

const away = { code: status.UNAVAILABLE, details: "away" };
const limited: Script = () => ({
  overallCode: "OK",
  statuses: [
    {
      code: "OK",
      currentLimit: { requestsPerUnit: 2, unit: "MINUTE" },
      limitRemaining: 1,
      durationUntilReset: { seconds: 60 },
    },
  ],
});

const exhausted: RateLimitResponse = {
  overallCode: "OVER_LIMIT",
  statuses: [
    {
      code: "OVER_LIMIT",
      currentLimit: { requestsPerUnit: 2, unit: "MINUTE" },
      limitRemaining: 0,
      durationUntilReset: { seconds: 60 },
    },
  ],
};

const costing: Parameters<typeof startBackend>[0] = (_request, response) => {
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify({ usage: { total_tokens: 100 } }));
};

/** Consecutive failures that open the breaker. */
const failuresToOpen = 5;

async function statuses(gateway: TestGateway, count: number, init: RequestInit = {}): Promise<number[]> {
  const seen: number[] = [];
  for (let at = 0; at < count; at++) seen.push((await send(gateway, init)).status);
  return seen;
}

const deciders = (gateway: TestGateway): unknown[] =>
  gateway.records.map(({ globalDecisions }) => globalDecisions[0]?.by);

describe("the breaker", () => {
  test("opens after a few consecutive failures; then no call is made and no request waits", async () => {
    const service = await startScriptedService(() => away);
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(`address: '127.0.0.1:${service.port}', ${byAddress}`),
    );
    expect(await statuses(gateway, 20)).toEqual(new Array<number>(20).fill(200));
    expect(service.calls).toHaveLength(failuresToOpen);
    const nowMs = gateway.clock.nowMs();
    expect(gateway.dataPlane.rateLimitServices()).toEqual([
      {
        service: `address/127.0.0.1:${service.port}`,
        breaker: "open",
        sinceMs: nowMs,
        cause: "gRPC status 14: away",
        lastError: { message: "gRPC status 14: away", atMs: nowMs },
        failuresInARow: failuresToOpen,
        chargesBuffered: 0,
        denialsCached: 0,
        limitsLearned: 0,
      },
    ]);
  });

  test("a request waits for a service that hangs only until its timeout; once the breaker is open no request waits", async () => {
    const service = await startRawService(() => undefined);
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(
        `address: '127.0.0.1:${service.port}', timeout: 80ms, ${byAddress}, fallback: [{ requests: 1000, unit: Hours }]`,
      ),
    );
    const state = () => gateway.dataPlane.rateLimitServices()[0];
    const waiting = Array.from({ length: 20 }, () => send(gateway));
    await expect.poll(() => service.calls).toBe(20);
    gateway.clock.advance(79);
    expect(state()).not.toHaveProperty("lastError");
    gateway.clock.advance(1);
    expect(state()?.breaker).toBe("open");
    expect((await Promise.all(waiting)).map(({ status: code }) => code)).toEqual(new Array<number>(20).fill(200));
    // The clock does not advance: a request that waited would never end.
    expect(await statuses(gateway, 50)).toEqual(new Array<number>(50).fill(200));
    expect(service.calls).toBe(20);
    expect(new Set(deciders(gateway))).toEqual(new Set(["fallback"]));
  });

  test("shows its time, the last error, and the caches of a service", async () => {
    let isAway = false;
    const service = await startScriptedService((call, number) =>
      isAway ? away : number === 1 ? limited(call, number) : exhausted,
    );
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(`address: '127.0.0.1:${service.port}', ${byAddress}`),
    );
    const startMs = gateway.clock.nowMs();
    expect(await statuses(gateway, 2)).toEqual([200, 429]);
    expect(gateway.dataPlane.rateLimitServices()).toMatchObject([
      { breaker: "closed", sinceMs: startMs, denialsCached: 1, limitsLearned: 1 },
    ]);
    expect(gateway.dataPlane.rateLimitServices()[0]).not.toHaveProperty("lastError");
    gateway.clock.advance(60_000);
    isAway = true;
    await statuses(gateway, 1);
    expect(gateway.dataPlane.rateLimitServices()).toMatchObject([
      {
        breaker: "closed",
        lastError: { message: "gRPC status 14: away", atMs: startMs + 60_000 },
        failuresInARow: 1,
      },
    ]);
  });

  test("sends one probe per pause, for which no request waits, and closes on its response", async () => {
    let isAway = true;
    const service = await startScriptedService(() => (isAway ? away : { overallCode: "OK" }));
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(`address: '127.0.0.1:${service.port}', ${byAddress}`),
    );
    await statuses(gateway, failuresToOpen);
    gateway.clock.advance(500);
    await statuses(gateway, 3);
    await service.received(failuresToOpen + 1);
    isAway = false;
    // The response of the failed probe is being sent; the next pause begins with it.
    await expect
      .poll(() => gateway.clock.pendingTimers > 0 && (gateway.clock.advance(500), service.calls.length))
      .toBe(failuresToOpen + 1);
    await statuses(gateway, 1);
    await expect.poll(() => gateway.dataPlane.rateLimitServices()[0]?.breaker).toBe("closed");
    await statuses(gateway, 2);
    expect(deciders(gateway).slice(-2)).toEqual(["service", "service"]);
  });

  test("closes without a request, so that the service decides on the first request after an idle outage", async () => {
    const first = await startScriptedService(() => ({ overallCode: "OK" }));
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(`address: '127.0.0.1:${first.port}', failureMode: Closed, ${byAddress}`),
    );
    expect(await statuses(gateway, 1)).toEqual([200]);
    first.kill();
    expect(await statuses(gateway, failuresToOpen)).toEqual(new Array<number>(failuresToOpen).fill(503));
    const state = () => gateway.dataPlane.rateLimitServices()[0];
    expect(state()?.breaker).toBe("open");
    const second = await startScriptedService(() => ({ overallCode: "OK" }), first.port);
    await expect.poll(() => (gateway.clock.advance(500), state()?.breaker), { timeout: 20_000 }).toBe("closed");
    expect(second.calls).toHaveLength(0);
    expect(await statuses(gateway, 1)).toEqual([200]);
  });

  test("does not count rejected calls as failures: the service still gets calls", async () => {
    const service = await startScriptedService(() => ({ code: status.INVALID_ARGUMENT, details: "bad domain" }));
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(`address: '127.0.0.1:${service.port}', ${byAddress}`),
    );
    await statuses(gateway, 8);
    expect(service.calls).toHaveLength(8);
  });
});

describe("failureMode: Local", () => {
  test("the policy's fallback allows exactly its limit, like any local limit", async () => {
    const service = await startScriptedService(() => away);
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(
        `address: '127.0.0.1:${service.port}', envoyRatelimitedHeader: Always, ${byAddress}, fallback: [{ requests: 3, unit: Minutes }]`,
      ),
    );
    expect((await send(gateway)).limit).toEqual(["3", "2", "60"]);
    expect(await statuses(gateway, 4)).toEqual([200, 200, 429, 429]);
    const denied = await send(gateway);
    expect([denied.status, denied.body, ...denied.limit]).toEqual([429, "rate limit exceeded", "3", "0", "60"]);
    expect(denied.headers.has("x-envoy-ratelimited")).toBe(false);
    expect(new Set(deciders(gateway))).toEqual(new Set(["fallback"]));
    gateway.clock.advance(60_000);
    expect(await statuses(gateway, 4)).toEqual([200, 200, 200, 429]);
  });

  test("a fallback with a key counts each value separately", async () => {
    const fallback = `fallback: [{ requests: 2, unit: Minutes, key: 'request.headers["x-user"]' }]`;
    const policy = globalPolicy(`address: '127.0.0.1:1', ${byAddress}, ${fallback}`);
    const gateway = await serveUnder(await startBackend(respondWith(200)), policy);
    const user = (name: string): RequestInit => ({ headers: { "x-user": name } });
    expect(await statuses(gateway, 3, user("ann"))).toEqual([200, 200, 429]);
    expect(await statuses(gateway, 3, user("bob"))).toEqual([200, 200, 429]);
    // Requests without a value share a counter.
    expect(await statuses(gateway, 3)).toEqual([200, 200, 429]);
    expect(new Set(deciders(gateway))).toEqual(new Set(["fallback"]));
  });

  test.each([
    ["is counted by the fallback by default", "", "2"],
    ["is refunded to the fallback if the policy says so", "\n      refundOn: [BackendError]", "3"],
  ])("a failure of the backend %s", async (_, refundOn, remaining) => {
    const limit = globalPolicy(`address: '127.0.0.1:1', ${byAddress}, fallback: [{ requests: 3, unit: Minutes }]`);
    const gateway = await serveUnder(await startBackend(respondWith(503)), `${limit.trimEnd()}${refundOn}\n`);
    expect((await send(gateway)).limit).toEqual(["3", remaining, "60"]);
  });

  test("without a fallback the limits that the service last reported apply, to the same values", async () => {
    let isAway = false;
    const service = await startScriptedService((call, number) => (isAway ? away : limited(call, number)));
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(
        `address: '127.0.0.1:${service.port}', descriptors: [{ entries: [{ name: user, expression: 'request.headers["x-user"]' }] }]`,
      ),
    );
    const ann = { headers: { "x-user": "ann" } };
    expect(await statuses(gateway, 1, ann)).toEqual([200]);
    isAway = true;
    expect(await statuses(gateway, 4, ann)).toEqual([200, 200, 429, 429]);
    expect(await statuses(gateway, 4, { headers: { "x-user": "unknown" } })).toEqual([200, 200, 200, 200]);
    expect(deciders(gateway).slice(1, 5)).toEqual(["learned", "learned", "learned", "learned"]);
    expect(deciders(gateway).at(-1)).toBe("failureMode");
  });

  /** A service that reports ten a minute until it becomes unavailable. */
  async function reportingTen(globalFields: string) {
    const report: RateLimitResponse = {
      overallCode: "OK",
      statuses: [{ code: "OK", currentLimit: { requestsPerUnit: 10, unit: "MINUTE" }, limitRemaining: 9 }],
    };
    let isAway = false;
    const service = await startScriptedService(() => (isAway ? away : report));
    const backend = await startBackend(respondWith(200));
    const policy = (mode: string) =>
      globalPolicy(`address: '127.0.0.1:${service.port}', mode: ${mode}, ${globalFields}`);
    const gateway = await serveUnder(backend, policy("Enforce"));
    return {
      gateway,
      edit: (mode: string) => gateway.apply(manifestsUnder(backend, policy(mode))),
      fail: () => void (isAway = true),
    };
  }

  test("the reported limit counts the cost of requests exactly", async () => {
    const { gateway, fail } = await reportingTen(
      `descriptors: [{ entries: [{ name: all, expression: '"all"' }], cost: 'int(request.headers["x-cost"])' }]`,
    );
    const statusAt = async (cost: number) => (await statuses(gateway, 1, { headers: { "x-cost": String(cost) } }))[0];
    await statusAt(1);
    fail();
    const seen: unknown[] = [];
    for (const cost of [4, 4, 3, 2, 1, 0]) seen.push(await statusAt(cost));
    expect(seen).toEqual([200, 200, 429, 200, 429, 200]);
  });

  test("a limit that was reported in shadow mode is enforced once the policy enforces", async () => {
    const { gateway, edit, fail } = await reportingTen(byAddress);
    await edit("Shadow");
    await statuses(gateway, 1);
    await edit("Enforce");
    await statuses(gateway, 1);
    fail();
    expect(await statuses(gateway, 11)).toEqual([...new Array<number>(10).fill(200), 429]);
  });

  test("a limit that is over and denies nothing, as in a service's shadow mode, still denies nothing", async () => {
    let response: RateLimitResponse | typeof away = { ...exhausted, overallCode: "OK" };
    const service = await startScriptedService(() => response);
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(`address: '127.0.0.1:${service.port}', ${byAddress}`),
    );
    await statuses(gateway, 1);
    response = away;
    expect(await statuses(gateway, 4)).toEqual([200, 200, 200, 200]);
  });

  test("a reported token limit is charged the cost that the policy computes from the response", async () => {
    let isAway = false;
    const service = await startScriptedService((call, number) => (isAway ? away : limited(call, number)));
    const gateway = await serveUnder(
      await startBackend(costing),
      globalPolicy(
        `address: '127.0.0.1:${service.port}', descriptors: [{ unit: Tokens, cost: '1', entries: [{ name: all, expression: '"all"' }] }]`,
      ),
    );
    await statuses(gateway, 1);
    isAway = true;
    expect(await statuses(gateway, 4)).toEqual([200, 200, 429, 429]);
  });

  test("routes that the service counts together count together while it is unavailable", async () => {
    let isAway = false;
    const service = await startScriptedService((call, number) => (isAway ? away : limited(call, number)));
    const backend = await startBackend(respondWith(200));
    const route = (name: string) =>
      routeManifest(name, [
        `{ matches: [{ path: { type: PathPrefix, value: /${name} } }], backendRefs: [${backendRef("llm")}] }`,
      ]);
    const policy = (name: string) =>
      globalPolicy(`address: '127.0.0.1:${service.port}', ${byAddress}`).replaceAll("name: chat", `name: ${name}`);
    const gateway = await startGateway(
      manifests(
        gatewayManifest(),
        backendManifest("llm", backend.port),
        ...["one", "two"].flatMap((name) => [route(name), policy(name)]),
      ),
    );
    await send(gateway, {}, "/one");
    isAway = true;
    const seen: number[] = [];
    for (const path of ["/one", "/two", "/one", "/two"]) seen.push((await send(gateway, {}, path)).status);
    expect(seen).toEqual([200, 200, 429, 429]);
  });

  test("shareAcrossReplicas gives a single process the whole limit", async () => {
    const service = await startScriptedService(() => away);
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(
        `address: '127.0.0.1:${service.port}', ${byAddress}, fallback: [{ requests: 3, unit: Minutes, shareAcrossReplicas: true }]`,
      ),
    );
    expect(await statuses(gateway, 4)).toEqual([200, 200, 200, 429]);
  });

  test("a service that does not exist is unavailable from the first request", async () => {
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(`address: '127.0.0.1:1', ${byAddress}, fallback: [{ requests: 1, unit: Minutes }]`),
    );
    expect(await statuses(gateway, 2)).toEqual([200, 429]);
  });
});

describe("charges", () => {
  const user = { headers: { "x-user": "ann" } };

  test.each([
    ["the service is unavailable", away],
    // envoyproxy/ratelimit and our service respond so while their Redis is unavailable.
    ["the service has lost its counters", { code: status.UNKNOWN, details: "redis is not connected" }],
  ])("are buffered while %s, and sent when it returns", async (_, failure) => {
    let isAway = true;
    const service = await startScriptedService(() => (isAway ? failure : { overallCode: "OK" }));
    const gateway = await serveUnder(
      await startBackend(costing),
      globalPolicy(`address: '127.0.0.1:${service.port}', ${tokensByUser}`),
    );
    expect(await statuses(gateway, 6, user)).toEqual([200, 200, 200, 200, 200, 200]);
    await expect
      .poll(() => gateway.dataPlane.rateLimitServices()[0])
      .toMatchObject({ breaker: "open", chargesBuffered: 6 });
    isAway = false;
    const before = service.calls.length;
    gateway.clock.advance(500);
    await service.received(before + 6);
    expect(service.calls.slice(before).map(({ request }) => request.hitsAddend)).toEqual([
      100, 100, 100, 100, 100, 100,
    ]);
    await expect
      .poll(() => gateway.dataPlane.rateLimitServices()[0])
      .toMatchObject({ breaker: "closed", chargesBuffered: 0 });
  });
});
