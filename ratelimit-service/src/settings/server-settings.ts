/** Where the service listens, how it ends, and what it logs. */
import { optional, text } from "@gatewayproxy/runtime/setting-kinds";
import type { Settings } from "@gatewayproxy/runtime/settings";
import { defaultMaxConnectionMemory, defaultMaxConnections } from "../transport/connection-bounds.ts";
import { duration, flag, integer, referenceLogFilter, word } from "./kinds.ts";
import { serviceLogModules } from "./log-modules.ts";

const host = text("ADDRESS", "an address or a host name");
const port = integer(0, 65_535);
const file = optional(text("FILE", "the path of a PEM file"));

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
    help: "Threads that answer calls; counters in memory are shared by all of them.",
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
    help: "Address of the debug server. The reference listens on every address; profiles and counters are not for all.",
  },
  debugAllowedHosts: {
    kind: optional(text("HOST,…", "host names, separated by commas")),
    env: "DEBUG_ALLOWED_HOSTS",
    defaultText: "localhost and every IP address",
    help: "Further host names by which the debug server may be asked, so that no web page's name can be turned against it.",
  },
  debugPort: { kind: port, env: "DEBUG_PORT", default: "6070", help: "Port of the debug server." },
  maxConnections: {
    kind: integer(1, 1_000_000),
    env: "MAX_CONNECTIONS",
    default: String(defaultMaxConnections),
    help: "Connections to the gRPC server, and as many to each HTTP server. Beyond it the address (in IPv6 the /64) with the most gives one up or gets no other. The reference has no bound.",
  },
  maxConnectionMemory: {
    kind: integer(1_048_576, 2 ** 40),
    env: "MAX_CONNECTION_MEMORY",
    default: String(defaultMaxConnectionMemory),
    help: "Bytes that gRPC clients may make the service hold, all together: answers that they do not read, and 1 KiB for each open call. Beyond it the connection that holds most is closed. The reference has no bound.",
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
    help: "Time after that until the connection is cut.",
  },
  grpcServerUseTls: { kind: flag, env: "GRPC_SERVER_USE_TLS", default: "false", help: "Serves gRPC over TLS." },
  grpcServerTlsCert: { kind: file, env: "GRPC_SERVER_TLS_CERT", help: "Certificate chain of the gRPC server." },
  grpcServerTlsKey: { kind: file, env: "GRPC_SERVER_TLS_KEY", help: "Key of the gRPC server's certificate." },
  grpcClientTlsCaCert: {
    kind: file,
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
    help: "Time between the health turning to not serving and the servers closing.",
  },
  logLevel: {
    kind: referenceLogFilter(Object.keys(serviceLogModules)),
    env: "LOG_LEVEL",
    default: "info",
    help: "What is logged. The reference's default is WARN; ours tells what is served and where.",
  },
  logFormat: {
    kind: word("text", "json"),
    env: "LOG_FORMAT",
    default: "json",
    help: "Form of log lines: JSON as of the proxy, or text for people.",
  },
} as const satisfies Settings;
