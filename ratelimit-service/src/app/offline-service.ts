/**
 * The service in memory, without a port, on the caller's clock. proxyctl uses it to try limits before they are
 * deployed. It decides as the service in the deployments of this repository does (STRICT_ZERO_HIT, everything else at
 * its default).
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { ConfigSet, type ConfigText } from "../config/config-set.ts";
import { LiveConfig } from "../config/live-config.ts";
import { Limiter } from "../limiter/limiter.ts";
import { createRateLimitService } from "../service.ts";
import { RateLimitStats } from "../stats.ts";
import { createStoreMemory, MemoryTables } from "../store/memory-tables.ts";
import { MemoryStore } from "../store/memory-store.ts";
import { rateLimitMethod } from "../transport/grpc/rate-limit-method.ts";
import { GrpcError, StatusCode } from "@gatewayproxy/grpc/status";

/**
 * Decides one call. Takes the path and the message as in gRPC and returns the response message. Throws the `GrpcError`
 * with which the service would end the call.
 */
export type OfflineCall = (path: string, message: Buffer) => Buffer;

/** Maximum number of counters; beyond it the oldest are evicted, as in the service. */
const maxCounters = 131_072;

/** Opens the service with the limits of these files. A file with problems (see `ConfigSet.update`) is left out. */
export function openOfflineService(texts: readonly ConfigText[], clock: Clock): OfflineCall {
  const stats = new RateLimitStats({ nearLimitRatio: 1 });
  const config = new LiveConfig(stats, clock);
  config.apply(new ConfigSet(false).update(texts));
  const limiter = new Limiter({
    store: new MemoryStore(new MemoryTables(createStoreMemory(maxCounters), 1), clock),
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
  return (requestedPath, message) => {
    if (requestedPath !== path) throw new GrpcError(StatusCode.Unimplemented, `no method ${requestedPath}`);
    const response = method.call(message, [], { isDone: false });
    // Only a remote store returns a promise.
    if (response instanceof Promise) {
      throw new GrpcError(StatusCode.Internal, "the store in memory did not return at once");
    }
    return Buffer.from(response);
  };
}
