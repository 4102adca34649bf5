/**
 * The service without a port, in memory, on a clock of the caller's: for whoever tries limits before they count. It
 * decides as the service does in our deployments (STRICT_ZERO_HIT, everything else at its default).
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { createCounterMemory } from "@gatewayproxy/runtime/counter-memory";
import { ConfigSet, type ConfigText } from "../config/config-set.ts";
import { LiveConfig } from "../config/live-config.ts";
import { Limiter } from "../limiter/limiter.ts";
import { createRateLimitService } from "../service.ts";
import { RateLimitStats } from "../stats.ts";
import { CounterTable } from "../store/counter-table.ts";
import { MemoryStore } from "../store/memory-store.ts";
import { rateLimitMethod } from "../transport/grpc/rate-limit-method.ts";
import { GrpcError, StatusCode } from "../transport/grpc/status.ts";

/** Answers one call: the path and the message as in gRPC; throws the `GrpcError` with which the service would end it. */
export type OfflineCall = (path: string, message: Buffer) => Buffer;

/** Counters at once; beyond them the oldest are given up, as in the service. */
const maxCounters = 131_072;

/** The service with the limits of these files; what is wrong with one (`ConfigSet.update` tells) is not in force. */
export function openOfflineService(texts: readonly ConfigText[], clock: Clock): OfflineCall {
  const stats = new RateLimitStats({ nearLimitRatio: 1 });
  const config = new LiveConfig(stats, clock);
  config.take(new ConfigSet(false).update(texts));
  const limiter = new Limiter({
    store: new MemoryStore(new CounterTable(createCounterMemory(maxCounters), 1), clock),
    stats,
    cacheKeyPrefix: "",
    keyForm: "escaped",
    stopsAtOverLimit: false,
    strictZeroHit: true,
    shadowMode: false,
    quotaMode: false,
    headers: { kind: "off" },
    dynamicMetadata: false,
  });
  const service = createRateLimitService({ limiter, config, stats, clock, failsOpen: false });
  const [path, method] = rateLimitMethod(service);
  return (asked, message) => {
    if (asked !== path) throw new GrpcError(StatusCode.Unimplemented, `no method ${asked}`);
    const answer = method.call(message);
    // Only a store elsewhere takes its time.
    if (answer instanceof Promise)
      throw new GrpcError(StatusCode.Internal, "the store in memory did not answer at once");
    return Buffer.from(answer);
  };
}
