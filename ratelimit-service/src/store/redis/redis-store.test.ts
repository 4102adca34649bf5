import { randomUUID } from "node:crypto";
import { type Clock, systemClock } from "@gatewayproxy/runtime/clock";
import { subWindowAt } from "@gatewayproxy/runtime/sliding-window";
import { createClient } from "@redis/client";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { describeWith } from "../../../../test/support/describe-with.ts";
import { type RedisServer, startRedis } from "../../../../test/support/redis-server.ts";
import { caseStartSeconds } from "../../testing/acceptance/case.ts";
import { createCore } from "../../testing/acceptance/core.ts";
import { parseCall } from "../../testing/acceptance/notation.ts";
import { describeCases } from "../../testing/acceptance/run-cases.ts";
import { type CounterChange, type CounterStep, type CounterStore, maxCount } from "../../model/counter-store.ts";
import { PerSecondStore } from "../per-second-store.ts";
import { describeReservations } from "../../testing/reservation-contract.ts";
import { describeCounterStore } from "../testing/contract.ts";
import { describeCounterGroups } from "../testing/group-contract.ts";
import { openRedisStore } from "./open-redis-store.ts";
import { openTestStore, testRedisOptions } from "./testing/open-test-store.ts";

const nowSeconds = Math.floor(systemClock.nowMs() / 1_000);

function step(key: string, hits: number, windowSeconds = 3_600): CounterStep {
  return { key, hits, windowSeconds, windowEndSeconds: nowSeconds + windowSeconds };
}

const storeOf = (store: CounterStore) => () => store;

