/** All settings of the proxy. `docs/settings.md` and `--help` are generated from this table. */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import { literalAddress, specialKind } from "@gatewayproxy/runtime/ip-address";
import { adminPort, operatorServerSettings } from "@gatewayproxy/runtime/operator-server-settings";
import {
  duration,
  integer,
  ipAddress,
  ipSocketAddresses,
  logFilter,
  loopbackListenAddress,
  oneOf,
  optional,
  orOff,
  type SettingKind,
  text,
  toggle,
} from "@gatewayproxy/runtime/setting-kinds";
import type { Problem } from "@gatewayproxy/runtime/problem";
import type { SettingValues } from "@gatewayproxy/runtime/settings";
import { isTraceUrlTemplate } from "@gatewayproxy/admin-api/trace-url";
import { defaultIpv6PrefixLength } from "../cel/variables.ts";
import { defaultUpgradeProtocols, mayBeAllowed } from "../listen/upgrade-protocol.ts";
import { defaultStreams } from "../streams/stream-services.ts";
import { accessLogSettings } from "./access-log-settings.ts";
import { proxyLogModules } from "./log-modules.ts";
import { memoryPlan, plannedCpus } from "./memory-plan.ts";
import { tracedAlways } from "../telemetry/spans/request-tracing.ts";
import { defaultCounters } from "../policy/ratelimit/counter-table.ts";
import { defaultPathRules, pathChoices } from "../routing/path-rules.ts";
import { irregularNameActions } from "../listen/request-fields.ts";
import { defaultRequestRules } from "../listen/request-head.ts";
import { defaultAbandonedResponses } from "../pipeline/attempts/abandoned-responses.ts";
import { defaultUpstream } from "../upstream/upstream-settings.ts";

/** The name of an object in a namespace. */
const namespacedName: SettingKind<{ readonly namespace: string; readonly name: string }> = {
  placeholder: "NAMESPACE/NAME",
  accepted: "NAMESPACE/NAME",
  parse(value) {
    const [, namespace, name] = /^([a-z0-9][-a-z0-9]*)\/([a-z0-9][-.a-z0-9]*)$/.exec(value) ?? [];
    return namespace === undefined || name === undefined ? undefined : { namespace, name };
  },
  render: ({ namespace, name }) => objectKey({ namespace, name }),
};

const protocolList: SettingKind<readonly string[]> = {
  placeholder: "PROTOCOL,…",
  accepted: "names of protocols other than HTTP and TLS, separated by commas",
  parse(value) {
    const protocols = value.split(",").map((protocol) => protocol.trim());
    return protocols.every(mayBeAllowed) ? protocols : undefined;
  },
};

const traceUrlTemplate: SettingKind<string> = {
  placeholder: "URL",
  accepted: "an http:// or https:// URL with {traceId}, such as https://jaeger.example.com/trace/{traceId}",
  parse: (value) => (isTraceUrlTemplate(value) ? value : undefined),
};

const memoryLimit = process.constrainedMemory();
// Each pod with a ServiceAccount has this folder.
const isInPod = existsSync("/var/run/secrets/kubernetes.io");
const memory = memoryPlan(plannedCpus(availableParallelism(), memoryLimit, isInPod), memoryLimit);

