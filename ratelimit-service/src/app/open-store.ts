/**
 * Opens the store that the settings name, one for each thread: threads share memory, but not connections. Only the
 * client of that store is loaded, since the client of Redis alone takes 10 MiB.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import type { StoreSettings } from "../settings/read-store-settings.ts";
import type { CounterStore } from "../model/counter-store.ts";
import { FallbackStore } from "../store/fallback-store.ts";
import { MemoryStore } from "../store/memory-store.ts";
import type { MemoryTables } from "../store/memory-tables.ts";
import { PerSecondStore } from "../store/per-second-store.ts";
import type { OpenRedisOptions } from "../store/redis/open-redis-store.ts";
import type { RedisOptions } from "../store/redis/redis-options.ts";
import { OutageLog } from "./outage-log.ts";

/** The settings of the store, and the services of a thread. */
export interface OpenStoreOptions {
  /** Selects memory, Redis or memcached. */
  readonly settings: StoreSettings;
  /** Counters in memory, if the settings count there. The fallback when the store is Redis or memcached. */
  readonly counters: MemoryTables | undefined;
  /** Times replies, probes and reconnects. */
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** Receives one line when the store fails, and one when it recovers. */
  readonly log: Logger;
  /** Called for each call that is counted in memory because the store is unavailable (FAILURE_MODE=local). */
  readonly onDegraded: () => void;
  /** Stops the attempts to connect. */
  readonly signal: AbortSignal;
}

/** A store that may still be connecting. */
export interface OpenedStore {
  /** Usable at once; rejects calls until Redis is connected. */
  readonly store: CounterStore;
  /**
   * Resolves with the first connection, and when `signal` aborts. Rejects when the settings forbid further attempts.
   */
  readonly connected: Promise<unknown>;
}

/** Opens the store. Rejects when a certificate for Redis or memcached cannot be read. */
export async function openStore(options: OpenStoreOptions): Promise<OpenedStore> {
  const { settings, counters, clock, onDegraded } = options;
  if (settings.kind === "memory") return { store: memoryStore(counters, clock), connected: Promise.resolve() };
  const withFallback = (store: CounterStore): CounterStore =>
    settings.failureMode === "local" ? new FallbackStore(store, memoryStore(counters, clock), onDegraded) : store;
  if (settings.kind === "memcache") {
    const { store, connected } = await openMemcache(settings, options);
    return { store: withFallback(store), connected };
  }
  // Before any store is opened: one of two must not fail before its `connected` is handled.
  const { openRedisStore } = await import("../store/redis/open-redis-store.ts");
  /** @param name the name in the log */
  const open = (name: string, redis: RedisOptions): OpenedStore =>
    openRedisStore(redisOptions(name, redis, settings, options), options.signal);
  const main = open("redis", settings.redis);
  const perSecond = settings.perSecond && open("redis per second", settings.perSecond);
  const shared = perSecond === undefined ? main.store : new PerSecondStore(main.store, perSecond.store);
  return {
    store: withFallback(shared),
    connected: Promise.all([main.connected, perSecond?.connected]),
  };
}

function memoryStore(counters: MemoryTables | undefined, clock: Clock): MemoryStore {
  if (counters === undefined) throw new TypeError("a store in memory needs counters");
  return new MemoryStore(counters, clock);
}

async function openMemcache(
  { memcache, jitterMaxSeconds, failureMode }: Extract<StoreSettings, { kind: "memcache" }>,
  { clock, random, log, signal }: OpenStoreOptions,
): Promise<OpenedStore> {
  const { openMemcacheStore } = await import("../store/memcache/open-memcache-store.ts");
  const outage = new OutageLog("memcached", log, clock);
  return openMemcacheStore(
    {
      ...{ memcache, jitterMaxSeconds, clock, random, failsOpen: failureMode === "open" },
      onError(error) {
        if (!signal.aborted) outage.failed(error);
      },
      onReply: () => outage.recovered(),
    },
    signal,
  );
}

/** @param name the name in the log */
function redisOptions(
  name: string,
  redis: RedisOptions,
  { jitterMaxSeconds }: Extract<StoreSettings, { kind: "redis" }>,
  { clock, random, log, signal }: OpenStoreOptions,
): OpenRedisOptions {
  const outage = new OutageLog(name, log, clock);
  return {
    ...{ redis, jitterMaxSeconds, clock, random },
    onError(error) {
      // Errors while the store is being closed are not errors of Redis.
      if (!signal.aborted) outage.failed(error);
    },
    onReply: () => outage.recovered(),
  };
}
