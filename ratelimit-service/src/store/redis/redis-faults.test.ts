import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { performance } from "node:perf_hooks";
import { setTimeout } from "node:timers/promises";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { describeWith } from "../../../../test/support/describe-with.ts";
import { type RedisServer, startRedis } from "../../../../test/support/redis-server.ts";
import { createCore } from "../../testing/acceptance/core.ts";
import { parseCall } from "../../testing/acceptance/notation.ts";
import { createStoreMemory, MemoryTables } from "../memory-tables.ts";
import { FallbackStore } from "../fallback-store.ts";
import { MemoryStore } from "../memory-store.ts";
import type { GroupStep } from "../../model/counter-store.ts";
import type { RedisStore } from "./redis-store.ts";
import { openTestStore, testRedisOptions } from "./testing/open-test-store.ts";

const timeoutMs = 200;

describeWith(["redis-server"], "a Redis that is away", (program) => {
  let redis: RedisServer;
  let store: RedisStore;

  beforeEach(async () => {
    redis = await startRedis(program["redis-server"]);
    store = await openTestStore(testRedisOptions([redis.port], { timeoutMs }));
  });
  afterEach(async () => {
    redis.resume();
    await store.close();
    await redis.close();
  });

  const step = (hits: number, key = "k") => ({ key, hits, windowSeconds: 60, windowEndSeconds: 2 ** 31 });
  const group = (hits: number, key = "k"): GroupStep => ({
    counters: [{ kind: "sliding", key: `{${key}}`, limit: 100, windowSeconds: 60, subWindow: 1 }],
    ...{ hits, countsDenied: false },
  });

  /** The text of a call's rejection, and how long it took in ms. */
  async function rejection(): Promise<{ readonly text: string; readonly ms: number }> {
    const start = performance.now();
    const text = await Promise.resolve(store.apply([step(1)])).then(
      (values) => `counted ${String(values)}`,
      (error: unknown) => String(error),
    );
    return { text, ms: performance.now() - start };
  }

  async function until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await setTimeout(5);
  }

  test("when killed, rejects calls at once and is reported as unavailable; when it is back, counts again", async () => {
    await store.apply([step(1)]);
    await redis.kill();
    await until(() => !store.isHealthy());
    const rejected = await rejection();
    // At once: a call that waited would say for how long.
    expect(rejected.text).toMatch(/^StoreError: redis(?!.* within )/);
    await redis.start();
    await until(() => store.isHealthy());
    expect(await store.apply([step(1)])).toEqual([1]);
  });

  test("when killed, rejects the calls in progress", async () => {
    redis.pause();
    const inProgress = rejection();
    await setTimeout(20);
    await redis.kill();
    expect((await inProgress).text).toMatch(/^StoreError: redis/);
  });

  test("when paused, rejects a call after its timeout and the next ones at once, and counts again when it goes on", async () => {
    redis.pause();
    const first = await rejection();
    expect(first.text).toBe(`StoreError: redis did not respond within ${timeoutMs} ms`);
    expect(first.ms).toBeGreaterThanOrEqual(timeoutMs - 2);
    // A call that waited would say for how long.
    expect((await rejection()).text).toBe("StoreError: redis does not respond");
    expect(store.isHealthy()).toBe(false);
    redis.resume();
    await until(() => store.isHealthy());
    // The rejected call had been written, and was counted when Redis went on.
    expect(await store.apply([step(1)])).toEqual([2]);
  });

  test("when paused while no calls come, is reported as unavailable all the same", async () => {
    redis.pause();
    await until(() => !store.isHealthy());
    redis.resume();
    await until(() => store.isHealthy());
    expect(await store.apply([step(1)])).toEqual([1]);
  });

  test("when silent for long, is reconnected, so that a dead connection cannot last", async () => {
    // Forwards connections, of which those that are open fall silent, as after a failure of the network.
    const clients: Socket[] = [];
    const relay = createServer((client) => {
      clients.push(client);
      const server = connect(redis.port, redis.host);
      client.on("error", () => server.destroy()).pipe(server);
      server.on("error", () => client.destroy()).pipe(client);
      client.on("close", () => server.destroy());
    }).listen(0, "127.0.0.1");
    await once(relay, "listening");
    const { port } = relay.address() as AddressInfo;
    const byRelay = await openTestStore(testRedisOptions([port], { timeoutMs }));
    onTestFinished(async () => {
      await byRelay.close();
      relay.close();
    });
    const known = clients.length;
    for (const client of clients) client.unpipe().pause();
    await expect(byRelay.apply([step(1)])).rejects.toThrow(`redis did not respond within ${timeoutMs} ms`);
    await until(() => clients.length > known);
    await until(() => byRelay.isHealthy());
    expect(await byRelay.apply([step(1)])).toEqual([1]);
  });

  test("when it has become a replica, is looked up again: its name may stand for the new master already", async () => {
    const [old, next] = [redis, await startRedis(program["redis-server"])];
    let target = old.port;
    const name = createServer((client) => {
      const server = connect(target, "127.0.0.1");
      client.on("error", () => server.destroy()).pipe(server);
      server.on("error", () => client.destroy()).pipe(client);
    }).listen(0, "127.0.0.1");
    await once(name, "listening");
    // A TCP server that listens has an address with a port.
    const { port } = name.address() as AddressInfo;
    const byName = await openTestStore(testRedisOptions([port], { timeoutMs }));
    onTestFinished(async () => {
      await byName.close();
      name.close();
      await next.close();
    });
    expect(await byName.apply([step(1)])).toEqual([1]);

    await old.command("REPLICAOF", next.host, String(next.port));
    target = next.port;
    await expect(byName.apply([step(1)])).rejects.toThrow("redis: READONLY");
    expect(byName.isHealthy()).toBe(false);
    await expect.poll(() => byName.isHealthy()).toBe(true);
    expect(await byName.apply([step(1)])).toEqual([1]);
  });

  test("when slow, replies are used within the timeout", async () => {
    const patient = await openTestStore(testRedisOptions([redis.port], { timeoutMs: 30_000 }));
    onTestFinished(() => patient.close());
    // Before the pause begins, since the response to the command may be read late.
    const start = performance.now();
    await redis.command("CLIENT", "PAUSE", "100", "ALL");
    expect(await patient.apply([step(1)])).toEqual([1]);
    expect(performance.now() - start).toBeGreaterThan(50);
    expect(patient.isHealthy()).toBe(true);
  });

  test("when it rejects commands, says why", async () => {
    await redis.command("SET", "k", "not a number");
    await expect(store.apply([step(1)])).rejects.toThrow("redis: ERR value is not an integer or out of range");
    expect(await store.apply([step(1, "other")])).toEqual([1]);
  });

  test("case 70: fails calls with its text, is counted, and works again", async () => {
    const { service, stats } = createCore(() => store);
    await redis.kill();
    await until(() => !store.isHealthy());
    await expect(service.shouldRateLimit(parseCall("probe", ["ten=a"]))).rejects.toMatchObject({
      code: "StoreUnavailable",
      message: "redis is not connected",
    });
    expect(stats.service).toMatchObject({ storeError: 1, serviceError: 0, degraded: 0 });
    await redis.start();
    await until(() => store.isHealthy());
    expect(await service.shouldRateLimit(parseCall("probe", ["ten=a"]))).toMatchObject({ overallCode: "OK" });
  });

  test("with FAILURE_MODE=open lets calls pass", async () => {
    const { service, stats } = createCore(() => store, { headers: "envoy" }, { failsOpen: true });
    await redis.kill();
    await until(() => !store.isHealthy());
    expect(await service.shouldRateLimit(parseCall("probe", ["zero=a", "ten=a"]))).toEqual({
      overallCode: "OK",
      statuses: [
        { code: "OK", limitRemaining: 0 },
        { code: "OK", limitRemaining: 0 },
      ],
      responseHeaders: [],
    });
    expect(stats.service).toMatchObject({ storeError: 1, degraded: 1 });
  });

  test("rejects groups of counters and changes at once, or after the timeout when it hangs", async () => {
    await store.applyGroups([group(3)]);
    redis.pause();
    await expect(store.applyGroups([group(1)])).rejects.toThrow("redis did not respond within 200 ms");
    const change = { ...step(0), kind: "plain" as const, keepSeconds: 60, subWindow: 0 };
    await expect(store.change([change])).rejects.toThrow("redis did not respond within 200 ms");
    redis.resume();
    await until(() => store.isHealthy());
    await redis.kill();
    await until(() => !store.isHealthy());
    await expect(store.applyGroups([group(1)])).rejects.toThrow(/^redis/);
    await expect(store.change([change])).rejects.toThrow("redis is not connected");
  });

  test("that has become a replica rejects groups of counters, and is looked up again", async () => {
    const next = await startRedis(program["redis-server"]);
    onTestFinished(() => next.close());
    await store.applyGroups([group(1)]);
    await redis.command("REPLICAOF", next.host, String(next.port));
    await expect(store.applyGroups([group(1)])).rejects.toThrow("READONLY");
    await redis.command("REPLICAOF", "NO", "ONE");
    await until(() => store.isHealthy());
    expect(await store.applyGroups([group(0)])).toHaveLength(1);
  });

  test("with FAILURE_MODE=local counts in this process, and in Redis again when it is back", async () => {
    let degraded = 0;
    const local = new MemoryStore(new MemoryTables(createStoreMemory(1_024), 1), systemClock);
    const fallback = new FallbackStore(store, local, () => degraded++);
    const key = randomUUID();
    expect(await fallback.apply([step(7, key)])).toEqual([7]);
    await redis.kill();
    await until(() => !store.isHealthy());
    expect(fallback.isHealthy()).toBe(true);
    expect(await fallback.apply([step(1, key)])).toEqual([1]);
    expect(await fallback.apply([step(1, key)])).toEqual([2]);
    expect(await fallback.applyGroups([group(5, key)])).toEqual([[{ before: 0 }]]);
    expect(await fallback.applyGroups([group(1, key)])).toEqual([[{ before: 5, freesWith: 1 }]]);
    const deletion = { ...step(0, "other"), kind: "plain" as const, keepSeconds: 60, subWindow: 0 };
    await expect(fallback.change([deletion])).rejects.toThrow("redis is not connected");
    expect([...fallback.liveCounters()].map(({ key: name, count }) => [name, count])).toEqual([[key, 2]]);
    expect(degraded).toBe(4);
    await redis.start();
    await until(() => store.isHealthy());
    expect(await fallback.apply([step(1, key)])).toEqual([1]);
    expect(await fallback.applyGroups([group(1, key)])).toEqual([[{ before: 0 }]]);
    const change = { ...step(0, key), kind: "plain" as const, keepSeconds: 60, subWindow: 0, count: 9 };
    expect(await fallback.change([change])).toBe(1);
    expect(await fallback.apply([step(1, key)])).toEqual([10]);
  });
});