/** The settings by name: flag, environment variable, values, default and help. A flag overrides its variable. */
export const proxySettings = {
  configDir: {
    kind: optional(text("DIR", "a folder of YAML manifests")),
    flag: "config-dir",
    env: "CONFIG_DIR",
    defaultText: "none",
    help: "The folder of manifests to serve and to watch.",
  },
  kubernetes: {
    kind: toggle,
    flag: "kubernetes",
    env: "KUBERNETES",
    default: "false",
    help: "Serve the resources of a Kubernetes cluster instead of a folder: the cluster of KUBECONFIG, or the one that this pod runs in.",
  },
  gateway: {
    kind: optional(namespacedName),
    flag: "gateway",
    env: "GATEWAY",
    defaultText: "all Gateways of class gateway-proxy",
    help: "The one Gateway of the cluster that this process serves.",
  },
  workers: {
    kind: integer(1, 256),
    flag: "workers",
    env: "WORKERS",
    default: String(memory.workers),
    defaultText: "CPUs, at most one per 192 MiB of the remaining memory limit, and 2 in a pod without a memory limit",
    help: "Worker threads, each with its own event loop; local limits are exact over all of them. Under a memory limit (cgroup) they share what remains after 128 MiB and --max-body-memory.",
  },
  listenAddress: {
    kind: optional(ipAddress),
    flag: "listen-address",
    env: "LISTEN_ADDRESS",
    defaultText: "every address of the machine",
    help: "The IP address of Gateways without spec.addresses.",
  },
  proxyProtocol: {
    kind: oneOf("off", "required"),
    flag: "proxy-protocol",
    env: "PROXY_PROTOCOL",
    default: "off",
    help: "Whether every connection begins with a PROXY protocol header (version 1 or 2), which contains the client's address. Require it only if no one but the load balancer can connect.",
  },
  adminAddress: {
    kind: orOff(loopbackListenAddress),
    flag: "admin-address",
    env: "ADMIN_ADDRESS",
    default: `127.0.0.1:${adminPort}`,
    help: "The address of the admin server: loopback, a Unix socket that only its owner can use, or, with --admin-token-file, any address. :PORT is loopback; every address of the machine is 0.0.0.0:PORT or [::]:PORT. Its users can see the configuration, trace requests and stop the proxy.",
  },
  adminTokenFile: {
    kind: optional(text("FILE", "the path of a file")),
    flag: "admin-token-file",
    env: "ADMIN_TOKEN_FILE",
    defaultText: "no token",
    help: "The file with the token that the admin server requires (Authorization: Bearer). It is read for each request, so it can be replaced. Required unless --admin-address is loopback or a Unix socket.",
  },
  adminHost: {
    kind: optional(text("HOST,…", "host names and addresses, separated by commas")),
    flag: "admin-host",
    env: "ADMIN_HOST",
    defaultText: "localhost and loopback addresses",
    help: "Further values of the Host header that the admin server accepts. All others are rejected, which protects it from DNS rebinding by web pages.",
  },
  ...operatorServerSettings,
  allowBackendAddress: {
    kind: optional(ipSocketAddresses),
    flag: "allow-backend-address",
    env: "ALLOW_BACKEND_ADDRESS",
    defaultText: "none",
    help: "Special addresses (loopback, link-local, metadata) that backends and rate limit services of a cluster may use, such as 127.0.0.1:8081 of a sidecar. The proxy's own addresses cannot be allowed.",
  },
  refusedPolicies: {
    kind: oneOf("Closed", "Open"),
    flag: "refused-policies",
    env: "REFUSED_POLICIES",
    default: "Closed",
    help: "The handling of the targets of a ProxyPolicy that cannot be read and has no previous valid version: they respond with 503 (Closed), or are served without its limits (Open).",
  },
  replicas: {
    kind: integer(1, 10_000),
    flag: "replicas",
    env: "REPLICAS",
    default: "1",
    help: "The number of replicas of the proxy that serve the same folder, this one included. They divide the limits with shareAcrossReplicas. In Kubernetes mode, the ready replicas divide them instead.",
  },
  trustedHops: {
    kind: integer(0, 16),
    flag: "trusted-hops",
    env: "TRUSTED_HOPS",
    default: "0",
    help: "The number of trusted proxies between clients and this one. Their X-Forwarded-For determines source.address in expressions.",
  },
  ipv6PrefixLength: {
    kind: integer(1, 128),
    flag: "ipv6-prefix-length",
    env: "IPV6_PREFIX_LENGTH",
    default: String(defaultIpv6PrefixLength),
    help: "Prefix length of a client's IPv6 address in source.address in expressions, so that a limit by it counts the whole network of a client. 128 is the full address.",
  },
  upgradeProtocols: {
    kind: orOff(protocolList),
    flag: "upgrade-protocols",
    env: "UPGRADE_PROTOCOLS",
    default: defaultUpgradeProtocols.join(","),
    help: "Protocols that a request may switch to, by Upgrade over HTTP/1.1 and by extended CONNECT over HTTP/2. Data after the switch is not matched, limited or logged.",
  },
  pathEscapedSlashes: {
    kind: oneOf(...pathChoices.escapedSlashes),
    flag: "path-escaped-slashes",
    env: "PATH_ESCAPED_SLASHES",
    default: defaultPathRules.escapedSlashes,
    help: "How %2F and %5C in a path are handled: as data (keep), with a 400 (reject), as separators (decode), or as data if a separator leads to the same rule and limits, otherwise with a 400 (consistent).",
  },
  pathParameters: {
    kind: oneOf(...pathChoices.pathParameters),
    flag: "path-parameters",
    env: "PATH_PARAMETERS",
    default: defaultPathRules.pathParameters,
    help: "How a semicolon and the rest of its path segment are handled: as data (keep), with a 400 (reject), removed (strip), or as data if the path without them leads to the same rule and limits, otherwise with a 400 (consistent).",
  },
  pathBackslashes: {
    kind: oneOf(...pathChoices.backslashes),
    flag: "path-backslashes",
    env: "PATH_BACKSLASHES",
    default: defaultPathRules.backslashes,
    help: "How a backslash in a path is handled: with a 400 (reject), as data (keep), or as a slash (convert).",
  },
  pathRepeatedSlashes: {
    kind: oneOf(...pathChoices.repeatedSlashes),
    flag: "path-repeated-slashes",
    env: "PATH_REPEATED_SLASHES",
    default: defaultPathRules.repeatedSlashes,
    help: "How several slashes in a row are handled: as one slash (merge), as data (keep), or with a 400 (reject).",
  },
  pathCase: {
    kind: oneOf(...pathChoices.pathCase),
    flag: "path-case",
    env: "PATH_CASE",
    default: defaultPathRules.pathCase,
    help: "Whether paths keep their case, or are matched, limited and forwarded in lower case, for backends that ignore case. Regular expressions then match the lower case.",
  },
  irregularHeaderNames: {
    kind: oneOf(...irregularNameActions),
    flag: "irregular-header-names",
    env: "IRREGULAR_HEADER_NAMES",
    default: defaultRequestRules.irregularNames,
    help: "The handling of a request header whose name has an underscore or any other character besides letters, digits and hyphens, which CGI-style servers confuse with another name: drop it, reject the request with 400, or keep it.",
  },
  streamIdleTimeout: {
    kind: duration(0, 86_400_000),
    flag: "stream-idle-timeout",
    env: "STREAM_IDLE_TIMEOUT",
    default: "5m",
    help: "The time without any data in either direction while a request waits for its client to read the response or to send the rest of its body; then the request is ended (StreamIdleTimeout). 0ms is no timeout.",
  },
  contendedStreamIdleTimeout: {
    kind: duration(0, 3_600_000),
    flag: "contended-stream-idle-timeout",
    env: "CONTENDED_STREAM_IDLE_TIMEOUT",
    default: "3s",
    help: "While requests wait for a connection to an endpoint: the time that a request with a connection may wait for its client at less than 500 bytes a second, multiplied by the number of such requests of the client's address; then the request is ended (StreamIdleTimeout). 0ms applies only --stream-idle-timeout.",
  },
  tcpIdleTimeout: {
    kind: duration(0, 604_800_000),
    flag: "tcp-idle-timeout",
    env: "TCP_IDLE_TIMEOUT",
    default: "1h",
    help: "The time without any byte in either direction after which a connection of a TLSRoute or a TCPRoute is closed (IdleTimeout). 0ms is no timeout.",
  },
  udpIdleTimeout: {
    kind: duration(1_000, 86_400_000),
    flag: "udp-idle-timeout",
    env: "UDP_IDLE_TIMEOUT",
    default: "1m",
    help: "The time without any datagram in either direction after which a session of a UDPRoute ends (IdleTimeout). A session is an address and port of a client.",
  },
  maxUdpSessions: {
    kind: integer(1, 65_535),
    flag: "max-udp-sessions",
    env: "MAX_UDP_SESSIONS",
    default: String(defaultStreams.maxSessions),
    help: "Maximum sessions of UDPRoutes in a worker, which serves all sessions of a port. Each has a socket. Beyond it, the client address with the most sessions loses its oldest one to an address with fewer (Shed). All sessions take at most an eighth of the limit of open files. An IPv6 address counts as its network (--ipv6-prefix-length).",
  },
  maxBodyMemory: {
    kind: integer(32, 65_536),
    flag: "max-body-memory",
    env: "MAX_BODY_MEMORY",
    default: String(memory.bodyBytes / 1024 / 1024),
    defaultText: "256, at most a quarter of the memory limit",
    help: "Maximum MiB of request bodies in memory, of all workers together: those buffered whole for LLM backends (up to 32 MiB each) and those kept for retries and mirrors. A request whose body exceeds it gets a 503 (BodyMemoryFull). An eighth is reserved for bodies of up to 64 KiB. Above three quarters, a client address that uses more than an eighth gets no more, and --contended-stream-idle-timeout applies to buffered uploads.",
  },
  maxClientMemory: {
    kind: integer(1, 1_048_576),
    flag: "max-client-memory",
    env: "MAX_CLIENT_MEMORY",
    default: String(memory.clientBytes / 1024 / 1024),
    defaultText: "192 for each worker, 96 under a small memory limit",
    help: "Maximum MiB for client connections and their requests, without bodies, divided equally between the workers. Connections use at most two thirds, and count 16 KiB each, 64 KiB with TLS: 96 MiB are 4,096 connections, or 1,024 with TLS. Beyond it, idle connections of the client addresses with the most connections are closed, otherwise their newest. The same happens when the connections take half of the limit of open files. Requests use what the open connections leave, at least a third. A request in progress counts 8.5 KiB plus its headers and 64 bytes per header; bytes that wait for a request or for its body count as they are: 192 MiB are 18,000 requests in progress with 20 headers each, such as 100 on each of 180 HTTP/2 connections. Beyond it, requests of the addresses that use the most are ended, with 503 (HeadMemoryFull) if no response has begun. An IPv6 address counts as its network (--ipv6-prefix-length).",
  },
  maxConnectionsPerEndpoint: {
    kind: integer(1, 65_535),
    flag: "max-connections-per-endpoint",
    env: "MAX_CONNECTIONS_PER_ENDPOINT",
    default: String(defaultUpstream.maxConnections),
    help: "Maximum connections of a worker to one endpoint, at most the share of the worker in an eighth of the limit of open files; further requests wait for one. HTTP/2 carries up to 100 requests on each, HTTP/1.1 one. Up to 1,024 others finish their requests, after the endpoint has left them or many of their requests were reset.",
  },
  maxTunnelsPerEndpoint: {
    kind: integer(1, 65_535),
    flag: "max-tunnels-per-endpoint",
    env: "MAX_TUNNELS_PER_ENDPOINT",
    default: String(defaultUpstream.maxConnections),
    help: "Maximum requests to one endpoint and worker that ask to switch protocols (WebSocket) or have switched. Their connections do not count for --max-connections-per-endpoint, and have a further eighth of the limit of open files. Beyond it, the oldest tunnel of the client address with the most of them is closed; a client that itself has the most gets a 503 (BackendOverloaded).",
  },
  maxRequestsPerBackend: {
    kind: integer(1, 2 ** 24),
    flag: "max-requests-per-backend",
    env: "MAX_REQUESTS_PER_BACKEND",
    default: String(defaultUpstream.maxRequests),
    help: "Maximum requests in progress to one backend in a worker, including those that wait, without tunnels. Beyond it, the newest request of the client address with the most gets a 503 (BackendOverloaded) in favor of an address with fewer; other requests get it themselves.",
  },
  maxWaitingPerBackend: {
    kind: integer(0, 2 ** 24),
    flag: "max-waiting-per-backend",
    env: "MAX_WAITING_PER_BACKEND",
    default: String(defaultUpstream.maxWaiting),
    help: "Maximum requests to one backend that wait in a worker for a connection; further requests get a 503 (BackendOverloaded).",
  },
  maxWaitForConnection: {
    kind: duration(1, 3_600_000),
    flag: "max-wait-for-connection",
    env: "MAX_WAIT_FOR_CONNECTION",
    default: `${defaultUpstream.maxWaitMs / 1_000}s`,
    help: "Maximum time that a request waits for a connection while all to its endpoint are in use; then it gets a 503 (BackendOverloaded). After a fifth of the time, the newest request of the client address with the most requests to the endpoint gets the 503 instead, if the address that waits has fewer. The timeouts of its rule may end it earlier.",
  },
  abandonedAnswerTimeout: {
    kind: duration(0, 3_600_000),
    flag: "abandoned-answer-timeout",
    env: "ABANDONED_ANSWER_TIMEOUT",
    default: `${defaultAbandonedResponses.timeoutMs / 1_000}s`,
    help: "The time for which a response under a token limit is still read for its usage after its client has disconnected; then the usage is estimated. 0ms estimates at once.",
  },
  abandonedAnswerBytes: {
    kind: integer(0, 2 ** 30),
    flag: "abandoned-answer-bytes",
    env: "ABANDONED_ANSWER_BYTES",
    default: String(defaultAbandonedResponses.maxBytes),
    help: "Maximum bytes of such a response that are read after its client has disconnected; then the usage is estimated.",
  },
  maxAbandonedAnswers: {
    kind: integer(0, 65_535),
    flag: "max-abandoned-answers",
    env: "MAX_ABANDONED_ANSWERS",
    default: String(defaultAbandonedResponses.maxResponses),
    help: "Maximum number of such responses that a worker reads at once, each on a connection to its backend; the usage of further ones is estimated.",
  },
  healthCheckInterval: {
    kind: duration(0, 3_600_000),
    flag: "health-check-interval",
    env: "HEALTH_CHECK_INTERVAL",
    default: "0ms",
    defaultText: "off",
    help: "The interval at which each worker checks every endpoint except LLM providers; three failures in a row remove it from load balancing until a check succeeds. 0ms disables the checks: only responses to clients are evaluated.",
  },
  healthCheckPath: {
    kind: text("PATH", "a path such as /healthz"),
    flag: "health-check-path",
    env: "HEALTH_CHECK_PATH",
    default: "/",
    help: "The path of health checks, requested by GET; every status below 500 is a success.",
  },
  healthCheckTimeout: {
    kind: duration(1, 60_000),
    flag: "health-check-timeout",
    env: "HEALTH_CHECK_TIMEOUT",
    default: "1s",
    help: "Timeout of one health check, with connecting.",
  },
  drainDelay: {
    kind: duration(0, 3_600_000),
    flag: "drain-delay",
    env: "DRAIN_DELAY",
    default: "1s",
    help: "The time after SIGTERM for which connections are still accepted and kept, while readiness already fails and clients are asked to close their connections (Connection: close, GOAWAY). It must be longer than load balancers need to notice. It is part of the drain timeout.",
  },
  drainTimeout: {
    kind: duration(0, 3_600_000),
    flag: "drain-timeout",
    env: "DRAIN_TIMEOUT",
    default: "30s",
    help: "The time for requests and streams in progress to finish after SIGTERM, with the drain delay.",
  },
  maxCounters: {
    kind: integer(16, 2 ** 24),
    flag: "max-counters",
    env: "MAX_COUNTERS",
    default: String(defaultCounters),
    help: "Maximum number of limit counters, 128 bytes each; beyond it the least recently used key starts again with a full budget.",
  },
  stateDir: {
    kind: optional(text("DIR", "the path of a directory")),
    flag: "state-dir",
    env: "STATE_DIR",
    defaultText: "none",
    help: "The directory in which counters of windows longer than a minute are kept, so that a restart continues them: nothing is lost by SIGTERM, and at most the last second by SIGKILL. It is created if it does not exist. Each process needs its own.",
  },
  maxMetricSeries: {
    kind: integer(100, 1_000_000),
    flag: "max-metric-series",
    env: "MAX_METRIC_SERIES",
    default: "5000",
    help: "Maximum number of label sets of each metric in /metrics, a 25th of it for histograms. Further ones are added up with the label value `other`.",
  },
  ...accessLogSettings,
  exportedLogs: {
    kind: oneOf("all", "access", "application"),
    flag: "exported-logs",
    env: "EXPORTED_LOGS",
    default: "all",
    help: "While logs are exported by OTLP (OTEL_LOGS_EXPORTER): the access log, all other lines, or both.",
  },
  traceAlways: {
    kind: oneOf(...tracedAlways),
    flag: "trace-always",
    env: "TRACE_ALWAYS",
    default: "none",
    help: "While traces are exported: the requests whose spans are exported although they are not sampled. The decision is taken at the end of a request.",
  },
  traceUrlTemplate: {
    kind: optional(traceUrlTemplate),
    flag: "trace-url-template",
    env: "TRACE_URL_TEMPLATE",
    defaultText: "none",
    help: "The URL of a trace in a trace backend, to which the admin page links: {traceId} stands for the id of the trace, {spanId} for that of the span.",
  },
  traceClientSampling: {
    kind: oneOf("follow", "ignore"),
    flag: "trace-client-sampling",
    env: "TRACE_CLIENT_SAMPLING",
    default: "follow",
    help: "While traces are exported: whether a parent-based sampler follows the decision of a client (the flag of traceparent), or ignores it. Ignore it if clients are not trusted: with the flag, a client can have all of its requests traced.",
  },
  logLevel: {
    kind: logFilter(Object.keys(proxyLogModules)),
    flag: "log-level",
    env: "LOG_LEVEL",
    default: "info",
    help: "The levels of all other log lines, by module, in the syntax of RUST_LOG.",
  },
} as const;

