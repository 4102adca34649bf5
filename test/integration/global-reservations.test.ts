/**
 * Global limits that reserve an estimate of each request, end to end: with the service of this project, and with
 * others.
 */
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { status as grpcStatus } from "@grpc/grpc-js";
import { describe, expect, onTestFinished, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import { gatewayManifest, manifests, routeManifest, startGateway } from "../support/gateway.ts";
import { globalPolicy } from "../support/global-policy.ts";
import { ask, bodyOf, HeldProvider, overload, stream } from "../support/held-provider.ts";
import { type ReceivedCall, type Script, startScriptedService } from "../support/rate-limit-service.ts";
import { describeWith } from "../support/describe-with.ts";
import { FixedClock, startInProcess } from "../support/ratelimit-in-process.ts";
import { startRedis } from "../support/redis-server.ts";
import { startReplyHolder } from "../support/reply-holder.ts";

const everyone = `entries: [{ name: tokens, expression: '"all"' }]`;
const reserved = `{ unit: Tokens, reserve: Estimate, ${everyone} }`;

const inMemory = { BACKEND_TYPE: "memory" };

/** A service with one limit of tokens, and one of requests. */
async function startService(limit: string, more = "", store: Readonly<Record<string, string>> = inMemory) {
  const root = mkdtempSync(join(tmpdir(), "reservations-"));
  onTestFinished(() => rmSync(root, { recursive: true }));
  mkdirSync(join(root, "config"));
  const rules = `[{ key: tokens, rate_limit: ${limit} }, { key: requests, rate_limit: { unit: hour, requests_per_unit: 1 } }${more}]`;
  writeFileSync(join(root, "config", "chat.yaml"), `domain: chat\ndescriptors: ${rules}\n`);
  const clock = new FixedClock();
  const environment = { RUNTIME_ROOT: root, STRICT_ZERO_HIT: "true", ...store };
  const service = await startInProcess(environment, { clock });
  const remaining = async (): Promise<number | undefined> => {
    const descriptors = [{ entries: [{ key: "tokens", value: "all" }], hitsAddend: { value: 0 } }];
    return (await service.client.send({ domain: "chat", descriptors })).statuses[0]?.limitRemaining;
  };
  return { port: service.grpcPort, clock, remaining };
}

async function serve(port: number, descriptors: readonly string[] = [reserved], more = "", rule = "", policies = "") {
  const provider = new HeldProvider();
  const backend = await startBackend(provider.respond);
  const global = `address: '127.0.0.1:${port}', timeout: 60s, ${more} descriptors: [${descriptors.join(", ")}]`;
  const llm = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: {} }, host: 127.0.0.1, port: ${backend.port} } }
