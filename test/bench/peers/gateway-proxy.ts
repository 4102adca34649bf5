/**
 * This project's proxy in file mode with all its parts: Gateway, routes, policies, metrics; only its access log is off.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { programFile } from "../../support/program-file.ts";
import { keyHeader } from "../cases.ts";
import { startOwnProgram } from "../own-program.ts";
import { unreachedLimit, type Peer, type PeerSetup } from "./peer.ts";

type Environment = Readonly<Record<string, string>>;

/** This proxy; `preload` is a file of `variants/` that changes it at its start. */
function variant(name: string, preload?: string, envOf: (setup: PeerSetup) => Environment = () => ({})): Peer {
  return {
    name,
    service: "ours",
    version: () => `this proxy on Node ${process.versions.node}`,
    start(setup) {
      writeFileSync(join(setup.folder, "bench.yaml"), manifests(setup));
      const args = [
        ...(setup.profiles === undefined ? [] : ["--cpu-prof", "--cpu-prof-dir", setup.profiles]),
        ...(preload === undefined ? [] : ["--import", join(import.meta.dirname, "../variants", preload)]),
        programFile("proxy", "proxy"),
        ...["--config-dir", setup.folder],
        ...["--workers", String(setup.workers)],
        ...["--listen-address", "127.0.0.1"],
        ...["--access-log", "off"],
        ...(setup.connections === undefined ? [] : ["--max-client-memory", clientMemoryFor(setup.connections)]),
        ...["--stats-address", "127.0.0.1:0"],
        ...["--readiness-address", "127.0.0.1:0"],
        ...["--admin-address", `127.0.0.1:${setup.adminPort}`],
      ];
      return startOwnProgram("gateway-proxy", args, envOf(setup));
    },
  };
}

/** Returns the MiB for connections without TLS: each counts 16 KiB, and connections may use two thirds. */
function clientMemoryFor(connections: number): string {
  return String(Math.ceil((connections * 16 * 3) / (2 * 1024)) + 1);
}

/** As it ships. */
export const gatewayProxy = variant("ours");
/** A second process of the same: the difference between two runs of one program. */
export const gatewayProxyAgain = variant("ours, a second one");
/** Without the checks whether a request is traced. */
export const withoutTraceHook = variant("without the trace hook", "without-trace-hook.ts");
/** Without the samples of heap profiles. */
export const withoutHeapSampling = variant("without heap sampling", "without-heap-sampling.ts");

