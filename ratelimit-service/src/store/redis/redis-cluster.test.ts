import { setTimeout } from "node:timers/promises";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { describeWith } from "../../../../test/support/describe-with.ts";
import { type RedisServer, startRedisCluster } from "../../../../test/support/redis-server.ts";
import { createCore } from "../../testing/acceptance/core.ts";
import { parseCall } from "../../testing/acceptance/notation.ts";
import type { CounterStep } from "../../model/counter-store.ts";
import { describeReservations } from "../../testing/reservation-contract.ts";
import { describeCounterStore } from "../testing/contract.ts";
import { describeCounterGroups } from "../testing/group-contract.ts";
import type { RedisStore } from "./redis-store.ts";
import { openTestStore, testRedisOptions } from "./testing/open-test-store.ts";

const nowSeconds = Math.floor(systemClock.nowMs() / 1_000);

function step(key: string, hits: number): CounterStep {
  return { key, hits, windowSeconds: 3_600, windowEndSeconds: nowSeconds + 3_600 };
}

const storeOf = (store: RedisStore) => () => store;

describeWith(["redis-server"], "counters in a Redis Cluster of three", (program) => {
  let nodes: readonly RedisServer[];
  const open: RedisStore[] = [];

  async function openStore(timeoutMs = 5_000) {
    const ports = nodes.map((node) => node.port);
    const store = await openTestStore(testRedisOptions(ports, { topology: "cluster", timeoutMs }));
    open.push(store);
    return store;
  }

  beforeAll(async () => {
    nodes = await startRedisCluster(program["redis-server"]);
  });
  afterEach(async () => {
    for (const store of open.splice(0)) await store.close();
  });
  afterAll(() => Promise.all(nodes.map((node) => node.close())));

  async function openFixture() {
    const [store, sibling] = [await openStore(), await openStore()];
    return { store, sibling, nowSeconds, close: () => Promise.resolve() };
  }

  describeCounterStore("a Redis Cluster", openFixture);
  describeCounterGroups("a Redis Cluster", openFixture);
  describeReservations("a Redis Cluster", async () => storeOf(await openStore()), true);

  test("one call's counters lie on several nodes", async () => {
    const store = await openStore();
    const { service } = createCore(() => store, {}, { cacheKeyPrefix: "spread_" });
    const descriptors = Array.from({ length: 30 }, (_, i) => `ten=${i}`);
    const response = await service.shouldRateLimit(parseCall("probe", descriptors));
    expect(response.statuses.map(({ limitRemaining }) => limitRemaining)).toEqual(Array(30).fill(9));
    const sizes = await Promise.all(nodes.map(async (node) => Number(await node.command("DBSIZE"))));
    expect(Math.min(...sizes)).toBeGreaterThan(0);
  });

  test("a node that hangs takes its own keys away and no others, until it goes on", async () => {
    const store = await openStore(1_000);
    const keys = Array.from({ length: 30 }, (_, i) => `hang_${i}`);
    await Promise.all(keys.map(async (key) => store.apply([step(key, 1)])));
    nodes[1]?.pause();
    try {
      const first = await Promise.allSettled(keys.map(async (key) => store.apply([step(key, 1)])));
      const rejected = first.filter(({ status }) => status === "rejected").length;
      expect(rejected).toBeGreaterThan(0);
      expect(rejected).toBeLessThan(30);
      const again = await Promise.allSettled(keys.map(async (key) => store.apply([step(key, 1)])));
      expect(again.map(({ status }) => status)).toEqual(first.map(({ status }) => status));
      expect(store.isHealthy()).toBe(true);
    } finally {
      nodes[1]?.resume();
    }
    for (;;) {
      const calls = await Promise.allSettled(keys.map(async (key) => store.apply([step(key, 0)])));
      if (calls.every(({ status }) => status === "fulfilled")) break;
      await setTimeout(20);
    }
  });

  test("that hangs as a whole for long is reconnected, and counts again", async () => {
    const store = await openStore(100);
    await store.apply([step("whole", 1)]);
    for (const node of nodes) node.pause();
    try {
      await expect(store.apply([step("whole", 0)])).rejects.toThrow(/redis/);
      // Three timeouts and a probe, which drops the connections; nothing can be connected as yet.
      await setTimeout(2_000);
      expect(store.isHealthy()).toBe(false);
    } finally {
      for (const node of nodes) node.resume();
    }
    while (!store.isHealthy()) await setTimeout(20);
    expect(await store.apply([step("whole", 1)])).toEqual([2]);
  });

  test("is found by any of its nodes, though another hangs", async () => {
    nodes[0]?.pause();
    try {
      const store = await openStore(300);
      const calls = await Promise.allSettled(
        Array.from({ length: 30 }, async (_, i) => store.apply([step(`found_${i}`, 1)])),
      );
      expect(calls.some(({ status }) => status === "fulfilled")).toBe(true);
    } finally {
      nodes[0]?.resume();
    }
  });
});
