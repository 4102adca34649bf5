/** Every setting of the proxy. `docs/settings.md` and `--help` are made from this table. */
import { availableParallelism } from "node:os";
import { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import { literalAddress, specialKind } from "@gatewayproxy/runtime/ip-address";
import { adminPort, pageSettings } from "@gatewayproxy/runtime/page-settings";
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
import { defaultIpv6PrefixLength } from "../cel/variables.ts";
import { defaultUpgradeProtocols, mayBeAllowed } from "../upstream/upgrade-protocol.ts";
import { proxyLogModules } from "./log-modules.ts";
import { memoryPlan } from "./memory-plan.ts";
import { accessLogModes } from "../telemetry/access-log.ts";
import { defaultCounters } from "../policy/ratelimit/counter-table.ts";
import { defaultPathRules, pathChoices } from "../routing/path-rules.ts";
import { irregularNameActions } from "../server/request-fields.ts";
import { defaultRequestRules } from "../server/request-head.ts";
import { defaultAbandonedAnswers } from "../server/abandoned-answers.ts";
import { defaultUpstream } from "../upstream/upstream-settings.ts";

/** An object in a namespace. */
const namespacedName: SettingKind<{ readonly namespace: string; readonly name: string }> = {
  placeholder: "NAMESPACE/NAME",
  accepted: "NAMESPACE/NAME",
  parse(value) {
    const [, namespace, name] = /^([a-z0-9][-a-z0-9]*)\/([a-z0-9][-.a-z0-9]*)$/.exec(value) ?? [];
    return namespace === undefined || name === undefined ? undefined : { namespace, name };
  },
  render: ({ namespace, name }) => `${namespace}/${name}`,
};

const protocolList: SettingKind<readonly string[]> = {
  placeholder: "PROTOCOL,…",
  accepted: "names of protocols other than HTTP and TLS, separated by commas",
  parse(value) {
    const protocols = value.split(",").map((protocol) => protocol.trim());
    return protocols.every(mayBeAllowed) ? protocols : undefined;
  },
};

const memory = memoryPlan(availableParallelism(), process.constrainedMemory());

export const proxySettings = {
  configDir: {
    kind: optional(text("DIR", "a folder of YAML manifests")),
    flag: "config-dir",
    env: "CONFIG_DIR",
    defaultText: "none",
    help: "Folder of manifests to serve and to watch.",
  },
  kubernetes: {
    kind: toggle,
    flag: "kubernetes",
    env: "KUBERNETES",
    default: "false",
    help: "Serve the resources of a Kubernetes cluster, in place of a folder: the one of KUBECONFIG, or the one that this pod runs in.",
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
    defaultText: "CPUs, at most one per 192 MiB of what the memory limit leaves",
    help: "Worker threads, each with its own event loop; local limits are exact over all of them. A memory limit (cgroup) leaves them what 128 MiB and --max-body-memory do not take.",
  },
  listenAddress: {
    kind: optional(ipAddress),
    flag: "listen-address",
    env: "LISTEN_ADDRESS",
    defaultText: "every address of the machine",
    help: "Where Gateways listen that name no address in spec.addresses.",
  },
  proxyProtocol: {
    kind: oneOf("off", "required"),
    flag: "proxy-protocol",
    env: "PROXY_PROTOCOL",
    default: "off",
    help: "Whether every connection begins with a PROXY protocol header (version 1 or 2) that tells the client's address. Require it only where nobody but the load balancer can connect.",
  },
  adminAddress: {
    kind: orOff(loopbackListenAddress),
    flag: "admin-address",
    env: "ADMIN_ADDRESS",
    default: `127.0.0.1:${adminPort}`,
    help: "Where the admin server listens: on loopback, on a Unix socket that its owner alone can use, or, with --admin-token-file, anywhere. :PORT is loopback; every address of the machine is 0.0.0.0:PORT or [::]:PORT. Whoever may ask it can see the configuration, trace requests and stop the proxy.",
  },
  adminTokenFile: {
    kind: optional(text("FILE", "the path of a file")),
    flag: "admin-token-file",
    env: "ADMIN_TOKEN_FILE",
    defaultText: "no token",
    help: "File with the token that the admin server asks for (Authorization: Bearer). It is read anew with each request, so it can be replaced. Required where --admin-address is not loopback or a Unix socket.",
  },
  adminHost: {
    kind: optional(text("HOST,…", "host names and addresses, separated by commas")),
    flag: "admin-host",
    env: "ADMIN_HOST",
    defaultText: "localhost and loopback addresses",
    help: "Further hosts by which the admin server may be asked for, so that no name of a web page's can be turned against it.",
  },
  ...pageSettings,
  allowBackendAddress: {
    kind: optional(ipSocketAddresses),
    flag: "allow-backend-address",
    env: "ALLOW_BACKEND_ADDRESS",
    defaultText: "none",
    help: "Special addresses (loopback, link-local, metadata) that backends and rate limit services of a cluster may have all the same, such as 127.0.0.1:8081 of a sidecar. The proxy's own addresses cannot be allowed.",
  },
  refusedPolicies: {
    kind: oneOf("Closed", "Open"),
    flag: "refused-policies",
    env: "REFUSED_POLICIES",
    default: "Closed",
    help: "What becomes of the targets of a ProxyPolicy that cannot be read and of which no sound version is known: they answer 503, or are served without its limits.",
  },
  trustedHops: {
    kind: integer(0, 16),
    flag: "trusted-hops",
    env: "TRUSTED_HOPS",
    default: "0",
    help: "Proxies between clients and this one whose X-Forwarded-For is believed for source.address in expressions.",
  },
  ipv6PrefixLength: {
    kind: integer(1, 128),
    flag: "ipv6-prefix-length",
    env: "IPV6_PREFIX_LENGTH",
    default: String(defaultIpv6PrefixLength),
    help: "Bits of a client's IPv6 address that source.address shows in expressions, so that a limit by it counts the network that one client has. 128 shows the address.",
  },
  upgradeProtocols: {
    kind: orOff(protocolList),
    flag: "upgrade-protocols",
    env: "UPGRADE_PROTOCOLS",
    default: defaultUpgradeProtocols.join(","),
    help: "Protocols that a request may switch to, by Upgrade over HTTP/1.1 and by extended CONNECT over HTTP/2. Nothing that passes after the switch is matched, limited or logged.",
  },
  pathEscapedSlashes: {
    kind: oneOf(...pathChoices.escapedSlashes),
    flag: "path-escaped-slashes",
    env: "PATH_ESCAPED_SLASHES",
    default: defaultPathRules.escapedSlashes,
    help: "What %2F and %5C in a path are: data (keep), a reason to answer 400 (reject), separators (decode), or data where the separator would lead to the same rule and limits, and 400 elsewhere (consistent).",
  },
  pathParameters: {
    kind: oneOf(...pathChoices.pathParameters),
    flag: "path-parameters",
    env: "PATH_PARAMETERS",
    default: defaultPathRules.pathParameters,
    help: "What a semicolon and the rest of its path segment are: data (keep), a reason to answer 400 (reject), left out (strip), or data where the path without it leads to the same rule and limits, and 400 elsewhere (consistent).",
  },
  pathBackslashes: {
    kind: oneOf(...pathChoices.backslashes),
    flag: "path-backslashes",
    env: "PATH_BACKSLASHES",
    default: defaultPathRules.backslashes,
    help: "What a backslash in a path is: a reason to answer 400 (reject), data (keep), or a slash (convert).",
  },
  pathRepeatedSlashes: {
    kind: oneOf(...pathChoices.repeatedSlashes),
    flag: "path-repeated-slashes",
    env: "PATH_REPEATED_SLASHES",
    default: defaultPathRules.repeatedSlashes,
    help: "What several slashes in a row are: one slash (merge), data (keep), or a reason to answer 400 (reject).",
  },
  pathCase: {
    kind: oneOf(...pathChoices.pathCase),
    flag: "path-case",
    env: "PATH_CASE",
    default: defaultPathRules.pathCase,
    help: "Whether paths keep their letters, or are matched, limited and sent in lower case, for backends that ignore case. Regular expressions see the lower case.",
  },
  irregularHeaderNames: {
    kind: oneOf(...irregularNameActions),
    flag: "irregular-header-names",
    env: "IRREGULAR_HEADER_NAMES",
    default: defaultRequestRules.irregularNames,
    help: "What happens to a request's header whose name has an underscore, or any character but letters, digits and hyphens, which CGI-style servers take for another name: drop it, reject the request with 400, or keep it.",
  },
  streamIdleTimeout: {
    kind: duration(0, 86_400_000),
    flag: "stream-idle-timeout",
    env: "STREAM_IDLE_TIMEOUT",
    default: "5m",
    help: "How long nothing may pass, either way, while a request waits for its client to read the answer or to send the rest of its body; then it is ended (StreamIdleTimeout). 0ms waits for ever.",
  },
  contendedStreamIdleTimeout: {
    kind: duration(0, 3_600_000),
    flag: "contended-stream-idle-timeout",
    env: "CONTENDED_STREAM_IDLE_TIMEOUT",
    default: "3s",
    help: "While requests wait for a connection to an endpoint: how long a request that holds one may wait for its client at less than 500 bytes a second, times the number of such requests of the client's address; then it is ended (StreamIdleTimeout). 0ms leaves it to --stream-idle-timeout.",
  },
  maxBodyMemory: {
    kind: integer(32, 65_536),
    flag: "max-body-memory",
    env: "MAX_BODY_MEMORY",
    default: String(memory.bodyBytes / 1024 / 1024),
    defaultText: "256, at most a quarter of the memory limit",
    help: "MiB of request bodies that all workers together hold: those read whole for LLM backends (up to 32 MiB each) and kept for retries and mirrors. A request whose body must be held beyond that is answered with 503 (BodyMemoryFull). An eighth is left to bodies of up to 64 KiB. From three quarters on, a client address that holds more than an eighth gets no more, and --contended-stream-idle-timeout applies to uploads that are held.",
  },
  maxClientMemory: {
    kind: integer(1, 1_048_576),
    flag: "max-client-memory",
    env: "MAX_CLIENT_MEMORY",
    default: String(memory.clientBytes / 1024 / 1024),
    defaultText: "192 for each worker, 96 under a small memory limit",
    help: "MiB for connections of clients and their requests, without bodies, in equal parts for the workers. Connections take at most two thirds, and count 16 KiB each and 64 KiB with TLS: 96 MiB are 4,096 connections, or 1,024 with TLS. Beyond it, the client addresses with the most connections lose idle ones, or else their newest. Requests have what the open connections leave, a third at least. A request under way counts 8.5 KiB, one that waits for others on its connection 2.5 KiB, a refused one 5.5 KiB until the client has taken the answer, each with its headers and 64 bytes for each of them: 192 MiB are 18,000 requests under way with 20 headers each, such as 100 on each of 180 connections of HTTP/2. Beyond it, the addresses that hold the most lose them, with 503 (HeadMemoryFull) where no answer has begun. An IPv6 address counts as its network (--ipv6-prefix-length).",
  },
  maxConnectionsPerEndpoint: {
    kind: integer(1, 65_535),
    flag: "max-connections-per-endpoint",
    env: "MAX_CONNECTIONS_PER_ENDPOINT",
    default: String(defaultUpstream.maxConnections),
    help: "Connections that a worker opens to one endpoint; further requests wait for one. HTTP/2 carries 100 requests on each, HTTP/1.1 one.",
  },
  maxTunnelsPerEndpoint: {
    kind: integer(1, 65_535),
    flag: "max-tunnels-per-endpoint",
    env: "MAX_TUNNELS_PER_ENDPOINT",
    default: String(defaultUpstream.maxConnections),
    help: "Requests to one endpoint that ask to switch protocols (WebSocket), or have switched, per worker. They have connections besides --max-connections-per-endpoint. Beyond it, the oldest tunnel of the client address with the most of them ends; a client that has as many itself is answered with 503 (BackendOverloaded).",
  },
  maxRequestsPerBackend: {
    kind: integer(1, 2 ** 24),
    flag: "max-requests-per-backend",
    env: "MAX_REQUESTS_PER_BACKEND",
    default: String(defaultUpstream.maxRequests),
    help: "Requests to one backend that a worker has under way, those that wait included and tunnels not; what comes beyond is answered with 503 (BackendOverloaded).",
  },
  maxWaitingPerBackend: {
    kind: integer(0, 2 ** 24),
    flag: "max-waiting-per-backend",
    env: "MAX_WAITING_PER_BACKEND",
    default: String(defaultUpstream.maxWaiting),
    help: "Requests to one backend that wait in a worker for a connection; what comes beyond is answered with 503 (BackendOverloaded).",
  },
  maxWaitForConnection: {
    kind: duration(1, 3_600_000),
    flag: "max-wait-for-connection",
    env: "MAX_WAIT_FOR_CONNECTION",
    default: `${defaultUpstream.maxWaitMs / 1_000}s`,
    help: "How long a request waits for a connection while all to its endpoint are taken; then it is answered with 503 (BackendOverloaded). The timeouts of its rule may end it earlier.",
  },
  abandonedAnswerTimeout: {
    kind: duration(0, 3_600_000),
    flag: "abandoned-answer-timeout",
    env: "ABANDONED_ANSWER_TIMEOUT",
    default: `${defaultAbandonedAnswers.timeoutMs / 1_000}s`,
    help: "How long an answer under a token limit is read on for its usage after its client has left; then the usage is estimated. 0ms estimates at once.",
  },
  abandonedAnswerBytes: {
    kind: integer(0, 2 ** 30),
    flag: "abandoned-answer-bytes",
    env: "ABANDONED_ANSWER_BYTES",
    default: String(defaultAbandonedAnswers.maxBytes),
    help: "Bytes of such an answer that are read after its client has left; then the usage is estimated.",
  },
  maxAbandonedAnswers: {
    kind: integer(0, 65_535),
    flag: "max-abandoned-answers",
    env: "MAX_ABANDONED_ANSWERS",
    default: String(defaultAbandonedAnswers.maxAnswers),
    help: "Such answers that a worker reads at once, each on a connection to its backend; the usage of any further one is estimated.",
  },
  healthCheckInterval: {
    kind: duration(0, 3_600_000),
    flag: "health-check-interval",
    env: "HEALTH_CHECK_INTERVAL",
    default: "0ms",
    defaultText: "off",
    help: "How often each worker asks every endpoint but LLM providers how it is; three failures leave it out until a good answer. 0ms leaves it to the answers that clients get.",
  },
  healthCheckPath: {
    kind: text("PATH", "a path such as /healthz"),
    flag: "health-check-path",
    env: "HEALTH_CHECK_PATH",
    default: "/",
    help: "What health checks ask for, with GET; every answer below 500 is a good one.",
  },
  healthCheckTimeout: {
    kind: duration(1, 60_000),
    flag: "health-check-timeout",
    env: "HEALTH_CHECK_TIMEOUT",
    default: "1s",
    help: "How long one health check may take, connecting included.",
  },
  drainDelay: {
    kind: duration(0, 3_600_000),
    flag: "drain-delay",
    env: "DRAIN_DELAY",
    default: "1s",
    help: "How long after SIGTERM connections are still accepted and kept, while readiness already fails and clients are asked to leave (Connection: close, GOAWAY). Longer than load balancers take to notice. It is part of the drain timeout.",
  },
  drainTimeout: {
    kind: duration(0, 3_600_000),
    flag: "drain-timeout",
    env: "DRAIN_TIMEOUT",
    default: "30s",
    help: "How long requests and streams under way may take to finish after SIGTERM, the drain delay included.",
  },
  maxCounters: {
    kind: integer(16, 2 ** 24),
    flag: "max-counters",
    env: "MAX_COUNTERS",
    default: String(defaultCounters),
    help: "Limit counters that are kept at once, 128 bytes each; beyond it the least recently used key starts afresh.",
  },
  accessLog: {
    kind: oneOf(...accessLogModes),
    flag: "access-log",
    env: "ACCESS_LOG",
    default: "on",
    help: "Which requests are logged: all, only those that were refused or failed, or none.",
  },
  logLevel: {
    kind: logFilter(Object.keys(proxyLogModules)),
    flag: "log-level",
    env: "LOG_LEVEL",
    default: "info",
    help: "What else is logged, by level and module, in the syntax of RUST_LOG.",
  },
} as const;

export type ProxySettings = SettingValues<typeof proxySettings>;

/** Settings that do not go together; empty when all is well. */
export function settingConflicts(settings: ProxySettings): readonly Problem[] {
  const { configDir, kubernetes, gateway, allowBackendAddress } = settings;
  const { adminAddress, adminTokenFile, statsAddress, readinessAddress } = settings;
  const ownAddresses = [adminAddress, statsAddress, readinessAddress].flatMap((address) =>
    address === "off" || "path" in address ? [] : address,
  );
  const own = new AddressGuard({ own: ownAddresses, refusesSpecial: false, allowed: [] });
  const [ownAddress] = (allowBackendAddress ?? []).flatMap(({ host, port }) => own.refusal(host, port) ?? []);
  const problems: Problem[] = [];
  if (kubernetes && configDir !== undefined) {
    problems.push({ message: "--kubernetes and --config-dir are both set, accepted is one of them" });
  }
  if (!kubernetes && configDir === undefined) {
    const message = "missing; set --config-dir DIR to a folder of YAML manifests, or --kubernetes";
    problems.push({ path: "--config-dir", message });
  }
  if (adminTokenFile === undefined && isExposed(adminAddress)) {
    const message =
      "listens on more than loopback, which takes --admin-token-file FILE; or let it listen on 127.0.0.1, ::1 or unix:/path";
    problems.push({ path: "--admin-address", message });
  }
  if (ownAddress !== undefined) {
    const message = `one of the addresses ${ownAddress}; no backend may have it`;
    problems.push({ path: "--allow-backend-address", message });
  }
  if (!kubernetes && gateway !== undefined) {
    problems.push({ path: "--gateway", message: "accepted together with --kubernetes only" });
  }
  return problems;
}

/** Whether other machines may reach an address. A name may stand for any. */
function isExposed(address: ProxySettings["adminAddress"]): boolean {
  return address !== "off" && !("path" in address) && specialKind(literalAddress(address.host) ?? "") !== "a loopback";
}