describeWith(["redis-server"], "counters in Redis", (program) => {
  let redis: RedisServer;
  const open: CounterStore[] = [];

  async function openStore(more: Parameters<typeof testRedisOptions>[1] = {}, clock?: Clock) {
    const store = await openTestStore(testRedisOptions([redis.port], more), clock);
    open.push(store);
    return store;
  }

  beforeAll(async () => {
    redis = await startRedis(program["redis-server"]);
  });
  afterEach(async () => {
    for (const store of open.splice(0)) await store.close();
  });
  afterAll(() => redis.close());

  async function openFixture() {
    const [store, sibling] = [await openStore(), await openStore()];
    return { store, sibling, nowSeconds, close: () => Promise.resolve() };
  }

  describeCounterStore("Redis", openFixture);
  describeCounterGroups("Redis", openFixture);
  describeReservations("Redis", async () => storeOf(await openStore()), true);

  describeCases("the core with Redis", async (settings) => {
    const store = await openStore();
    const { service, clock } = createCore(() => store, settings, { cacheKeyPrefix: `${randomUUID()}_` });
    return {
      ask: async (request) => service.shouldRateLimit(request),
      advance: (seconds) => clock.advance(seconds * 1_000),
      close: () => Promise.resolve(),
    };
  });

  test("keeps counters of groups and of calendar windows for as long as a clock may be set back", async () => {
    const store = await openStore();
    const key = `{${randomUUID()}_}`;
    const windowEndSeconds = nowSeconds + 600;
    const step = { hits: 1, countsDenied: false };
    await store.apply([{ key: `${key}plain`, hits: 1, windowSeconds: 3_600, windowEndSeconds, keepSeconds: 4_200 }]);
    await store.applyGroups([
      { ...step, counters: [{ kind: "aligned", key: `${key}a`, limit: 9, windowEndSeconds, keepSeconds: 4_200 }] },
      { ...step, counters: [{ kind: "sliding", key: `${key}s`, limit: 9, windowSeconds: 3_600, subWindow: 7 }] },
    ]);
    const keep = { windowSeconds: 3_600, windowEndSeconds, keepSeconds: 4_200, subWindow: 7, count: 5 };
    await store.change([
      { kind: "plain", key: `${key}set`, ...keep },
      { kind: "sliding", key: `${key}window`, ...keep },
    ]);
    for (const [name, least] of [
      ["plain", 4_200],
      ["a", 4_200],
      ["s", 3_660],
      ["set", 4_200],
      ["window", 4_200],
    ] as const) {
      // 300 is the jitter, and 5 the time of this test.
      const seconds = Number(await redis.command("TTL", key + name));
      expect(seconds, name).toBeGreaterThan(least - 5);
      expect(seconds, name).toBeLessThanOrEqual(least + 301);
    }
  });

  test.each([-3_600, 3_600])(
    "replicas count the same sliding window, though a clock is ahead by %i s",
    async (seconds) => {
      let aheadMs = 0;
      const clock: Clock = { ...systemClock, nowMs: () => systemClock.nowMs() + aheadMs };
      const replicas = [await openStore(), await openStore({}, clock)];
      const key = `{${randomUUID()}}`;
      const befores: (number | undefined)[] = [];
      for (let call = 0; call < 20; call++) {
        // One clock is wrong from the start, and is set again while the process runs.
        aheadMs = call < 10 ? seconds * 1_000 : -seconds * 1_000;
        const nowMs = call % 2 === 0 ? systemClock.nowMs() : clock.nowMs();
        const counter = {
          kind: "sliding",
          key,
          limit: 99,
          windowSeconds: 60,
          subWindow: subWindowAt(nowMs, 60_000),
        } as const;
        const [[state] = []] =
          (await replicas[call % 2]?.applyGroups([{ hits: 1, countsDenied: false, counters: [counter] }])) ?? [];
        befores.push(state?.before);
        // By the clock of the replica, the hits leave within a window.
        if (state?.freesWith === undefined) continue;
        expect(Math.abs(state.freesWith - counter.subWindow)).toBeLessThanOrEqual(60);
      }
      expect(befores).toEqual(Array.from({ length: 20 }, (_, call) => call));
    },
  );

  test("a counter that was deleted expires when it is created again, whichever replica deleted it", async () => {
    const [store, sibling] = [await openStore(), await openStore()];
    const counter = step(randomUUID(), 1);
    await store.apply([counter]);
    const deleted: CounterChange = { ...counter, kind: "plain", keepSeconds: 3_600, subWindow: 0 };
    expect(await sibling.change([deleted])).toBe(1);
    expect(await store.apply([counter])).toEqual([1]);
    await expect.poll(() => redis.command("TTL", counter.key)).toBeGreaterThan(0);
  });

  test("forgets the sub-windows that have left a sliding window", async () => {
    const store = await openStore();
    const key = `{${randomUUID()}}`;
    for (let subWindow = 0; subWindow < 500; subWindow++) {
      const counter = { kind: "sliding", key, limit: 1e9, windowSeconds: 3_600, subWindow } as const;
      await store.applyGroups([{ hits: 1, countsDenied: false, counters: [counter] }]);
    }
    expect(await redis.command("HLEN", key)).toBe(61);
  });

  /** How often Redis was asked for a command so far. */
  async function callsOf(command: string): Promise<number> {
    const stats = String(await redis.command("INFO", "commandstats"));
    return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
  }

  test("sends the script of groups once, and again when Redis has forgotten it", async () => {
    const store = await openStore();
    const counter = { kind: "sliding", key: `{${randomUUID()}}`, limit: 100, windowSeconds: 60, subWindow: 1 } as const;
    const group = { counters: [counter], hits: 1, countsDenied: false };
    // Another script reads the clock of the server, once.
    await store.applyGroups([{ ...group, hits: 0 }]);
    await redis.command("SCRIPT", "FLUSH");
    const before = await callsOf("eval");
    const counts = [];
    for (let i = 0; i < 3; i++) counts.push(...(await store.applyGroups([group, group])).flat());
    expect(counts.map(({ before: count }) => count)).toEqual([0, 1, 2, 3, 4, 5]);
    expect((await callsOf("eval")) - before).toBe(2);
    await redis.command("SCRIPT", "FLUSH");
    expect((await store.applyGroups([group]))[0]?.[0]?.before).toBe(6);
  });

  test("case 46: keys and their time to live are the reference's", async () => {
    const store = await openStore();
    const { service } = createCore(() => store);
    await service.shouldRateLimit(parseCall("probe", ["ten=a"]));
    const key = `probe_ten_a_${caseStartSeconds - (caseStartSeconds % 86_400)}`;
    expect(await redis.command("GET", key)).toBe("1");
    const seconds = Number(await redis.command("TTL", key));
    expect(seconds).toBeGreaterThanOrEqual(86_400 - 1);
    expect(seconds).toBeLessThan(86_700);
    await redis.command("DEL", key);
  });

  test("a counter gets its expiry once, however often it is counted", async () => {
    const store = await openStore();
    const key = randomUUID();
    const before = { incrby: await callsOf("incrby"), expire: await callsOf("expire") };
    for (let i = 0; i < 20; i++) await store.apply([step(key, 1)]);
    expect((await callsOf("incrby")) - before.incrby).toBe(20);
    expect((await callsOf("expire")) - before.expire).toBe(1);
  });

  describe("a counter of limits whose windows begin together lives as long as the longest", () => {
    /** The start of a day, so that windows of every unit up to it begin with it. */
    const start = nowSeconds - (nowSeconds % 86_400);
    const at = (key: string, windowSeconds: number): CounterStep => ({
      key,
      hits: 1,
      windowSeconds,
      windowEndSeconds: start + windowSeconds,
    });
    const ttl = async (key: string) => Number(await redis.command("TTL", key));

    test("when a limit's unit is edited", async () => {
      const store = await openStore();
      const key = randomUUID();
      for (const [window, least] of [
        [60, 59],
        [3_600, 3_590],
        [60, 3_590],
        [86_400, 86_390],
      ] as const) {
        await store.apply([at(key, window)]);
        // A command goes out before those of a later call, so the end is there when a check gets a response.
        await store.apply([{ ...at(key, window), hits: 0 }]);
        expect(await ttl(key)).toBeGreaterThanOrEqual(least);
      }
    });

    test("when one call, and one turn of several calls, counts on it under two of them", async () => {
      const store = await openStore();
      const [key, other] = [randomUUID(), randomUUID()];
      await Promise.all([
        store.apply([at(key, 60), at(key, 3_600)]),
        store.apply([at(other, 3_600)]),
        store.apply([at(other, 1)]),
      ]);
      await store.apply([{ ...at(key, 60), hits: 0 }]);
      expect(await ttl(key)).toBeGreaterThan(3_590);
      expect(await ttl(other)).toBeGreaterThan(3_590);
    });

    test("when two replicas serve two versions of the limit", async () => {
      const [replica, sibling] = [await openStore(), await openStore()];
      const key = randomUUID();
      await replica.apply([at(key, 3_600)]);
      await sibling.apply([at(key, 60)]);
      await sibling.apply([{ ...at(key, 60), hits: 0 }]);
      expect(await ttl(key)).toBeGreaterThan(3_590);
    });
  });

  test("a counter that Redis lost gets its expiry again", async () => {
    const store = await openStore();
    const key = randomUUID();
    await store.apply([step(key, 5)]);
    await redis.command("DEL", key);
    expect(await store.apply([step(key, 2)])).toEqual([2]);
    await store.apply([step(key, 0)]);
    expect(Number(await redis.command("TTL", key))).toBeGreaterThan(3_000);
  });

  test("a check creates no key, and a refund opens none", async () => {
    const store = await openStore();
    const key = randomUUID();
    await store.apply([step(key, 0), step(key, -3)]);
    expect(await redis.command("EXISTS", key)).toBe(0);
  });

  test.each(["9223372036854775807", "9007199254740993"])(
    "a counter that another program has moved to %s is at the ceiling, until hits are given back",
    async (text) => {
      const store = await openStore();
      const key = randomUUID();
      await redis.command("SET", key, text, "EX", "3000");
      const hits = [0, 1, 5_000_000_000, maxCount, -7, 1];
      const values = [];
      for (const one of hits) values.push(...(await store.apply([step(key, one)])));
      expect(values).toEqual([maxCount, maxCount, maxCount, maxCount, maxCount - 7, maxCount - 6]);
      expect(await redis.command("GET", key)).toBe(String(maxCount - 6));
      expect(Number(await redis.command("TTL", key))).toBeGreaterThan(2_900);
    },
  );

  test("a counter of huge hits gets its expiry", async () => {
    const store = await openStore();
    const key = randomUUID();
    await store.apply([step(key, maxCount)]);
    await store.apply([step(key, 0)]);
    expect(Number(await redis.command("TTL", key))).toBeGreaterThan(3_000);
  });

  test("what calls of one turn ask goes out in one write, each counter's hits in one command", async () => {
    const store = await openStore();
    const keys = Array.from({ length: 10 }, () => randomUUID());
    await store.apply(keys.map((key) => step(key, 1)));
    const watcher = await createClient({ socket: { host: redis.host, port: redis.port } }).connect();
    const readsOf = async () => Number(/total_reads_processed:(\d+)/.exec(await watcher.info("stats"))?.[1]);
    const [commands, reads] = [await callsOf("incrby"), await readsOf()];
    const calls = Array.from({ length: 50 }, async () => store.apply(keys.map((key) => step(key, 2))));
    const values = await Promise.all(calls);
    // The ten commands in one read, and the watcher's question.
    expect((await readsOf()) - reads).toBe(2);
    expect((await callsOf("incrby")) - commands).toBe(10);
    expect(values.map(([first]) => first)).toEqual(Array.from({ length: 50 }, (_, i) => 3 + 2 * i));
    watcher.destroy();
  });

  test("two instances on one Redis admit exactly the limit", async () => {
    const prefix = `${randomUUID()}_`;
    const stores = [await openStore(), await openStore()];
    const cores = stores.map((store) => createCore(() => store, {}, { cacheKeyPrefix: prefix }));
    const call = parseCall("probe", ["sep=a_b"]);
    const calls = cores.flatMap(({ service }) =>
      Array.from({ length: 1_000 }, async () => service.shouldRateLimit(call)),
    );
    const responses = await Promise.all(calls);
    expect(responses.filter(({ overallCode }) => overallCode === "OK")).toHaveLength(100);
  });

  test("one-second windows have their own Redis where there is one", async () => {
    const second = await startRedis(program["redis-server"]);
    try {
      const perSecond = await openTestStore(testRedisOptions([second.port]));
      const store = new PerSecondStore(await openStore(), perSecond);
      const [slow, fast] = [randomUUID(), randomUUID()];
      const steps = [step(slow, 1), step(fast, 2, 1), step(slow, 3), step(fast, 4, 1)];
      expect(await store.apply(steps)).toEqual([1, 2, 4, 6]);
      expect(await redis.command("EXISTS", slow, fast)).toBe(1);
      expect(await second.command("EXISTS", slow, fast)).toBe(1);
      const changed = [slow, fast].map((key) => {
        const end = { windowEndSeconds: nowSeconds + 60, keepSeconds: 60, subWindow: 0 };
        return { kind: "plain" as const, key, windowSeconds: key === slow ? 60 : 1, ...end, count: 7 };
      });
      expect(await store.change(changed)).toBe(2);
      expect(await store.apply([step(slow, 1), step(fast, 2, 1)])).toEqual([8, 9]);
      const key = `{${randomUUID()}}`;
      const counter = { kind: "sliding", key, limit: 9, windowSeconds: 1, subWindow: 1 } as const;
      await store.applyGroups([{ counters: [counter], hits: 1, countsDenied: false }]);
      expect(await redis.command("EXISTS", key)).toBe(1);
      expect(store.isHealthy()).toBe(true);
      await perSecond.close();
    } finally {
      await second.close();
    }
  });

  test("is waited for at the start, and calls are rejected meanwhile", async () => {
    const server = await startRedis(program["redis-server"]);
    await server.kill();
    const errors: string[] = [];
    const opening = openRedisStore({
      redis: testRedisOptions([server.port]),
      jitterMaxSeconds: 0,
      clock: systemClock,
      random: Math.random,
      onError: (error) => errors.push(error.message),
    });
    try {
      expect(opening.store.isHealthy()).toBe(false);
      await expect(opening.store.apply([step("k", 1)])).rejects.toThrow("redis is not connected");
      await server.start();
      await opening.connected;
      expect(opening.store.isHealthy()).toBe(true);
      expect(await opening.store.apply([step("k", 1)])).toEqual([1]);
      expect(errors.join()).toMatch(/ECONNREFUSED/);
    } finally {
      await opening.store.close();
      await server.close();
    }
  });

  test("is given up at the start after the time that was set", async () => {
    const server = await startRedis(program["redis-server"]);
    await server.close();
    const startup = { initialIntervalMs: 1, maxIntervalMs: 2, maxElapsedMs: 20 };
    await expect(openTestStore(testRedisOptions([server.port], { startup }))).rejects.toThrow(/ECONNREFUSED/);
  });
});

describe("a Redis store without connection", () => {
  test("is rejected a certificate that cannot be read", () => {
    const tls = { authoritiesFile: "/missing/ca.pem", skipsHostnameVerification: false };
    const options = { jitterMaxSeconds: 0, clock: systemClock, random: Math.random, onError: () => undefined };
    expect(() => openRedisStore({ redis: testRedisOptions([1], { tls }), ...options })).toThrow(/ca\.pem/);
  });
});