`;
  const route = `{ ${rule} backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: llm }] }`;
  const all = [gatewayManifest(), llm, routeManifest("chat", [route]), globalPolicy(global), policies];
  return { provider, gateway: await startGateway(manifests(...all)) };
}

describe("200 concurrent streams against a budget for 50 of them", () => {
  const hourly = "{ unit: hour, requests_per_unit: 10000 }";

  test("use at most the budget, in 20 of 20 runs, and only what they use stays counted", async () => {
    for (let run = 0; run < 20; run++) {
      const service = await startService(hourly);
      const { provider, gateway } = await serve(service.port);
      const { used, allowed } = await overload(provider, gateway);
      expect({ used, allowed }).toEqual({ used: 8_725, allowed: 50 });
      await expect.poll(service.remaining).toBe(10_000 - used);
    }
  }, 240_000);

  test("are all allowed without a reservation, and use three times the budget", async () => {
    const { port } = await startService(hourly);
    const { provider, gateway } = await serve(port, [`{ unit: Tokens, ${everyone} }`]);
    const { used, allowed } = await overload(provider, gateway);
    expect({ used, allowed }).toEqual({ used: 34_906, allowed: 200 });
  }, 60_000);
});

describe("with the service of this project", () => {
  const limit = "{ unit: hour, requests_per_unit: 1000 }";

  test("a request holds its prompt and the output that it allows, and its usage replaces that", async () => {
    const service = await startService(limit);
    const { provider, gateway } = await serve(service.port);
    const first = ask(gateway);
    const response = await provider.next();
    expect(await service.remaining()).toBe(800);
    stream(response, 90, 10);
    expect(await first).toEqual({ status: 200, retryAfter: null, remaining: "800" });
    await expect.poll(service.remaining).toBe(900);
  });

  test("usage beyond the hold is counted as well", async () => {
    const service = await startService(limit);
    const { provider, gateway } = await serve(service.port);
    const first = ask(gateway);
    stream(await provider.next(), 300, 50);
    await first;
    await expect.poll(service.remaining).toBe(650);
  });

  test("an estimate is that of the cost expression, and at most the override", async () => {
    const service = await startService(limit);
    const cost = "cost: llm.inputTokens * 2 + llm.outputTokens * 3";
    const { provider, gateway } = await serve(service.port, [
      `{ unit: Tokens, reserve: Estimate, ${cost}, ${everyone} }`,
    ]);
    const first = ask(gateway);
    const response = await provider.next();
    expect(await service.remaining()).toBe(500);
    stream(response, 10, 10);
    await first;
    await expect.poll(service.remaining).toBe(950);
  });

  test("a request that does not fit is denied, is not counted, and is allowed when others have ended", async () => {
    const service = await startService("{ unit: hour, requests_per_unit: 300 }");
    const { provider, gateway } = await serve(service.port);
    const first = ask(gateway);
    const response = await provider.next();
    for (let times = 0; times < 3; times++) expect((await ask(gateway)).status).toBe(429);
    expect(await service.remaining()).toBe(100);
    stream(response, 50, 50);
    expect((await first).status).toBe(200);
    await expect.poll(service.remaining).toBe(200);
    const second = ask(gateway);
    stream(await provider.next(), 50, 50);
    expect((await second).status).toBe(200);
  });

  test("a request that is larger than the budget is allowed where nothing is counted, and alone", async () => {
    const service = await startService("{ unit: hour, requests_per_unit: 150 }");
    const { provider, gateway } = await serve(service.port);
    const first = ask(gateway);
    const response = await provider.next();
    expect((await ask(gateway, { max_tokens: 1 })).status).toBe(429);
    stream(response, 100, 400);
    expect((await first).status).toBe(200);
    await expect.poll(service.remaining).toBe(0);
    expect((await ask(gateway, { max_tokens: 1 })).status).toBe(429);
  });

  test("a request that another descriptor denies holds nothing", async () => {
    const service = await startService(limit);
    const { provider, gateway } = await serve(service.port, [
      reserved,
      `{ entries: [{ name: requests, expression: '"all"' }] }`,
    ]);
    const first = ask(gateway);
    stream(await provider.next(), 60, 40);
    await first;
    await expect.poll(service.remaining).toBe(900);
    expect((await ask(gateway)).status).toBe(429);
    expect(await service.remaining()).toBe(900);
  });

  test("a request that another global limit denies holds nothing", async () => {
    const service = await startService(limit);
    const ofGateway = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: all, namespace: default }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: Gateway, name: web }]
  traffic:
    rateLimit:
      global:
        address: 127.0.0.1:${service.port}
        domain: chat
        timeout: 60s
        descriptors: [{ entries: [{ name: requests, expression: '"all"' }] }]
`;
    const { provider, gateway } = await serve(service.port, [reserved], "", "", ofGateway);
    const first = ask(gateway);
    stream(await provider.next(), 60, 40);
    await first;
    await expect.poll(service.remaining).toBe(900);
    expect((await ask(gateway)).status).toBe(429);
    await expect.poll(service.remaining).toBe(900);
  });

  const ends: Readonly<Record<string, (response: ServerResponse) => void>> = {
    "an error of the provider": (response) => response.writeHead(500).end("{}"),
    "a reset by the provider": (response) => void response.destroy(),
    "a denial by the provider": (response) => response.writeHead(429).end("{}"),
  };

  test.each(Object.keys(ends))("the hold is refunded after %s", async (name) => {
    const service = await startService(limit);
    const { provider, gateway } = await serve(service.port);
    const first = ask(gateway);
    ends[name]?.(await provider.next());
    expect((await first).status).toBeGreaterThan(299);
    await expect.poll(service.remaining).toBe(1_000);
  });

  test("a request that times out is charged its prompt, and its retries hold nothing more", async () => {
    const service = await startService(limit);
    const rule = "retry: { attempts: 2, codes: [503] }, timeouts: { request: 10s },";
    const { provider, gateway } = await serve(service.port, [reserved], "", rule);
    const first = ask(gateway);
    (await provider.next()).writeHead(503).end();
    await expect.poll(() => (gateway.clock.advance(20), provider.held.length)).toBe(1);
    expect(await service.remaining()).toBe(800);
    gateway.clock.advance(10_000);
    expect((await first).status).toBe(504);
    await expect.poll(service.remaining).toBe(900);
  });

  test("a client that leaves is charged the usage of its response", async () => {
    const service = await startService(limit);
    const { provider, gateway } = await serve(service.port);
    const { hostname, port } = new URL(gateway.url());
    const body = bodyOf({ max_tokens: 100 });
    const socket = connect(Number(port), hostname);
    onTestFinished(() => void socket.destroy());
    socket.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
    const response = await provider.next();
    socket.destroy();
    await once(socket, "close");
    stream(response, 60, 40);
    await expect.poll(() => gateway.records.length).toBe(1);
    await expect.poll(service.remaining).toBe(900);
  });

  test("a hold of an ended window takes nothing from the next one", async () => {
    const service = await startService("{ unit: minute, requests_per_unit: 1000 }");
    const { provider, gateway } = await serve(service.port);
    const first = ask(gateway);
    const response = await provider.next();
    service.clock.advance(60_000);
    const next = ask(gateway);
    const nextResponse = await provider.next();
    stream(response, 50, 50);
    await first;
    expect(await service.remaining()).toBe(800);
    stream(nextResponse, 100, 100);
    await next;
    expect(await service.remaining()).toBe(800);
  });

  test("a limit in shadow mode holds and settles, and denies nothing", async () => {
    const service = await startService("{ unit: hour, requests_per_unit: 300 }");
    const { provider, gateway } = await serve(service.port, [reserved], "mode: Shadow,");
    const [first, second] = [ask(gateway), ask(gateway)];
    const responses = [await provider.next(), await provider.next()];
    expect(await service.remaining()).toBe(100);
    for (const response of responses) stream(response, 50, 50);
    expect([(await first).status, (await second).status]).toEqual([200, 200]);
    await expect.poll(service.remaining).toBe(200);
    expect(gateway.records.map(({ globalDecisions }) => globalDecisions[0]?.outcome).sort()).toEqual([
      "allowed",
      "shadowDenied",
    ]);
  });

  test("a request that generates nothing holds nothing", async () => {
    const service = await startService(limit);
    const { gateway } = await serve(service.port);
    await fetch(`${gateway.url()}/v1/models`, { method: "HEAD" });
    expect(await service.remaining()).toBe(1_000);
  });

  test("hitsMode Request holds and settles the same", async () => {
    const service = await startService(limit);
    const { provider, gateway } = await serve(service.port, [reserved], "hitsMode: Request,");
    const first = ask(gateway);
    const response = await provider.next();
    expect(await service.remaining()).toBe(800);
    stream(response, 50, 50);
    await first;
    await expect.poll(service.remaining).toBe(900);
  });
});

