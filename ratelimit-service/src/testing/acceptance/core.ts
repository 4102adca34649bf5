/** The core of the service for a case, around a given store: without transport, on a fixed clock. */
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { ConfigSet } from "../../config/config-set.ts";
import { LiveConfig } from "../../config/live-config.ts";
import type { HeaderStyle } from "../../limiter/headers.ts";
import type { KeyForm } from "../../limiter/keys.ts";
import { Limiter } from "../../limiter/limiter.ts";
import { OverLimitCache } from "../../limiter/over-limit-cache.ts";
import { createRateLimitService, type RateLimitService } from "../../service.ts";
import { RateLimitStats } from "../../stats.ts";
import type { CounterStore } from "../../model/counter-store.ts";
import { type CaseSettings, caseStartSeconds } from "./case.ts";
import { caseConfig } from "./cases.ts";

export interface Core {
  readonly service: RateLimitService;
  readonly stats: RateLimitStats;
  readonly config: LiveConfig;
  readonly clock: FakeClock;
}

export const referenceHeaders: HeaderStyle = {
  kind: "ratelimit",
  limit: "RateLimit-Limit",
  remaining: "RateLimit-Remaining",
  reset: "RateLimit-Reset",
};

interface CoreOptions {
  readonly cacheKeyPrefix?: string;
  readonly keyForm?: KeyForm;
  readonly failsOpen?: boolean;
  /** A file of limits in place of those of the cases. */
  readonly limits?: string;
}

/** Creates a core with the configuration of the cases. `store` is called once, with the core's clock. */
export function createCore(
  store: (clock: FakeClock) => CounterStore,
  settings: CaseSettings = {},
  { cacheKeyPrefix = "", keyForm = "reference", failsOpen = false, limits }: CoreOptions = {},
): Core {
  const clock = new FakeClock(caseStartSeconds * 1_000);
  const stats = new RateLimitStats({ nearLimitRatio: 0.8 });
  const config = new LiveConfig(stats, clock);
  const texts = limits === undefined ? caseConfig() : [{ key: "limits.yaml", file: "limits.yaml", text: limits }];
  config.apply(new ConfigSet(false).update(texts));
  const limiter = new Limiter({
    store: store(clock),
    stats,
    cacheKeyPrefix,
    keyForm,
    ...(settings.overLimitCache === true ? { overLimitCache: new OverLimitCache(1_000_000) } : {}),
    stopsAtOverLimit: settings.stopsAtOverLimit ?? false,
    shadowMode: settings.shadowMode ?? false,
    quotaMode: settings.quotaMode ?? false,
    strictZeroHit: settings.strictZeroHit ?? false,
    dynamicMetadata: settings.dynamicMetadata ?? false,
    headers: settings.headers === "ratelimit" ? referenceHeaders : { kind: settings.headers ?? "off" },
  });
  return { service: createRateLimitService({ limiter, config, stats, clock, failsOpen }), stats, config, clock };
}
