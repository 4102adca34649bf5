/** Redis stores for tests: connected, with short timeouts. */
import { type Clock, systemClock } from "@gatewayproxy/runtime/clock";
import { openRedisStore } from "../open-redis-store.ts";
import type { RedisOptions } from "../redis-options.ts";
import type { RedisStore } from "../redis-store.ts";

/** Options for one Redis, or the nodes of a cluster, on this machine. */
export function testRedisOptions(ports: readonly number[], more: Partial<RedisOptions> = {}): RedisOptions {
  return {
    topology: "single",
    addresses: ports.map((port) => ({ kind: "tcp", host: "127.0.0.1", port })),
    timeoutMs: 5_000,
    startup: { initialIntervalMs: 10, maxIntervalMs: 100, maxElapsedMs: 10_000 },
    ...more,
  };
}

/** Resolves once the store is connected. @param clock default: that of the machine. */
export async function openTestStore(redis: RedisOptions, clock: Clock = systemClock): Promise<RedisStore> {
  const opening = openRedisStore({
    redis,
    jitterMaxSeconds: 300,
    clock,
    random: Math.random,
    onError: () => undefined,
  });
  await opening.connected;
  return opening.store;
}
