/**
 * Global limits between real programs: the proxy and a rate limit service, the bundled one and the reference, each as a
 * process. The service is killed during steady traffic.
 */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Pool } from "undici";
import { describe, expect, onTestFinished, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import { describeWith } from "../support/describe-with.ts";
import { backendManifest, backendRef, manifests, routeManifest } from "../support/gateway.ts";
import { globalPolicy } from "../support/global-policy.ts";
import { freePort } from "../support/free-port.ts";
import { type ProxyProcess, startProxy } from "../support/proxy-process.ts";
import { type RateLimitService, startRateLimitService, startReference } from "../support/ratelimit-process.ts";
import { connectRateLimit, descriptor } from "../support/rate-limit-client.ts";
import { startRedis } from "../support/redis-server.ts";

const limits = `
domain: chat
descriptors:
  - key: plan
    value: free
    rate_limit: { unit: hour, requests_per_unit: 10 }
  - key: plan
    value: paid
    rate_limit: { unit: hour, requests_per_unit: 1000000 }
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 1000 }
  - key: everyone
    rate_limit: { unit: hour, requests_per_unit: 1000000 }
`;

/** A folder in which both services find the limits. */
async function limitsFolder(): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), "gatewayproxy-limits-"));
  onTestFinished(() => rm(root, { recursive: true }));
  await mkdir(join(root, "config"));
  await writeFile(join(root, "config", "chat.yaml"), limits);
  return root;
}

const byPlan = `descriptors: [{ entries: [{ name: plan, expression: 'request.headers["x-plan"]' }] }]`;
const tokens = `descriptors: [{ unit: Tokens, entries: [{ name: user, expression: 'request.headers["x-user"]' }] }]`;

interface Gateway {
  readonly proxy: ProxyProcess;
  readonly url: string;
}

async function serve(backendPort: number, policy: string, workers = 1): Promise<Gateway> {
  const port = await freePort();
  const gateway = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: web, namespace: default }
spec:
  gatewayClassName: gateway-proxy
  listeners: [{ name: http, protocol: HTTP, port: ${port} }]
`;
  const text = manifests(
    gateway,
    backendManifest("llm", backendPort),
    routeManifest("chat", [`backendRefs: [${backendRef("llm")}]`]),
    policy,
  );
  const args = ["--listen-address", "127.0.0.1", "--workers", String(workers), "--access-log", "off"];
  return { proxy: await startProxy({ "all.yaml": text }, args), url: `http://127.0.0.1:${port}` };
}

const costing: Parameters<typeof startBackend>[0] = (_request, response) => {
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify({ usage: { prompt_tokens: 100, completion_tokens: 500, total_tokens: 600 } }));
};

async function countOf(
  { url }: Gateway,
  requests: number,
  headers: Record<string, string>,
): Promise<Record<number, number>> {
  const counts: Record<number, number> = {};
  for (let at = 0; at < requests; at++) {
    const { status } = await fetch(url, { headers });
    counts[status] = (counts[status] ?? 0) + 1;
  }
  return counts;
}

/** Behaviour with every service of the protocol. */
function interoperates(start: () => Promise<RateLimitService>): void {
  test("two proxies share one limit of requests", async () => {
    const service = await start();
    const { port } = await startBackend(respondWith(200));
    const policy = globalPolicy(
      `address: '127.0.0.1:${service.grpcPort}', timeout: 5s, failureMode: Closed, ${byPlan}`,
    );
    const [first, second] = await Promise.all([serve(port, policy, 2), serve(port, policy)]);
    const response = await fetch(first.url, { headers: { "x-plan": "free" } });
    expect([
      response.status,
      response.headers.get("x-ratelimit-limit"),
      response.headers.get("x-ratelimit-remaining"),
    ]).toEqual([200, "10, 10;w=3600", "9"]);
    expect(await countOf(first, 5, { "x-plan": "free" })).toEqual({ 200: 5 });
    expect(await countOf(second, 7, { "x-plan": "free" })).toEqual({ 200: 4, 429: 3 });
    expect(await countOf(first, 2, { "x-plan": "free" })).toEqual({ 429: 2 });
    expect(await countOf(first, 2, { "x-plan": "unknown" })).toEqual({ 200: 2 });
  }, 60_000);

  test("a token limit counts responses and denies requests that follow", async () => {
    const service = await start();
    const { port } = await startBackend(costing);
    const gateway = await serve(
      port,
      globalPolicy(`address: '127.0.0.1:${service.grpcPort}', timeout: 5s, failureMode: Closed, ${tokens}`),
    );
    const ann = { "x-user": "ann" };
    expect(await countOf(gateway, 2, ann)).toEqual({ 200: 2 });
    await expect.poll(async () => (await fetch(gateway.url, { headers: ann })).status).toBe(429);
    expect(await countOf(gateway, 1, { "x-user": "bob" })).toEqual({ 200: 1 });
  }, 60_000);
}

