/** Settings of memcached. */
import { optional, text } from "@gatewayproxy/runtime/setting-kinds";
import type { Settings } from "@gatewayproxy/runtime/settings";
import { duration, flag, pemFile } from "./kinds.ts";

export const memcacheSettings = {
  memcacheHostPort: {
    kind: optional(text("HOST:PORT,…", "a list of host:port")),
    env: "MEMCACHE_HOST_PORT",
    help: "Servers of BACKEND_TYPE=memcache; their order decides which of them has a counter.",
  },
  memcacheSrv: {
    kind: optional(text("NAME", "_service._protocol.name")),
    env: "MEMCACHE_SRV",
    help: "SRV record that lists the servers, in place of MEMCACHE_HOST_PORT.",
  },
  memcacheSrvRefresh: {
    kind: duration,
    env: "MEMCACHE_SRV_REFRESH",
    default: "0",
    help: "Interval between two reads of that record; 0 to read it only at the start.",
  },
  memcacheTls: { kind: flag, env: "MEMCACHE_TLS", default: "false", help: "Uses TLS with memcached." },
  memcacheTlsClientCert: { kind: pemFile, env: "MEMCACHE_TLS_CLIENT_CERT", help: "Client certificate for memcached." },
  memcacheTlsClientKey: { kind: pemFile, env: "MEMCACHE_TLS_CLIENT_KEY", help: "Key of that certificate." },
  memcacheTlsCaCert: {
    kind: pemFile,
    env: "MEMCACHE_TLS_CACERT",
    help: "Authorities for memcached's certificate, in place of the system's.",
  },
  memcacheTlsSkipHostnameVerification: {
    kind: flag,
    env: "MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION",
    default: "false",
    help: "memcached's certificate must be valid, but may be for another host.",
  },
} as const satisfies Settings;