/** The hits of a call, by descriptor; negative ones are refunds. */
function hitsOf({ request }: ReceivedCall): readonly number[] {
  return request.descriptors.map(({ hitsAddend, isNegativeHits }) => {
    const hits = hitsAddend === null ? request.hitsAddend : Number(hitsAddend.value);
    return isNegativeHits ? -hits : hits;
  });
}

const allow: Script = () => ({ overallCode: "OK", statuses: [{ code: "OK" }] });

describe("with a service that refunds nothing", () => {
  test("the estimate is the check, and only usage beyond it is charged", async () => {
    const service = await startScriptedService(allow);
    const { provider, gateway } = await serve(service.port);
    const first = ask(gateway);
    stream(await provider.next(), 60, 40);
    await first;
    const second = ask(gateway);
    stream(await provider.next(), 200, 50);
    await second;
    await service.received(3);
    expect(service.calls.map(hitsOf)).toEqual([[200], [200], [50]]);
  });

  test("Limitador counts the estimate by ShouldRateLimit, and gets the rest by Report", async () => {
    const service = await startScriptedService(allow);
    const descriptors = [reserved, `{ unit: Tokens, ${everyone} }`];
    const { provider, gateway } = await serve(service.port, descriptors, "hitsMode: Kuadrant,");
    const first = ask(gateway);
    stream(await provider.next(), 200, 50);
    await first;
    await service.received(4);
    expect(service.calls.map((call) => [call.method, call.request.hitsAddend]).sort()).toEqual([
      ["CheckRateLimit", 0],
      ["Report", 250],
      ["Report", 50],
      ["ShouldRateLimit", 200],
    ]);
  });

  test("one with one figure for all descriptors gets the estimate by it", async () => {
    const service = await startScriptedService(allow);
    const descriptors = [reserved, `{ entries: [{ name: requests, expression: '"all"' }] }`];
    const { provider, gateway } = await serve(service.port, descriptors, "hitsMode: Request,");
    const first = ask(gateway);
    stream(await provider.next(), 201, 50);
    await first;
    await service.received(3);
    expect(service.calls.map(hitsOf)).toEqual([[200], [1], [51]]);
  });
});

