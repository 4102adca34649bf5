/** Settings of counting, of responses, and of the counter store. */
import { optional, text } from "@gatewayproxy/runtime/setting-kinds";
import type { Settings } from "@gatewayproxy/runtime/settings";
import { defaultCallBounds, defaultMaxCallBytes } from "../limiter/call-bounds.ts";
import { decimal, flag, integer, word } from "./kinds.ts";

const headerName = text("NAME", "a header name");

export const limitSettings = {
  backendType: {
    kind: optional(word("memory", "redis", "memcache")),
    env: "BACKEND_TYPE",
    defaultText: "`redis` where REDIS_URL is set, else `memory`",
    help: "Where the counters are.",
  },
  failureMode: {
    kind: optional(word("error", "open", "local")),
    env: "FAILURE_MODE",
    defaultText: "as envoyproxy/ratelimit: `error`, and `open` with BACKEND_TYPE=memcache",
    help: "While Redis or memcached is unavailable, calls fail, are allowed, or are counted by this process alone.",
  },
  memoryStoreMaxCounters: {
    kind: integer(16, 2 ** 24),
    env: "MEMORY_STORE_MAX_COUNTERS",
    default: "262144",
    help:
      "Maximum number of counters in memory, 128 bytes each, with an eighth as many sliding windows, 640 bytes each; " +
      "beyond about half of it some may be evicted.",
  },
  expirationJitterMaxSeconds: {
    kind: integer(0, 2 ** 31 - 1),
    env: "EXPIRATION_JITTER_MAX_SECONDS",
    default: "300",
    help: "Keys in Redis and memcached outlive their window by up to this many seconds.",
  },
  localCacheSizeInBytes: {
    kind: integer(0, 2 ** 31 - 1),
    env: "LOCAL_CACHE_SIZE_IN_BYTES",
    default: "0",
    help: "Memory for counters that are known to be over their limit, for which calls are denied without a query to Redis; 0 for none.",
  },
  nearLimitRatio: {
    kind: decimal(0, 1),
    env: "NEAR_LIMIT_RATIO",
    default: "0.8",
    help: "Share of a limit from which hits count as near_limit.",
  },
  redisKeyForm: {
    kind: word("reference", "escaped"),
    env: "REDIS_KEY_FORM",
    default: "reference",
    help: "Names of counters in Redis and memcached: envoyproxy/ratelimit's, by which `a=b_c_d` and `a=b, c=d` share a counter, or with `_` and `%` of keys and values escaped, as always in memory. A change resets every counter.",
  },
  cacheKeyPrefix: {
    kind: optional(text("TEXT", "any text")),
    env: "CACHE_KEY_PREFIX",
    help: "Prefix of every key in Redis and memcached.",
  },
  stopAtOverLimit: {
    kind: flag,
    env: "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
    default: "false",
    help: "A call that one limit denies does not count for its other limits.",
  },
  strictZeroHit: {
    kind: flag,
    env: "STRICT_ZERO_HIT",
    default: "false",
    help: "A check with 0 hits of an exactly used-up limit is over it; envoyproxy/ratelimit allows it.",
  },
  shadowMode: {
    kind: flag,
    env: "SHADOW_MODE",
    default: "false",
    help: "No call is denied; statuses and metrics report which would have been.",
  },
  quotaMode: { kind: flag, env: "QUOTA_MODE", default: "false", help: "Every limit is a quota." },
  responseDynamicMetadata: {
    kind: flag,
    env: "RESPONSE_DYNAMIC_METADATA",
    default: "false",
    help: "Responses have the call, and the metadata of the limits that allowed it, as dynamic metadata.",
  },
  responseHeaders: {
    kind: optional(word("envoy", "ratelimit", "off")),
    env: "RESPONSE_HEADERS",
    defaultText: "`ratelimit` or `off` where LIMIT_RESPONSE_HEADERS_ENABLED says so, else `envoy`",
    help: "Response headers: x-ratelimit-* and x-envoy-ratelimited as Envoy writes them, envoyproxy/ratelimit's, or none.",
  },
  limitResponseHeadersEnabled: {
    kind: optional(flag),
    env: "LIMIT_RESPONSE_HEADERS_ENABLED",
    help: "Sends envoyproxy/ratelimit's headers (true) or none (false).",
  },
  limitLimitHeader: {
    kind: headerName,
    env: "LIMIT_LIMIT_HEADER",
    default: "RateLimit-Limit",
    help: "envoyproxy/ratelimit's header for the limit.",
  },
  limitRemainingHeader: {
    kind: headerName,
    env: "LIMIT_REMAINING_HEADER",
    default: "RateLimit-Remaining",
    help: "envoyproxy/ratelimit's header for what remains.",
  },
  limitResetHeader: {
    kind: headerName,
    env: "LIMIT_RESET_HEADER",
    default: "RateLimit-Reset",
    help: "envoyproxy/ratelimit's header for the seconds to the reset.",
  },
  maxCallBytes: {
    kind: integer(1_024, 67_108_864),
    env: "MAX_CALL_BYTES",
    default: String(defaultMaxCallBytes),
    help: "Longest call: bytes of a gRPC message, compressed and not (beyond: RESOURCE_EXHAUSTED), and of a body of /json (413). envoyproxy/ratelimit accepts 4 MiB.",
  },
  maxCallDescriptors: {
    kind: integer(1, 65_536),
    env: "MAX_CALL_DESCRIPTORS",
    default: String(defaultCallBounds.maxDescriptors),
    help: "Descriptors in a call; more are INVALID_ARGUMENT, at /json 400. A call is decided without interruption, so this bounds how long others wait. envoyproxy/ratelimit has no bound.",
  },
  maxDescriptorEntries: {
    kind: integer(1, 65_536),
    env: "MAX_DESCRIPTOR_ENTRIES",
    default: String(defaultCallBounds.maxEntries),
    help: "Entries in a descriptor of a call; more are INVALID_ARGUMENT. envoyproxy/ratelimit has no bound.",
  },
  maxTextLength: {
    kind: integer(256, 67_108_864),
    env: "MAX_TEXT_LENGTH",
    default: String(defaultCallBounds.maxTextLength),
    help: "Characters in a domain, a key or a value of a call; more are INVALID_ARGUMENT. envoyproxy/ratelimit has no bound.",
  },
} as const satisfies Settings;
