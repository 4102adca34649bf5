/** Settings of the servers, the shutdown and the log. */
import { optional, text } from "@gatewayproxy/runtime/setting-kinds";
import type { Settings } from "@gatewayproxy/runtime/settings";
import { defaultMaxConnectionMemory, defaultMaxConnections } from "@gatewayproxy/grpc/server/connection-bounds";
import { duration, flag, integer, pemFile, referenceLogFilter, word } from "./kinds.ts";
import { serviceLogModules } from "./log-modules.ts";

const host = text("ADDRESS", "an address or a host name");
const port = integer(0, 65_535);

/** The part of the limit of open files that the connections to each of the three ports may take. */
export const portPart = 1 / 4;

/** Settings of the servers, the shutdown and the log. */
export const serverSettings = {
  checkConfig: {
    kind: optional(text("DIR", "a folder")),
    flag: "check-config",
    env: "CHECK_CONFIG",
    help: "Checks the configuration files of a folder, prints all problems and ends with status 1 if there is any.",
  },
  workers: {
    kind: integer(1, 64),
    flag: "workers",
    env: "WORKERS",
    default: "1",
    help: "Threads that decide calls; they share the counters in memory.",
  },
  host: { kind: host, env: "HOST", default: "0.0.0.0", help: "Address of the HTTP server (/json, /healthcheck)." },
  port: { kind: port, env: "PORT", default: "8080", help: "Port of the HTTP server." },
  grpcHost: { kind: host, env: "GRPC_HOST", default: "0.0.0.0", help: "Address of the gRPC server." },
  grpcPort: { kind: port, env: "GRPC_PORT", default: "8081", help: "Port of the gRPC server." },
  grpcUds: {
    kind: optional(text("PATH", "the path of a socket")),
    env: "GRPC_UDS",
    help: "Unix socket of the gRPC server, in place of its address and port.",
  },
  debugHost: {
    kind: host,
    env: "DEBUG_HOST",
    default: "127.0.0.1",
    help: "Address of the debug server. envoyproxy/ratelimit listens on every address; profiles and counters are sensitive.",
  },
  debugAllowedHosts: {
    kind: optional(text("HOST,…", "host names, separated by commas")),
    env: "DEBUG_ALLOWED_HOSTS",
    defaultText: "localhost and every IP address",
    help: "Additional host names for requests to the debug server. Others are rejected, which prevents DNS rebinding by web pages.",
  },
  debugPort: { kind: port, env: "DEBUG_PORT", default: "6070", help: "Port of the debug server." },
  maxConnections: {
    kind: integer(1, 1_000_000),
    env: "MAX_CONNECTIONS",
    default: String(defaultMaxConnections),
    help: "Connections to the gRPC server, and as many to each HTTP server; at most a quarter of the limit of open files. Beyond it the address (in IPv6 the /64) with the most loses one or gets no other. envoyproxy/ratelimit has no bound.",
  },
  maxConnectionMemory: {
    kind: integer(1_048_576, 2 ** 40),
    env: "MAX_CONNECTION_MEMORY",
    default: String(defaultMaxConnectionMemory),
    help: "Bytes of memory for all gRPC clients together: responses that they do not read, and 1 KiB for each open call. Beyond it the connection that holds most is closed. envoyproxy/ratelimit has no bound.",
  },
  grpcMaxConnectionAge: {
    kind: duration,
    env: "GRPC_MAX_CONNECTION_AGE",
    default: "24h",
    help: "Age at which a gRPC connection is asked to close, give or take a tenth; 0 for never.",
  },
  grpcMaxConnectionAgeGrace: {
    kind: duration,
    env: "GRPC_MAX_CONNECTION_AGE_GRACE",
    default: "1h",
    help: "Time after that until the connection is closed.",
  },
  grpcServerUseTls: { kind: flag, env: "GRPC_SERVER_USE_TLS", default: "false", help: "Serves gRPC over TLS." },
  grpcServerTlsCert: { kind: pemFile, env: "GRPC_SERVER_TLS_CERT", help: "Certificate chain of the gRPC server." },
  grpcServerTlsKey: { kind: pemFile, env: "GRPC_SERVER_TLS_KEY", help: "Key of the gRPC server's certificate." },
  grpcClientTlsCaCert: {
    kind: pemFile,
    env: "GRPC_CLIENT_TLS_CACERT",
    help: "Authorities for client certificates; with it every client must have one.",
  },
  grpcClientTlsSan: {
    kind: optional(text("NAME", "a subject alternative name")),
    env: "GRPC_CLIENT_TLS_SAN",
    help: "Subject alternative name that a client certificate must carry.",
  },
  shutdownDrainDelay: {
    kind: duration,
    env: "SHUTDOWN_DRAIN_DELAY",
    default: "3s",
    help: 'Time from the health status "not serving" to the closing of the servers.',
  },
  logLevel: {
    kind: referenceLogFilter(Object.keys(serviceLogModules)),
    env: "LOG_LEVEL",
    default: "info",
    help: "Levels of the log. envoyproxy/ratelimit's default is WARN; ours also logs what is served and where.",
  },
  logFormat: {
    kind: word("text", "json"),
    env: "LOG_FORMAT",
    default: "json",
    help: "Form of log lines: JSON, as in the proxy, or readable text.",
  },
} as const satisfies Settings;