describe("while the service is away", () => {
  const away = { code: grpcStatus.UNAVAILABLE, details: "away" };

  test("a call that only asks whether it has returned holds nothing", async () => {
    let isAway = true;
    const service = await startScriptedService((call, number) => (isAway ? away : allow(call, number)));
    const counted = `{ entries: [{ name: requests, expression: '"all"' }] }`;
    const { provider, gateway } = await serve(service.port, [reserved, counted], "failureMode: Open,");
    const responses: ServerResponse[] = [];
    const requests: Promise<unknown>[] = [];
    for (let count = 1; count <= 6; count++) {
      isAway = count < 6;
      if (!isAway) gateway.clock.advance(500);
      requests.push(ask(gateway));
      responses.push(await provider.next());
    }
    await service.received(6);
    expect(service.calls.map(hitsOf)).toEqual([...Array.from({ length: 5 }, () => [200, 1]), [0, 0]]);
    for (const response of responses) stream(response, 60, 40);
    await Promise.all(requests);
  });

  test("the fallback holds and settles, and the service gets the usage when it returns", async () => {
    let isAway = true;
    const service = await startScriptedService((call, number) => (isAway ? away : allow(call, number)));
    const fallback = "fallback: [{ tokens: 300, unit: Hours, reserve: Estimate }],";
    const { provider, gateway } = await serve(service.port, [reserved], fallback);
    const first = ask(gateway);
    const response = await provider.next();
    expect((await ask(gateway)).status).toBe(429);
    isAway = false;
    stream(response, 60, 40);
    expect(await first).toEqual({ status: 200, retryAfter: null, remaining: "100" });
    await expect.poll(() => (gateway.clock.advance(500), service.calls.map(hitsOf).at(-1))).toEqual([100]);
    expect(service.calls.map(hitsOf)).toEqual([[200], [200], [100]]);
  });

  test("limits that the service has reported hold and settle, too", async () => {
    let isAway = false;
    const status = {
      code: "OK",
      currentLimit: { requestsPerUnit: 300, unit: "HOUR" },
      limitRemaining: 300,
      durationUntilReset: { seconds: 3_600 },
    } as const;
    const service = await startScriptedService(() => (isAway ? away : { overallCode: "OK", statuses: [status] }));
    const { provider, gateway } = await serve(service.port);
    const first = ask(gateway);
    stream(await provider.next(), 60, 40);
    await first;
    isAway = true;
    const second = ask(gateway);
    const response = await provider.next();
    expect((await ask(gateway)).status).toBe(429);
    stream(response, 60, 40);
    expect((await second).status).toBe(200);
    const third = ask(gateway);
    stream(await provider.next(), 60, 40);
    expect(await third).toEqual({ status: 200, retryAfter: null, remaining: "0" });
  });
});

describeWith(["redis-server"], "with a Redis that responds late", (paths) => {
  test.each(["GET", "INCRBY"])(
    "a request that does not wait for it holds nothing, whose %s it responds to",
    async (command) => {
      const redis = await startRedis(paths["redis-server"]);
      onTestFinished(() => redis.close());
      const holder = await startReplyHolder(redis.port);
      const store = { BACKEND_TYPE: "redis", REDIS_URL: `127.0.0.1:${holder.port}`, REDIS_TIMEOUT: "60s" };
      const service = await startService("{ unit: year, requests_per_unit: 1000 }", "", store);
      const { provider, gateway } = await serve(service.port, [reserved], "failureMode: Open,");
      expect(await service.remaining()).toBe(1_000);
      holder.holdFrom(command);
      const first = ask(gateway);
      await expect.poll(() => holder.isHolding()).toBe(true);
      gateway.clock.advance(60_000);
      const response = await provider.next();
      holder.release();
      // In the connection to Redis, each comes after what the call before it has sent.
      for (let times = 0; times < 3; times++) await service.remaining();
      expect(await service.remaining()).toBe(1_000);
      stream(response, 60, 40);
      await first;
      await expect.poll(service.remaining).toBe(900);
    },
  );
});

test("clients that leave at once hold nothing at the end", async () => {
  const service = await startService("{ unit: hour, requests_per_unit: 1000 }");
  const { provider, gateway } = await serve(service.port);
  const { hostname, port } = new URL(gateway.url());
  const body = bodyOf({ max_tokens: 100 });
  for (let times = 0; times < 20; times++) {
    const socket = connect(Number(port), hostname);
    socket.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
    await once(socket, "connect");
    socket.destroy();
    await once(socket, "close");
  }
  const endAll = (): void => provider.held.splice(0).forEach((response) => response.destroy());
  await expect.poll(() => (endAll(), service.remaining())).toBe(1_000);
});