describe("with the bundled rate limit service", () => {
  interoperates(async () => {
    const service = await startRateLimitService(join(await limitsFolder(), "config"));
    onTestFinished(() => service.kill());
    return service;
  });
});

describeWith(["ratelimit", "redis-server"], "with the reference service", (programs) => {
  interoperates(async () => {
    const redis = await startRedis(programs["redis-server"]);
    onTestFinished(() => redis.close());
    const service = await startReference(programs.ratelimit, await limitsFolder(), {
      REDIS_URL: `127.0.0.1:${redis.port}`,
    });
    onTestFinished(() => service.kill());
    return service;
  });
});

describeWith(["redis-server"], "a service that loses its Redis", (programs) => {
  test("causes no error for clients, and no token is lost", async () => {
    const redis = await startRedis(programs["redis-server"]);
    onTestFinished(() => redis.close());
    const service = await startRateLimitService(join(await limitsFolder(), "config"), {
      REDIS_URL: `127.0.0.1:${redis.port}`,
      REDIS_TIMEOUT: "50ms",
    });
    onTestFinished(() => service.kill());
    const { port } = await startBackend(costing);
    const gateway = await serve(port, globalPolicy(`address: '127.0.0.1:${service.grpcPort}', timeout: 1s, ${tokens}`));
    const ann = { "x-user": "ann" };
    await redis.kill();
    expect(await countOf(gateway, 6, ann)).toEqual({ 200: 6 });
    expect(await chargesOf(gateway)).toEqual({ buffered: 6, dropped: 0 });

    await redis.start();
    await expect.poll(() => chargesOf(gateway)).toEqual({ buffered: 0, dropped: 0 });
    await expect.poll(async () => (await fetch(gateway.url, { headers: ann })).status).toBe(429);
  }, 60_000);
});

interface Seen {
  readonly status: number;
  readonly marked: boolean;
}

/** More concurrent requests than this mean that the machine is too busy for the rate. */
const maxInProgress = 32;

/** Sends `perSecond` requests a second until `signal`, as far as the machine keeps up. */
async function sendSteadily(
  url: string,
  perSecond: number,
  headers: Record<string, string>,
  signal: AbortSignal,
): Promise<Seen[]> {
  const pool = new Pool(url, { connections: maxInProgress });
  const seen: Seen[] = [];
  const inProgress = new Set<Promise<void>>();
  const startMs = performance.now();
  for (let sent = 0; !signal.aborted; ) {
    const due = ((performance.now() - startMs) * perSecond) / 1_000;
    for (; sent < due; sent++) {
      if (inProgress.size >= maxInProgress) continue;
      const one = pool
        .request({ path: "/", method: "GET", headers })
        .then(async ({ statusCode, headers: received, body }) => {
          await body.dump();
          seen.push({
            status: statusCode,
            marked: "x-envoy-ratelimited" in received,
          });
        });
      inProgress.add(one);
      void one.finally(() => inProgress.delete(one)).catch(() => undefined);
    }
    await sleep(2);
  }
  await Promise.all(inProgress);
  await pool.close();
  return seen;
}

test("killing the service during 500 requests a second causes no error for clients", async () => {
  const folder = await limitsFolder();
  const grpcPort = await freePort();
  const service = await startRateLimitService(join(folder, "config"), { GRPC_PORT: String(grpcPort) });
  onTestFinished(() => service.kill());
  const { port } = await startBackend(costing);
  const fallbackRequests = 400;
  const gateway = await serve(
    port,
    globalPolicy(
      `address: '127.0.0.1:${grpcPort}', fallback: [{ requests: ${fallbackRequests}, unit: Hours }], descriptors: [{ entries: [{ name: plan, expression: 'request.headers["x-plan"]' }] }, { unit: Tokens, entries: [{ name: everyone, expression: '"all"' }], cost: '1' }]`,
    ),
  );
  expect(await countOf(gateway, 20, { "x-plan": "paid" })).toEqual({ 200: 20 });

  const over = new AbortController();
  const load = sendSteadily(gateway.url, 500, { "x-plan": "paid" }, over.signal);
  await sleep(1_000);
  await service.kill();
  const opened = await gateway.proxy.logged(({ msg }) => String(msg).startsWith("rate limit service is unavailable"));
  const openedMs = performance.now();
  const callsWhenOpened = await callsOf(gateway);
  await sleep(1_500);
  const callsWhileAway = (await callsOf(gateway)) - callsWhenOpened;
  const awayMs = performance.now() - openedMs;
  const { buffered } = await chargesOf(gateway);
  const again = await startRateLimitService(join(folder, "config"), { GRPC_PORT: String(grpcPort) });
  onTestFinished(() => again.kill());
  await gateway.proxy.logged(({ msg }) => String(msg).startsWith("rate limit service is available again"));
  await expect.poll(() => chargedAt(again.grpcPort)).toBeGreaterThanOrEqual(buffered);
  // They are sent faster than the continuing traffic makes new ones.
  await expect.poll(() => chargesOf(gateway)).toEqual({ buffered: 0, dropped: 0 });
  const decidedBefore = (await decisions(gateway, "service")).get("allowed") ?? 0;
  await sleep(500);
  over.abort();
  const seen = await load;

  expect(opened["cause"]).toBeDefined();
  expect(new Set(seen.map(({ status }) => status))).toEqual(new Set([200, 429]));
  expect(seen.filter(({ marked, status }) => marked && status === 429)).toEqual([]);
  // The fallback's counter is exact; the limit of the service is not reached.
  const local = await decisions(gateway, "fallback");
  expect(local.get("allowed")).toBe(fallbackRequests);
  expect(local.get("denied")).toBe(seen.filter(({ status }) => status === 429).length);
  // Requests without a call do not wait. Twice a second a probe is sent, for which no request waits.
  expect(callsWhileAway).toBeLessThanOrEqual(Math.ceil(awayMs / probePauseMs) + 1);
  // The service decides again.
  expect((await decisions(gateway, "service")).get("allowed")).toBeGreaterThan(decidedBefore);
  // Every served request charged one token, however long the service was unavailable.
  expect(buffered).toBeGreaterThan(0);
  await expect.poll(() => chargesOf(gateway)).toEqual({ buffered: 0, dropped: 0 });
  expect(await chargedAt(again.grpcPort)).toBeGreaterThanOrEqual(buffered);
}, 60_000);