/** Exports the spans of a share of its requests. */
function traced(ratio: string): Peer {
  return variant(`traced, ${ratio}`, undefined, ({ collectorPort }) => ({
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${collectorPort}`,
    OTEL_TRACES_SAMPLER: "traceidratio",
    OTEL_TRACES_SAMPLER_ARG: ratio,
    // All spans of a full second, so that none is dropped instead of exported.
    OTEL_BSP_MAX_QUEUE_SIZE: "100000",
    OTEL_BSP_SCHEDULE_DELAY: "500",
  }));
}

/** Has the ids of traces, and exports nothing. */
export const tracedNone = traced("0");
/** Exports the spans of 1 % of its requests. */
export const tracedOnePercent = traced("0.01");
/** Exports the spans of all requests. */
export const tracedAll = traced("1");

/** With a trace that waits for a request that never comes, so that each is compared with its expression. */
export const watched: Peer = {
  ...variant("watched, none matches"),
  async prepare({ adminPort }) {
    const expression = encodeURIComponent('request.path == "/never"');
    const { body } = await fetch(`http://127.0.0.1:${adminPort}/debug/trace?expression=${expression}`);
    const reader = body?.getReader();
    const first = await reader?.read();
    if (!Buffer.from(first?.value ?? "").includes(": ready")) {
      throw new Error("the trace does not say that it is ready");
    }
    // Reads until the end of the proxy, which ends the trace.
    const drain = async (): Promise<void> => {
      while ((await reader?.read())?.done === false);
    };
    drain().catch(() => undefined);
  },
};

/** The tokens entry makes the proxy read every response of `limited-stream` for its usage. */
function manifests(setup: PeerSetup): string {
  const { listeners, backends, limitServicePort, ownServicePort, certificate, hosts } = setup;
  const rateLimits = {
    "limited-static": { local: [{ requests: unreachedLimit, unit: "Hours" }] },
    "limited-stream": { local: [{ tokens: unreachedLimit, unit: "Hours" }] },
    "keyed-static": {
      local: [{ requests: unreachedLimit, unit: "Hours", key: `request.headers["${keyHeader}"]` }],
    },
    "global-static": { global: globalLimit(limitServicePort) },
    "path-static": { global: globalLimit(ownServicePort ?? limitServicePort) },
  };
  const resources = [
    {
      apiVersion: "gateway.networking.k8s.io/v1",
      kind: "Gateway",
      metadata: { name: "bench" },
      spec: {
        gatewayClassName: "gateway-proxy",
        listeners: [
          { name: "plain", protocol: "HTTP", port: listeners.plain },
          { name: "limited", protocol: "HTTP", port: listeners.limited },
          { name: "global", protocol: "HTTP", port: listeners.global },
          { name: "path", protocol: "HTTP", port: listeners.path },
          { name: "routes", protocol: "HTTP", port: listeners.routes },
          { name: "keyed", protocol: "HTTP", port: listeners.keyed },
          { name: "tls", protocol: "HTTPS", port: listeners.tls, tls: { certificateRefs: [{ name: "certificate" }] } },
        ],
      },
    },
    {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "certificate" },
      type: "kubernetes.io/tls",
      stringData: { "tls.crt": certificate.cert, "tls.key": certificate.key },
    },
    route("plain-static", "plain", "/", "static"),
    route("plain-stream", "plain", "/v1", "stream"),
    route("limited-static", "limited", "/", "static"),
    route("limited-stream", "limited", "/v1", "stream"),
    route("global-static", "global", "/", "static"),
    route("path-static", "path", "/", "static"),
    route("tls-static", "tls", "/", "static"),
    route("keyed-static", "keyed", "/", "static"),
    ...hosts.map((host) => route(host, "routes", "/", "static", host)),
    route("plain-websocket", "plain", "/ws", "websocket"),
    backend("static", backends.staticPort),
    backend("stream", backends.streamPort),
    backend("websocket", backends.webSocketPort),
    ...Object.entries(rateLimits).map(([target, rateLimit]) => ({
      apiVersion: "gatewayproxy.dev/v1alpha1",
      kind: "ProxyPolicy",
      metadata: { name: target },
      spec: {
        targetRefs: [{ group: "gateway.networking.k8s.io", kind: "HTTPRoute", name: target }],
        traffic: { rateLimit },
      },
    })),
  ];
  // JSON is YAML, one document each.
  return resources.map((resource) => JSON.stringify(resource)).join("\n---\n");
}

function globalLimit(servicePort: number): object {
  return {
    address: `127.0.0.1:${servicePort}`,
    domain: "bench",
    timeout: "1s",
    failureMode: "Closed",
    descriptors: [{ entries: [{ name: "remote_address", expression: "source.address" }] }],
  };
}

/** @param host absent: any. */
function route(name: string, listener: string, prefix: string, backendName: string, host?: string): object {
  return {
    apiVersion: "gateway.networking.k8s.io/v1",
    kind: "HTTPRoute",
    metadata: { name },
    spec: {
      parentRefs: [{ name: "bench", sectionName: listener }],
      ...(host !== undefined && { hostnames: [host] }),
      rules: [
        {
          matches: [{ path: { type: "PathPrefix", value: prefix } }],
          backendRefs: [{ group: "gatewayproxy.dev", kind: "Backend", name: backendName }],
        },
      ],
    },
  };
}

function backend(name: string, port: number): object {
  return {
    apiVersion: "gatewayproxy.dev/v1alpha1",
    kind: "Backend",
    metadata: { name },
    spec: { static: { host: "127.0.0.1", port } },
  };
}
