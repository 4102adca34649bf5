/** Settings of Redis. */
import { optional, text } from "@gatewayproxy/runtime/setting-kinds";
import type { Settings } from "@gatewayproxy/runtime/settings";
import { duration, flag, pemFile, word } from "./kinds.ts";

const topology = word("SINGLE", "SENTINEL", "CLUSTER");
const auth = optional(text("AUTH", "PASSWORD or USER:PASSWORD"));
const url = optional(
  text("ADDRESS", "host:port, a socket's path, a redis:// or rediss:// URL, or a list (see REDIS_TYPE)"),
);
const socketType = optional(word("tcp", "tcp4", "tcp6", "unix"));

export const redisSettings = {
  redisUrl: { kind: url, env: "REDIS_URL", help: "Address of Redis; without it counters are in memory." },
  redisType: {
    kind: topology,
    env: "REDIS_TYPE",
    default: "SINGLE",
    help: "One server; sentinels, with REDIS_URL `master,host:port,…`; or a cluster, with `host:port,…`.",
  },
  redisSocketType: {
    kind: socketType,
    env: "REDIS_SOCKET_TYPE",
    defaultText: "`unix` for a path, else `tcp`",
    help: "Type of the address in REDIS_URL; tcp4 and tcp6 take only addresses of that version for its host.",
  },
  redisAuth: { kind: auth, env: "REDIS_AUTH", help: "Password, or user and password." },
  redisSentinelAuth: { kind: auth, env: "REDIS_SENTINEL_AUTH", help: "The same for the sentinels." },
  redisTls: { kind: flag, env: "REDIS_TLS", default: "false", help: "Uses TLS with Redis." },
  redisTlsClientCert: { kind: pemFile, env: "REDIS_TLS_CLIENT_CERT", help: "Client certificate for Redis." },
  redisTlsClientKey: { kind: pemFile, env: "REDIS_TLS_CLIENT_KEY", help: "Key of that certificate." },
  redisTlsCaCert: {
    kind: pemFile,
    env: "REDIS_TLS_CACERT",
    help: "Authorities for Redis's certificate, in place of the system's.",
  },
  redisTlsSkipHostnameVerification: {
    kind: flag,
    env: "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION",
    default: "false",
    help: "Redis's certificate must be valid, but may be for another host.",
  },
  redisTimeout: {
    kind: duration,
    env: "REDIS_TIMEOUT",
    default: "10s",
    help: "Timeout for a connection and for a reply.",
  },
  redisHealthCheckActiveConnection: {
    kind: flag,
    env: "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION",
    default: "true",
    help: "While Redis does not respond the service is not healthy, unless FAILURE_MODE decides calls without it.",
  },
  redisStartupInitialInterval: {
    kind: duration,
    env: "REDIS_STARTUP_INITIAL_INTERVAL",
    default: "1s",
    help: "Pause after a failed first connection; it doubles with each further one.",
  },
  redisStartupMaxInterval: {
    kind: duration,
    env: "REDIS_STARTUP_MAX_INTERVAL",
    default: "30s",
    help: "Longest such pause.",
  },
  redisStartupMaxElapsedTime: {
    kind: duration,
    env: "REDIS_STARTUP_MAX_ELAPSED_TIME",
    default: "0",
    help: "Time after which the service gives up and ends; 0 for never.",
  },
  redisPerSecond: {
    kind: flag,
    env: "REDIS_PERSECOND",
    default: "false",
    help: "Counters of one-second windows have a Redis of their own.",
  },
  redisPerSecondUrl: { kind: url, env: "REDIS_PERSECOND_URL", help: "Its address; the settings below are as above." },
  redisPerSecondType: { kind: topology, env: "REDIS_PERSECOND_TYPE", default: "SINGLE", help: "As REDIS_TYPE." },
  redisPerSecondSocketType: {
    kind: socketType,
    env: "REDIS_PERSECOND_SOCKET_TYPE",
    defaultText: "`unix` for a path, else `tcp`",
    help: "As REDIS_SOCKET_TYPE.",
  },
  redisPerSecondAuth: { kind: auth, env: "REDIS_PERSECOND_AUTH", help: "As REDIS_AUTH." },
  redisPerSecondSentinelAuth: {
    kind: auth,
    env: "REDIS_PERSECOND_SENTINEL_AUTH",
    help: "As REDIS_SENTINEL_AUTH.",
  },
  redisPerSecondTls: {
    kind: flag,
    env: "REDIS_PERSECOND_TLS",
    default: "false",
    help: "As REDIS_TLS, with the same certificates.",
  },
  redisPerSecondTimeout: {
    kind: duration,
    env: "REDIS_PERSECOND_TIMEOUT",
    default: "10s",
    help: "As REDIS_TIMEOUT.",
  },
} as const satisfies Settings;
