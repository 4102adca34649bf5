/**
 * Rate limit services, and the Redis behind them, that become unavailable under load. A fallback decides in that time.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { describeWith } from "../support/describe-with.ts";
import { globalPolicy } from "../support/global-policy.ts";
import { freePort } from "../support/free-port.ts";
import { type RateLimitService, startRateLimitService } from "../support/ratelimit-process.ts";
import { type RedisServer, startRedis } from "../support/redis-server.ts";
import { type FaultOptions, type FaultOutcome, under } from "./support/fault.ts";
import { startBackendProcess, startWire, type Wire } from "./support/servers.ts";
import { startWorld, type World } from "./support/world.ts";

const limits = "domain: chat\ndescriptors:\n  - key: all\n    rate_limit: {unit: year, requests_per_unit: 1000000}\n";

/** `timeout` of the policy below. */
const timeoutMs = 100;

const policy = (port: number): string =>
  globalPolicy(
    `address: '127.0.0.1:${port}', timeout: ${timeoutMs}ms, descriptors: [{ entries: [{ name: all, expression: '"all"' }] }], fallback: [{ requests: 1000000, unit: Hours }]`,
  );

interface Limited {
  readonly world: World;
  readonly wire: Wire;
  readonly redis: RedisServer;
  readonly service: RateLimitService;
  /** Stops the service and starts it again on the same port. */
  readonly restart: () => Promise<void>;
  /** The sum of the counters in Redis. */
  readonly counted: (redis?: RedisServer) => Promise<number>;
}

async function startLimited(redis: RedisServer, env: Readonly<Record<string, string>> = {}): Promise<Limited> {
  const folder = await mkdtemp(join(tmpdir(), "limits-"));
  await writeFile(join(folder, "limits.yaml"), limits);
  const grpcPort = String(await freePort());
  const start = () =>
    startRateLimitService(folder, {
      REDIS_URL: `127.0.0.1:${redis.port}`,
      REDIS_TIMEOUT: "50ms",
      GRPC_PORT: grpcPort,
      ...env,
    });
  let service = await start();
  onTestFinished(async () => {
    await service.kill();
    await rm(folder, { recursive: true });
  });
  const wire = await startWire(service.grpcPort);
  const backend = await startBackendProcess();
  const world = await startWorld({ backend: backend.port, policies: [policy(wire.port)] });
  return {
    world,
    wire,
    redis,
    get service() {
      return service;
    },
    async restart() {
      service = await start();
    },
    async counted(from = redis) {
      // A list of bulk strings.
      const keys = (await from.command("KEYS", "*")) as readonly string[];
      const values = await Promise.all(keys.map((key) => from.command("GET", key)));
      return values.reduce<number>((sum, value) => sum + Number(value), 0);
    },
  };
}