/** The value of each setting. Durations are in milliseconds; an optional setting without a value is undefined. */
export type ProxySettings = SettingValues<typeof proxySettings>;

/** Whether a log is exported, if any is. */
export function exportsLog(
  { exportedLogs }: Pick<ProxySettings, "exportedLogs">,
  log: "access" | "application",
): boolean {
  return exportedLogs === "all" || exportedLogs === log;
}

/** Returns the conflicts between settings; empty if there are none. */
export function settingConflicts(settings: ProxySettings): readonly Problem[] {
  const { configDir, kubernetes, gateway, allowBackendAddress } = settings;
  const { adminAddress, adminTokenFile, statsAddress, readinessAddress } = settings;
  const ownAddresses = [adminAddress, statsAddress, readinessAddress].flatMap((address) =>
    address === "off" || "path" in address ? [] : address,
  );
  const guard = new AddressGuard({ own: ownAddresses, deniesSpecial: false, allowed: [] });
  const [ownAddress] = (allowBackendAddress ?? []).flatMap(({ host, port }) => guard.denialReason(host, port) ?? []);
  const problems: Problem[] = [];
  if (kubernetes && configDir !== undefined) {
    problems.push({ message: "--kubernetes and --config-dir are both set; set one of them" });
  }
  if (!kubernetes && configDir === undefined) {
    const message = "missing; set --config-dir DIR to a folder of YAML manifests, or --kubernetes";
    problems.push({ path: "--config-dir", message });
  }
  if (adminTokenFile === undefined && isExposed(adminAddress)) {
    const message =
      "the address is not loopback, which requires --admin-token-file FILE; accepted without a token are 127.0.0.1, ::1 and unix:/path";
    problems.push({ path: "--admin-address", message });
  }
  if (ownAddress !== undefined) {
    const message = `contains one of the addresses ${ownAddress}; a backend cannot use it`;
    problems.push({ path: "--allow-backend-address", message });
  }
  if (!kubernetes && gateway !== undefined) {
    problems.push({ path: "--gateway", message: "accepted only together with --kubernetes" });
  }
  return problems;
}

/** Whether other machines can reach an address. A host name may resolve to any address. */
function isExposed(address: ProxySettings["adminAddress"]): boolean {
  return address !== "off" && !("path" in address) && specialKind(literalAddress(address.host) ?? "") !== "a loopback";
}
