/** What happens while a rate limit service is away, and when it comes back, step by step on a clock that stands still. */
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
import { ask, byAddress, globalPolicy, manifestsUnder, serveUnder, tokensByUser } from "../support/global-policy.ts";
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

/** Calls that fail in a row before the breaker opens. */
const failuresToOpen = 5;

async function statuses(gateway: TestGateway, count: number, init: RequestInit = {}): Promise<number[]> {
  const seen: number[] = [];
  for (let at = 0; at < count; at++) seen.push((await ask(gateway, init)).status);
  return seen;
}

const deciders = (gateway: TestGateway): unknown[] =>
  gateway.records.map(({ globalDecisions }) => globalDecisions[0]?.by);

describe("the breaker", () => {
  test("opens after a few failures in a row; from then on nothing is asked and nobody waits", async () => {
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

  test("a service that hangs costs a request its timeout and not a moment more; once the breaker is open none waits", async () => {
    const service = await startRawService(() => undefined);
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(
        `address: '127.0.0.1:${service.port}', timeout: 80ms, ${byAddress}, fallback: [{ requests: 1000, unit: Hours }]`,
      ),
    );
    const state = () => gateway.dataPlane.rateLimitServices()[0];
    const waiting = Array.from({ length: 20 }, () => ask(gateway));
    await expect.poll(() => service.calls).toBe(20);
    gateway.clock.advance(79);
    expect(state()).not.toHaveProperty("lastError");
    gateway.clock.advance(1);
    expect(state()?.breaker).toBe("open");
    expect((await Promise.all(waiting)).map(({ status: code }) => code)).toEqual(new Array<number>(20).fill(200));
    // Time stands still: whoever waited for anything would wait for ever.
    expect(await statuses(gateway, 50)).toEqual(new Array<number>(50).fill(200));
    expect(service.calls).toBe(20);
    expect(new Set(deciders(gateway))).toEqual(new Set(["fallback"]));
  });

  test("tells operators since when, the last error, and what is remembered of a service", async () => {
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

  test("sends one call per pause to see, for which nobody waits, and closes when it is answered", async () => {
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
    // The failed probe's answer is on its way; the next pause begins with it.
    await expect
      .poll(() => gateway.clock.pendingTimers > 0 && (gateway.clock.advance(500), service.calls.length))
      .toBe(failuresToOpen + 1);
    await statuses(gateway, 1);
    await expect.poll(() => gateway.dataPlane.rateLimitServices()[0]?.breaker).toBe("closed");
    await statuses(gateway, 2);
    expect(deciders(gateway).slice(-2)).toEqual(["service", "service"]);
  });

  test("closes without a request, so that the first after an idle outage is decided by the service", async () => {
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

  test("a service that refuses calls as such is there, and stays asked", async () => {
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
  test("the policy's fallback admits exactly what it says, as any local limit does", async () => {
    const service = await startScriptedService(() => away);
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(
        `address: '127.0.0.1:${service.port}', envoyRatelimitedHeader: Always, ${byAddress}, fallback: [{ requests: 3, unit: Minutes }]`,
      ),
    );
    expect((await ask(gateway)).limit).toEqual(["3", "2", "60"]);
    expect(await statuses(gateway, 4)).toEqual([200, 200, 429, 429]);
    const refused = await ask(gateway);
    expect([refused.status, refused.body, ...refused.limit]).toEqual([429, "rate limit exceeded", "3", "0", "60"]);
    expect(refused.headers.has("x-envoy-ratelimited")).toBe(false);
    expect(new Set(deciders(gateway))).toEqual(new Set(["fallback"]));
    gateway.clock.advance(60_000);
    expect(await statuses(gateway, 4)).toEqual([200, 200, 200, 429]);
  });

  test("a fallback with a key counts each value by itself", async () => {
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
    ["by default keeps the fallback's unit", "", "2"],
    ["gives the fallback's unit back where the policy says so", "\n      refundOn: [BackendError]", "3"],
  ])("a failure of the backend %s", async (_, refundOn, remaining) => {
    const limit = globalPolicy(`address: '127.0.0.1:1', ${byAddress}, fallback: [{ requests: 3, unit: Minutes }]`);
    const gateway = await serveUnder(await startBackend(respondWith(503)), `${limit.trimEnd()}${refundOn}\n`);
    expect((await ask(gateway)).limit).toEqual(["3", remaining, "60"]);
  });

  test("without a fallback the limits that the service last reported are kept, for the same values", async () => {
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

  /** A service that reports ten a minute until it goes away. */
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
      leave: () => void (isAway = true),
    };
  }

  test("what the service reported holds for what a request costs, to the unit", async () => {
    const { gateway, leave } = await reportingTen(
      `descriptors: [{ entries: [{ name: all, expression: '"all"' }], cost: 'int(request.headers["x-cost"])' }]`,
    );
    const statusAt = async (cost: number) => (await statuses(gateway, 1, { headers: { "x-cost": String(cost) } }))[0];
    await statusAt(1);
    leave();
    const seen: unknown[] = [];
    for (const cost of [4, 4, 3, 2, 1, 0]) seen.push(await statusAt(cost));
    expect(seen).toEqual([200, 200, 429, 200, 429, 200]);
  });

  test("what the service reported while the policy only watched is enforced once the policy enforces", async () => {
    const { gateway, edit, leave } = await reportingTen(byAddress);
    await edit("Shadow");
    await statuses(gateway, 1);
    await edit("Enforce");
    await statuses(gateway, 1);
    leave();
    expect(await statuses(gateway, 11)).toEqual([...new Array<number>(10).fill(200), 429]);
  });

  test("a limit that is over and refuses nothing, as in a service's shadow mode, does not begin to", async () => {
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

  test("a reported token budget is charged what the policy says that a response costs", async () => {
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

  test("routes that the service counts together count together while it is away", async () => {
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
    await ask(gateway, {}, "/one");
    isAway = true;
    const seen: number[] = [];
    for (const path of ["/one", "/two", "/one", "/two"]) seen.push((await ask(gateway, {}, path)).status);
    expect(seen).toEqual([200, 200, 429, 429]);
  });

  test("shareAcrossReplicas is the whole in a process of its own", async () => {
    const service = await startScriptedService(() => away);
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(
        `address: '127.0.0.1:${service.port}', ${byAddress}, fallback: [{ requests: 3, unit: Minutes, shareAcrossReplicas: true }]`,
      ),
    );
    expect(await statuses(gateway, 4)).toEqual([200, 200, 200, 429]);
  });

  test("a service that does not exist is away from the first request on", async () => {
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
    ["the service is away", away],
    // envoyproxy/ratelimit and ours answer so while their Redis is away.
    ["the service has lost its counters", { code: status.UNKNOWN, details: "redis is not connected" }],
  ])("are kept while %s, and arrive when it is back", async (_, failure) => {
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
