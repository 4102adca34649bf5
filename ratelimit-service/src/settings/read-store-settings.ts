/** The store of the counters, from the settings of Redis and of the backend. */
import type { Problem, Result } from "@gatewayproxy/runtime/problem";
import type { SettingValues } from "@gatewayproxy/runtime/settings";
import {
  parseRedisAddress,
  parseRedisAuth,
  parseRedisUrl,
  type RedisAddress,
  type RedisOptions,
  type RedisTls,
} from "../store/redis/redis-options.ts";
import {
  isSrvName,
  type MemcacheOptions,
  type MemcacheServers,
  memcacheTimeoutMs,
  parseMemcacheAddress,
} from "../store/memcache/memcache-options.ts";
import type { limitSettings } from "./limit-settings.ts";
import type { memcacheSettings } from "./memcache-settings.ts";
import type { redisSettings } from "./redis-settings.ts";

/** The store, and the failure mode while it is unavailable. */
export type StoreSettings =
  | { readonly kind: "memory"; readonly maxCounters: number }
  | {
      readonly kind: "redis";
      readonly redis: RedisOptions;
      /** Redis for counters of one-second windows; without it they are in the main one. */
      readonly perSecond?: RedisOptions;
      readonly jitterMaxSeconds: number;
      readonly failureMode: FailureMode;
      /** Maximum number of counters, for `local`. */
      readonly maxCounters: number;
    }
  | {
      readonly kind: "memcache";
      readonly memcache: MemcacheOptions;
      readonly jitterMaxSeconds: number;
      readonly failureMode: FailureMode;
      readonly maxCounters: number;
    };

/**
 * The result of a call while the store is unavailable (FAILURE_MODE): an error, a response without limits, or a
 * decision by the counters in memory.
 */
export type FailureMode = "error" | "open" | "local";

/** Whether calls are ever counted in memory: always, or while the store is unavailable. */
export function countsInMemory(store: StoreSettings): boolean {
  return store.kind === "memory" || store.failureMode === "local";
}

type Values = SettingValues<typeof limitSettings & typeof redisSettings & typeof memcacheSettings>;

/** The settings of one of the two Redis connections. */
interface RedisValues {
  /** `REDIS` or `REDIS_PERSECOND`, for messages. */
  readonly prefix: string;
  readonly url: string | undefined;
  readonly type: Values["redisType"];
  readonly socketType: Values["redisSocketType"];
  readonly auth: string | undefined;
  readonly sentinelAuth: string | undefined;
  readonly tls: boolean;
  readonly timeoutMs: number;
}

/** Reads the settings of the store that BACKEND_TYPE names; the default is Redis if REDIS_URL is set, else memory. */
export function readStoreSettings(values: Values): Result<StoreSettings> {
  const backend = values.backendType ?? (values.redisUrl === undefined ? "memory" : "redis");
  const maxCounters = values.memoryStoreMaxCounters;
  if (backend === "memory") return { ok: true, value: { kind: "memory", maxCounters } };
  const problems: Problem[] = [];
  if (backend === "memcache") {
    const servers = readServers(values, problems);
    if (servers === undefined) return { ok: false, problems };
    const tls = values.memcacheTls ? memcacheTlsOf(values) : undefined;
    const memcache = { servers, ...(tls === undefined ? {} : { tls }), timeoutMs: memcacheTimeoutMs };
    const { expirationJitterMaxSeconds: jitterMaxSeconds, failureMode = "open" } = values;
    return { ok: true, value: { kind: "memcache", memcache, jitterMaxSeconds, failureMode, maxCounters } };
  }
  const redis = readRedis(values, mainRedis(values), problems);
  const perSecond = values.redisPerSecond ? readRedis(values, perSecondRedis(values), problems) : undefined;
  if (redis === undefined || problems.length > 0) return { ok: false, problems };
  const settings: StoreSettings = {
    kind: "redis",
    redis,
    ...(perSecond === undefined ? {} : { perSecond }),
    jitterMaxSeconds: values.expirationJitterMaxSeconds,
    failureMode: values.failureMode ?? "error",
    maxCounters,
  };
  return { ok: true, value: settings };
}

function mainRedis(values: Values): RedisValues {
  return {
    prefix: "REDIS",
    url: values.redisUrl,
    type: values.redisType,
    socketType: values.redisSocketType,
    auth: values.redisAuth,
    sentinelAuth: values.redisSentinelAuth,
    tls: values.redisTls,
    timeoutMs: values.redisTimeout,
  };
}

function perSecondRedis(values: Values): RedisValues {
  return {
    prefix: "REDIS_PERSECOND",
    url: values.redisPerSecondUrl,
    type: values.redisPerSecondType,
    socketType: values.redisPerSecondSocketType,
    auth: values.redisPerSecondAuth,
    sentinelAuth: values.redisPerSecondSentinelAuth,
    tls: values.redisPerSecondTls,
    timeoutMs: values.redisPerSecondTimeout,
  };
}