describeWith(["redis-server"], "rate limit service and Redis", (paths) => {
  async function redisFor(args: readonly string[] = []): Promise<RedisServer> {
    const redis = await startRedis(paths["redis-server"], args);
    onTestFinished(() => redis.close());
    return redis;
  }

  /** The number of requests that the service decided, by the proxy's metrics, and the number in the counters. */
  async function accounts({ world, counted }: Limited, redis?: RedisServer) {
    const byService = await world.metric("gateway_proxy_global_limit_decisions_total", 'by="service"');
    const byFallback = await world.metric("gateway_proxy_global_limit_decisions_total", 'by="fallback"');
    return { byService, byFallback, counted: await counted(redis) };
  }

  async function measure(limited: Limited, options: Omit<FaultOptions, "port">): Promise<FaultOutcome> {
    let againMs = 0;
    const seen = await under({
      port: () => limited.world.port,
      ...options,
      async repair() {
        await options.repair?.();
        againMs = await untilServiceDecides(limited.world);
      },
    });
    // Every client gets a response, and waits for the limit no longer than its timeout.
    expect(new Set(seen.outcomes.map(({ kind }) => kind))).toEqual(new Set(["200"]));
    return { ...seen, figures: (counters) => ({ ...seen.figures(counters), recoveredMs: againMs }) };
  }

  const words = ({ byService, byFallback, counted }: Awaited<ReturnType<typeof accounts>>): string =>
    `${byService} decided by the service, ${byFallback} by the fallback; ${counted} counted`;

  test("rate limit service killed for 3 s", async ({ task }) => {
    const limited = await startLimited(await redisFor());
    const seen = await measure(limited, { inject: () => limited.service.kill(), repair: () => limited.restart() });
    const sums = await accounts(limited);
    task.meta.figures = seen.figures(words(sums));
    expect(sums.byFallback).toBeGreaterThan(0);
    // Includes calls that it counted without sending a response.
    expect(sums.counted).toBeGreaterThanOrEqual(sums.byService);
    expect(sums.counted).toBeLessThanOrEqual(sums.byService + sums.byFallback);
  });

  test("rate limit service paused for 3 s", async ({ task }) => {
    const limited = await startLimited(await redisFor());
    const signal = (name: NodeJS.Signals) => () => void limited.service.child.kill(name);
    const seen = await measure(limited, { inject: signal("SIGSTOP"), repair: signal("SIGCONT") });
    const sums = await accounts(limited);
    task.meta.figures = seen.figures(words(sums));
    expect(sums.byFallback).toBeGreaterThan(0);
    expect(sums.counted).toBeGreaterThanOrEqual(sums.byService);
  });

  test("rate limit service 200 ms slow for 3 s, timeout 100 ms", async ({ task }) => {
    const limited = await startLimited(await redisFor());
    const { wire } = limited;
    const seen = await measure(limited, {
      inject: () => wire.set({ kind: "slow", roundTripMs: 200 }),
      repair: () => wire.set({ kind: "pass" }),
    });
    const sums = await accounts(limited);
    task.meta.figures = seen.figures(words(sums));
    expect(sums.byFallback).toBeGreaterThan(0);
    expect(sums.counted).toBeGreaterThanOrEqual(sums.byService);
  });

  test("rate limit service sends invalid responses for 3 s", async ({ task }) => {
    const limited = await startLimited(await redisFor());
    const { wire } = limited;
    const seen = await measure(limited, {
      inject: () => wire.set({ kind: "garbage" }),
      repair: () => wire.set({ kind: "pass" }),
    });
    const sums = await accounts(limited);
    task.meta.figures = seen.figures(words(sums));
    expect(sums.byFallback).toBeGreaterThan(0);
    expect(sums.counted).toBeGreaterThanOrEqual(sums.byService);
  });

  test("Redis killed for 3 s, all its data lost", async ({ task }) => {
    const limited = await startLimited(await redisFor());
    let before = 0;
    const seen = await measure(limited, {
      async inject() {
        before = await limited.counted();
        await limited.redis.kill();
      },
      repair: () => limited.redis.start(),
    });
    const sums = await accounts(limited);
    task.meta.figures = seen.figures(`${before} counted before; ${words(sums)} since`);
    expect(sums.byFallback).toBeGreaterThan(0);
    expect(sums.counted).toBeGreaterThan(0);
    expect(sums.counted + before).toBeGreaterThanOrEqual(sums.byService - rateSlack);
  });

  test("Redis paused for 3 s", async ({ task }) => {
    const limited = await startLimited(await redisFor());
    const { redis } = limited;
    const seen = await measure(limited, { inject: redis.pause, repair: redis.resume });
    const sums = await accounts(limited);
    task.meta.figures = seen.figures(words(sums));
    expect(sums.byFallback).toBeGreaterThan(0);
    expect(sums.counted).toBeGreaterThanOrEqual(sums.byService);
  });

  test("Redis failed over to its replica by a sentinel", async ({ task }) => {
    const master = await redisFor();
    const replica = await redisFor(["--replicaof", "127.0.0.1", String(master.port)]);
    const folder = await mkdtemp(join(tmpdir(), "sentinel-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const config = join(folder, "sentinel.conf");
    const watch = [
      `sentinel monitor main 127.0.0.1 ${master.port} 1`,
      "sentinel down-after-milliseconds main 1000",
      "sentinel failover-timeout main 5000",
    ];
    await writeFile(config, `${watch.join("\n")}\n`);
    const sentinel = await startRedis(paths["redis-server"], ["--sentinel"], config);
    onTestFinished(() => sentinel.close());
    await expect.poll(() => replica.command("INFO", "replication")).toContain("master_link_status:up");
    await expect
      .poll(async () => JSON.stringify(await sentinel.command("SENTINEL", "REPLICAS", "main")))
      .toContain(String(replica.port));
    const limited = await startLimited(master, {
      REDIS_TYPE: "SENTINEL",
      REDIS_URL: `main,127.0.0.1:${sentinel.port}`,
    });
    let before = 0;
    const seen = await measure(limited, {
      async inject() {
        before = await limited.counted();
        await master.kill();
      },
      lastsMs: 0,
    });
    const sums = await accounts(limited, replica);
    task.meta.figures = seen.figures(`${before} counted before; ${words(sums)}`);
    expect(sums.byFallback).toBeGreaterThan(0);
    // Replication is asynchronous: the last counts of the master may be lost with it.
    expect(sums.counted).toBeGreaterThanOrEqual(sums.byService - rateSlack);
  });
});

/** Resolves when the fallback has not decided for half a second; with the milliseconds until its last decision. */
async function untilServiceDecides({ metric }: World): Promise<number> {
  const beganMs = performance.now();
  let [last, lastMs] = [0, beganMs];
  for (;;) {
    await sleep(500);
    const now = await metric("gateway_proxy_global_limit_decisions_total", 'by="fallback"');
    if (now === last && now > 0) return lastMs - beganMs;
    [last, lastMs] = [now, performance.now()];
  }
}

/** Calls of half a second: they may be in progress, or not replicated yet, at the moment of a crash. */
const rateSlack = 150;
