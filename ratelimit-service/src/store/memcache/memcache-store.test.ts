import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { crc32 } from "node:zlib";
import { afterEach, describe, expect, onTestFinished, test, beforeAll, afterAll } from "vitest";
import { describeWith } from "../../../../test/support/describe-with.ts";
import { type MemcachedServer, startMemcached } from "../../../../test/support/memcached-server.ts";
import { createCore } from "../../testing/acceptance/core.ts";
import { describeCases } from "../../testing/acceptance/run-cases.ts";
import { type CounterStep, type CounterStore, StoreError } from "../../model/counter-store.ts";
import { describeReservations } from "../../testing/reservation-contract.ts";
import { describeCounterStore } from "../testing/contract.ts";
import { parseMemcacheAddress, type MemcacheServers } from "./memcache-options.ts";
import { openMemcacheStore, type OpenMemcacheOptions } from "./open-memcache-store.ts";

const nowSeconds = Math.floor(systemClock.nowMs() / 1_000);

function step(key: string, hits = 1, windowSeconds = 3_600): CounterStep {
  return { key, hits, windowSeconds, windowEndSeconds: nowSeconds + windowSeconds };
}

const storeOf = (store: CounterStore) => () => store;

describeWith(["memcached"], "counters in memcached", (program) => {
  let memcached: MemcachedServer;
  const open: CounterStore[] = [];
  const closing = new AbortController();

  async function openStore(addresses: readonly string[], more: Partial<OpenMemcacheOptions> = {}) {
    const servers: MemcacheServers = {
      kind: "list",
      addresses: addresses.flatMap((address) => parseMemcacheAddress(address) ?? []),
    };
    const opening = openMemcacheStore(
      {
        // A call of ten thousand steps takes seconds on a busy machine.
        memcache: { servers, timeoutMs: 20_000 },
        ...{ jitterMaxSeconds: 0, clock: systemClock, random: Math.random, failsOpen: false },
        onError: () => undefined,
        ...more,
      },
      closing.signal,
    );
    open.push(opening.store);
    await opening.connected;
    return opening.store;
  }

  async function startServer() {
    const server = await startMemcached(program.memcached);
    onTestFinished(() => server.kill());
    return server;
  }

  beforeAll(async () => {
    memcached = await startMemcached(program.memcached);
  });
  afterEach(async () => {
    for (const store of open.splice(0)) await store.close();
  });
  afterAll(async () => {
    closing.abort();
    await memcached.kill();
  });

  describeCounterStore("memcached", async () => {
    const [store, sibling] = [await openStore([memcached.address]), await openStore([memcached.address])];
    return { store, sibling, nowSeconds, close: () => Promise.resolve() };
  });

  describeReservations("memcached", async () => storeOf(await openStore([memcached.address])), false);

  describeCases("the core with memcached", async (settings) => {
    const store = await openStore([memcached.address]);
    const { service, clock } = createCore(() => store, settings, { cacheKeyPrefix: `${randomUUID()}_` });
    return {
      ask: async (request) => service.shouldRateLimit(request),
      advance: (seconds) => clock.advance(seconds * 1_000),
      close: () => Promise.resolve(),
    };
  });

  describe("what memcached holds", () => {
    test("is a number under the reference's key, which ends with the window and its jitter", async () => {
      const server = await startServer();
      const store = await openStore([server.address], { jitterMaxSeconds: 300, random: () => 0.5 });
      await store.apply([step("basic_key1_foo_1700000000", 3, 60)]);
      await store.apply([step("basic_key1_foo_1700000000", 2, 60)]);

      const { value, secondsLeft } = (await server.entries()).get("basic_key1_foo_1700000000") ?? {};
      expect(value).toBe("5");
      expect(secondsLeft).toBeGreaterThan(60 + 150 - 10);
      expect(secondsLeft).toBeLessThanOrEqual(60 + 150);
    });

    test("lives on if its window ends after the last date that memcached can represent", async () => {
      const store = await openStore([memcached.address]);
      const century = step(randomUUID(), 1, 100 * 365 * 86_400);
      expect(await store.apply([century])).toEqual([1]);
      expect(await store.apply([century])).toEqual([2]);
    });

    test("lives as long as a window of more than 30 days, which memcached would read as a date", async () => {
      const server = await startServer();
      const store = await openStore([server.address]);
      const year = 365 * 86_400;
      await store.apply([step("y", 1, year)]);

      expect(await store.apply([step("y", 1, year)])).toEqual([2]);
      expect((await server.entries()).get("y")?.secondsLeft).toBeGreaterThan(year - 60);
    });

    test("ends with the longest of the windows that share a key", async () => {
      const server = await startServer();
      const [store, other] = [await openStore([server.address]), await openStore([server.address])];
      await store.apply([step("d_k_v_0", 1, 60)]);
      await other.apply([step("d_k_v_0", 1, 3_600)]);
      const secondsLeft = async () => Number((await server.command("mg d_k_v_0 t")).slice("HD t".length));
      await expect.poll(secondsLeft).toBeGreaterThan(3_590);
      await store.apply([step("d_k_v_0", 1, 60)]);
      await (await openStore([server.address])).apply([step("d_k_v_0", 1, 60)]);

      expect(await secondsLeft()).toBeGreaterThan(3_580);
    });

    test("is on the server that the reference's client chooses: the key's CRC-32 modulo their number", async () => {
      const servers = [await startServer(), await startServer(), await startServer()];
      const store = await openStore(servers.map(({ address }) => address));
      const keys = Array.from({ length: 30 }, (_, i) => `basic_key1_${i}_1700000000`);
      await store.apply(keys.map((key) => step(key)));

      for (const [at, server] of servers.entries()) {
        const expected = keys.filter((key) => crc32(key) % servers.length === at);
        expect(expected.length).toBeGreaterThan(0);
        expect([...(await server.entries()).keys()].sort()).toEqual(expected.sort());
      }
    });

    test("has room for keys that memcached takes for malformed", async () => {
      const store = await openStore([memcached.address]);
      const keys = ["a b", "a\r\nflush_all", "x".repeat(251), "x".repeat(252), "\ud800", "\udfff"].map(
        (key) => `m_${key}`,
      );
      for (const key of keys) await store.apply([step(key, 2)]);

      expect(await store.apply(keys.map((key) => step(key, 0)))).toEqual(keys.map(() => 2));
    });
  });

  test("calls that come together never pass a limit together", async () => {
    const [store, sibling] = [await openStore([memcached.address]), await openStore([memcached.address])];
    const key = randomUUID();
    const values = await Promise.all(
      Array.from({ length: 200 }, (_, i) => Promise.resolve((i % 2 === 0 ? store : sibling).apply([step(key)]))),
    );

    expect(values.flat().sort((a, b) => a - b)).toEqual(Array.from({ length: 200 }, (_, i) => i + 1));
  });

  describe("while memcached is away", () => {
    test("calls fail, and work again when it is back", async () => {
      const server = await startServer();
      const errors: string[] = [];
      const store = await openStore([server.address], { onError: ({ message }) => errors.push(message) });
      await store.apply([step("k")]);
      await server.kill();

      await expect(store.apply([step("k")])).rejects.toThrow(StoreError);
      expect(store.isHealthy()).toBe(false);
      expect(errors[0]).toContain(`memcached: ${server.address}: `);
      await server.start();
      await expect.poll(() => store.isHealthy(), { timeout: 5_000 }).toBe(true);
      expect(await store.apply([step("k")])).toEqual([1]);
    });

    test("calls pass as with the reference, each as the first of its counter", async () => {
      const server = await startServer();
      const store = await openStore([server.address], { failsOpen: true });
      await server.kill();

      expect(await store.apply([step("k", 3), step("l", 0)])).toEqual([3, 0]);
      expect(await store.apply([step("k", 3)])).toEqual([3]);
      expect(store.counts).toMatchObject({ keysRequested: 3, keysFound: 0, incrementError: 2, multigetSuccess: 2 });
    });

    test("a server that does not respond costs a call its timeout, and its late responses are discarded", async () => {
      const server = await startServer();
      const memcache = {
        servers: { kind: "list", addresses: [{ host: "127.0.0.1", port: server.port }] },
        timeoutMs: 100,
      } as const;
      const store = await openStore([], { memcache });
      await store.apply([step("k", 5)]);
      server.pause();
      await expect(store.apply([step("k")])).rejects.toThrow("did not respond within 100 ms");
      server.resume();

      await expect.poll(async () => store.apply([step("other", 0)])).toEqual([0]);
      // Whether the command that timed out was taken is not known.
      expect([5, 6]).toContain((await store.apply([step("k", 0)]))[0]);
    });
  });

  test("refunds and counts of one counter that wait together are two commands, however many they are", async () => {
    const lines: string[] = [];
    const relay = createServer((client) => {
      const server = connect(memcached.port, "127.0.0.1");
      client.on("data", (bytes: Buffer) => {
        lines.push(...bytes.toString().split("\r\n").filter(Boolean));
        server.write(bytes);
      });
      server.pipe(client);
      client.on("close", () => server.destroy());
    });
    await once(relay.listen(0, "127.0.0.1"), "listening");
    onTestFinished(() => void relay.close());
    // A listening TCP server has such an address.
    const store = await openStore([`127.0.0.1:${(relay.address() as AddressInfo).port}`]);
    const key = `shared-${randomUUID()}`;
    await store.apply([step(key, 100)]);
    lines.length = 0;
    const values = await Promise.all(
      Array.from({ length: 100 }, async (_, at) => (await store.apply([step(key, at % 2 === 0 ? 3 : -1)]))[0] ?? 0),
    );
    expect(lines).toHaveLength(2);
    expect(values.slice(0, 4)).toEqual([103, 102, 105, 104]);
    expect(values.at(-1)).toBe(200);
    expect(await store.apply([step(key, 0)])).toEqual([200]);
  });

  describe("an SRV record", () => {
    const memcache = (refreshMs: number) =>
      ({ servers: { kind: "srv", name: "_memcache._tcp.example.org", refreshMs }, timeoutMs: 2_000 }) as const;

    test("names the servers, in one order whatever that of the response", async () => {
      const servers = [await startServer(), await startServer()];
      const records = servers.map(({ port }) => ({ name: "127.0.0.1", port }));
      const forward = await openStore([], { memcache: memcache(0), resolveSrv: () => Promise.resolve(records) });
      const backward = await openStore([], {
        memcache: memcache(0),
        resolveSrv: () => Promise.resolve(records.toReversed()),
      });
      for (let i = 0; i < 20; i++) await forward.apply([step(`k${i}`)]);

      for (let i = 0; i < 20; i++) expect(await backward.apply([step(`k${i}`)])).toEqual([2]);
    });

    test("is read again at its interval, and servers that it no longer lists are left", async () => {
      const [first, second] = [await startServer(), await startServer()];
      let port = first.port;
      const store = await openStore([], {
        memcache: memcache(20),
        resolveSrv: () => Promise.resolve([{ name: "127.0.0.1", port }]),
      });
      await store.apply([step("k")]);
      port = second.port;

      await expect.poll(async () => (await store.apply([step("k", 0)]))[0]).toBe(0);
      await store.apply([step("k")]);
      expect([...(await second.entries()).keys()]).toEqual(["k"]);
    });

    test.each([
      ["cannot be read", () => Promise.reject(new Error("ENOTFOUND"))],
      ["lists nothing", () => Promise.resolve([])],
    ])("that %s ends the start", async (_, resolveSrv) => {
      await expect(openStore([], { memcache: memcache(0), resolveSrv })).rejects.toThrow(/ENOTFOUND|lists no server/);
    });
  });
});