test("what the service reported to one worker limits requests to the others while it is away", async () => {
  const service = await startRateLimitService(join(await limitsFolder(), "config"));
  onTestFinished(() => service.kill());
  const { port } = await startBackend(respondWith(200));
  const gateway = await serve(port, globalPolicy(`address: '127.0.0.1:${service.grpcPort}', ${byPlan}`), 4);
  // One request, to one of the workers.
  expect(await countOf(gateway, 1, { "x-plan": "free", connection: "close" })).toEqual({ 200: 1 });
  await expect.poll(() => limitsLearned(gateway)).toBe(1);
  await service.kill();
  // Each has a connection of its own, which the kernel gives to any worker.
  expect(await countOf(gateway, 40, { "x-plan": "free", connection: "close" })).toEqual({ 200: 10, 429: 30 });
}, 60_000);

/** The number of limits that all workers know. */
async function limitsLearned({ proxy }: Gateway): Promise<number | undefined> {
  const response = await fetch(`${proxy.admin}/limits`);
  const { services } = (await response.json()) as { services: readonly { limitsLearned: number }[] };
  return services[0]?.limitsLearned;
}

/** The interval of the probes of a worker whose breaker is open. */
const probePauseMs = 500;

/** The tokens that a service has counted for all clients. */
async function chargedAt(grpcPort: number): Promise<number> {
  const client = connectRateLimit(grpcPort);
  const { entries } = descriptor("everyone=all");
  const { statuses } = await client.send({ domain: "chat", descriptors: [{ entries, hitsAddend: { value: "0" } }] });
  client.close();
  return 1_000_000 - (statuses[0]?.limitRemaining ?? 1_000_000);
}

/** Calls of the service so far, checks and charges. */
async function callsOf(gateway: Gateway): Promise<number> {
  return sumOf(await metricsOf(gateway), "gateway_proxy_global_limit_calls_total");
}

/** The sum over all series of a metric. */
function sumOf(text: string, name: string): number {
  const values = [...text.matchAll(new RegExp(`^${name}\\{.*\\} (\\d+)$`, "gm"))].map(([, value]) => Number(value));
  return values.reduce((total, value) => total + value, 0);
}

async function metricsOf({ proxy }: Gateway): Promise<string> {
  return (await fetch(`${proxy.stats}/metrics`)).text();
}

/** Requests by decision, decided by `by`. */
async function decisions(gateway: Gateway, by: string): Promise<ReadonlyMap<string, number>> {
  const text = await metricsOf(gateway);
  const counts = new Map<string, number>();
  for (const [, labels = "", value] of text.matchAll(/^gateway_proxy_global_limit_decisions_total\{(.*)\} (\d+)$/gm)) {
    if (labels.includes(`by="${by}"`)) counts.set(/decision="(\w+)"/.exec(labels)?.[1] ?? "", Number(value));
  }
  return counts;
}

async function chargesOf(gateway: Gateway): Promise<{ buffered: number; dropped: number }> {
  const text = await metricsOf(gateway);
  return {
    buffered: sumOf(text, "gateway_proxy_global_limit_charges_buffered"),
    dropped: sumOf(text, "gateway_proxy_global_limit_charges_dropped_total"),
  };
}