function readRedis(values: Values, redis: RedisValues, problems: Problem[]): RedisOptions | undefined {
  const { prefix, type, url } = redis;
  if (url === undefined) {
    problems.push({ path: `${prefix}_URL`, message: "missing; set it to the address of Redis" });
    return undefined;
  }
  const parts = url.split(",").map((part) => part.trim());
  const masterName = type === "SENTINEL" ? parts.shift() : undefined;
  const addresses = parts.flatMap((part) => readAddress(part, redis, problems));
  if (addresses.length === 0) {
    const accepted = "contains no address; for sentinels the form is master,host:port,…";
    if (problems.length === 0) problems.push({ path: `${prefix}_URL`, message: accepted });
    return undefined;
  }
  const urls = parts.flatMap((part) => parseRedisUrl(part) ?? []);
  // Credentials in a URL are for the server that it names: for a sentinel, the sentinel.
  const authInUrl = urls.find((parsed) => parsed.auth !== undefined)?.auth;
  const auth = parseRedisAuth(redis.auth ?? "") ?? (type === "SENTINEL" ? undefined : authInUrl);
  const sentinelAuth = parseRedisAuth(redis.sentinelAuth ?? "") ?? (type === "SENTINEL" ? authInUrl : undefined);
  const [database] = urls.map((parsed) => readDatabase(parsed.database, redis, problems));
  const tls = redis.tls || parts.some((part) => part.startsWith("rediss://")) ? tlsOf(values) : undefined;
  return {
    topology: ({ SINGLE: "single", SENTINEL: "sentinel", CLUSTER: "cluster" } as const)[type],
    addresses,
    ...(masterName === undefined ? {} : { masterName }),
    ...(auth === undefined ? {} : { auth }),
    ...(database === undefined ? {} : { database }),
    ...(sentinelAuth === undefined ? {} : { sentinelAuth }),
    ...(tls === undefined ? {} : { tls }),
    timeoutMs: redis.timeoutMs,
    startup: {
      initialIntervalMs: values.redisStartupInitialInterval,
      maxIntervalMs: values.redisStartupMaxInterval,
      maxElapsedMs: values.redisStartupMaxElapsedTime,
    },
  };
}

function readAddress(text: string, { prefix, type, socketType }: RedisValues, problems: Problem[]): RedisAddress[] {
  const isBrokenUrl = /^rediss?:\/\//.test(text) && parseRedisUrl(text) === undefined;
  const address = isBrokenUrl ? undefined : parseRedisAddress(text, socketType === "unix");
  const isTcpOnly = type !== "SINGLE" || socketType?.startsWith("tcp") === true;
  const family = ({ tcp4: 4, tcp6: 6, tcp: undefined, unix: undefined } as const)[socketType ?? "tcp"];
  if (address?.kind === "tcp") return [family === undefined ? address : { ...address, family }];
  if (address !== undefined && !isTcpOnly) return [address];
  const accepted = isTcpOnly ? "host:port" : "host:port, a socket's path or redis://user:password@host:port/database";
  // The value is not quoted, because it may contain a password.
  problems.push({ path: `${prefix}_URL`, message: `contains an address that is not ${accepted}` });
  return [];
}

/** Returns the number of the database that a URL names, if any. Only a single server has more than one. */
function readDatabase(text: string, { prefix, type }: RedisValues, problems: Problem[]): number | undefined {
  if (text === "") return undefined;
  const number = Number(text);
  if (/^\d{1,9}$/.test(text) && (type === "SINGLE" || number === 0)) return number;
  const accepted = type === "SINGLE" ? "a number, as in redis://host:6379/1" : `0 with ${prefix}_TYPE=${type}`;
  problems.push({ path: `${prefix}_URL`, message: `names a database that is not ${accepted}` });
  return undefined;
}

function tlsOf(values: Values): RedisTls {
  return {
    ...(values.redisTlsClientCert === undefined ? {} : { certificateFile: values.redisTlsClientCert }),
    ...(values.redisTlsClientKey === undefined ? {} : { keyFile: values.redisTlsClientKey }),
    ...(values.redisTlsCaCert === undefined ? {} : { authoritiesFile: values.redisTlsCaCert }),
    skipsHostnameVerification: values.redisTlsSkipHostnameVerification,
  };
}

function readServers(values: Values, problems: Problem[]): MemcacheServers | undefined {
  const { memcacheHostPort: list, memcacheSrv: name, memcacheSrvRefresh: refreshMs } = values;
  if (list !== undefined && name !== undefined) {
    problems.push({ path: "MEMCACHE_SRV", message: "is set beside MEMCACHE_HOST_PORT; set one of them" });
    return undefined;
  }
  if (name !== undefined) {
    if (isSrvName(name)) return { kind: "srv", name, refreshMs };
    const accepted = "_service._protocol.name, as in _memcache._tcp.example.org";
    problems.push({ path: "MEMCACHE_SRV", message: `${JSON.stringify(name)} is not ${accepted}` });
    return undefined;
  }
  const parts = (list ?? "").split(",").map((part) => part.trim());
  const addresses = parts.flatMap((part) => parseMemcacheAddress(part) ?? []);
  if (addresses.length === parts.length) return { kind: "list", addresses };
  const message =
    list === undefined
      ? "missing; set it to the addresses of memcached, or MEMCACHE_SRV to the name of an SRV record"
      : `${JSON.stringify(list)} is not a list of host:port`;
  problems.push({ path: "MEMCACHE_HOST_PORT", message });
  return undefined;
}

function memcacheTlsOf(values: Values): NonNullable<MemcacheOptions["tls"]> {
  const { memcacheTlsClientCert: cert, memcacheTlsClientKey: key, memcacheTlsCaCert: ca } = values;
  return {
    ...(cert === undefined ? {} : { certificateFile: cert }),
    ...(key === undefined ? {} : { keyFile: key }),
    ...(ca === undefined ? {} : { authoritiesFile: ca }),
    skipsHostnameVerification: values.memcacheTlsSkipHostnameVerification,
  };
}
