/**
 * Envoy with the minimal configuration for the cases: no access log, no admin server, defaults elsewhere. Its local
 * limit sends the `x-ratelimit-*` headers, like this proxy.
 */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { requireProgram } from "../../support/programs.ts";
import { startProgram } from "../process.ts";
import { keyHeader } from "../cases.ts";
import { unreachedLimit, type Peer, type PeerSetup } from "./peer.ts";

export const envoy: Peer = {
  name: "Envoy",
  service: "reference",
  version() {
    const text = execFileSync(requireProgram("envoy"), ["--version"], { encoding: "utf8" });
    return `Envoy ${/\/(\d+\.\d+\.\d+)\//.exec(text)?.[1] ?? text.trim()}`;
  },
  start(setup) {
    const config = join(setup.folder, "envoy.json");
    writeFileSync(config, JSON.stringify(bootstrap(setup)));
    return startProgram("envoy", requireProgram("envoy"), [
      ...["--config-path", config],
      ...["--concurrency", String(setup.workers)],
      ...["--log-level", "warning"],
      "--disable-hot-restart",
    ]);
  },
};

const routerFilter = {
  name: "envoy.filters.http.router",
  typed_config: { "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router" },
};

const always = { default_value: { numerator: 100, denominator: "HUNDRED" } };

const localLimitFilter = {
  name: "envoy.filters.http.local_ratelimit",
  typed_config: {
    "@type": "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
    stat_prefix: "local",
    token_bucket: { max_tokens: unreachedLimit, tokens_per_fill: unreachedLimit, fill_interval: "3600s" },
    filter_enabled: always,
    filter_enforced: always,
    enable_x_ratelimit_headers: "DRAFT_VERSION_03",
  },
};

/** A limit for each value of the header. */
const keyedLimitFilter = {
  ...localLimitFilter,
  typed_config: {
    ...localLimitFilter.typed_config,
    rate_limits: [{ actions: [{ request_headers: { header_name: keyHeader, descriptor_key: keyHeader } }] }],
    descriptors: [{ entries: [{ key: keyHeader }], token_bucket: localLimitFilter.typed_config.token_bucket }],
    max_dynamic_descriptors: 200_000,
  },
};

function globalLimitFilter(service: string): object {
  return {
    name: "envoy.filters.http.ratelimit",
    typed_config: {
      "@type": "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit",
      domain: "bench",
      timeout: "1s",
      failure_mode_deny: true,
      enable_x_ratelimit_headers: "DRAFT_VERSION_03",
      rate_limit_service: { transport_api_version: "V3", grpc_service: { envoy_grpc: { cluster_name: service } } },
    },
  };
}

const byAddress = [{ actions: [{ remote_address: {} }] }];

const http2 = {
  "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
    "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
    explicit_http_config: { http2_protocol_options: {} },
  },
};

function bootstrap(setup: PeerSetup): object {
  const { listeners, backends, limitServicePort, ownServicePort, certificate, hosts } = setup;
  return {
    static_resources: {
      listeners: [
        listener("plain", listeners.plain, [routerFilter]),
        listener("limited", listeners.limited, [localLimitFilter, routerFilter]),
        listener("global", listeners.global, [globalLimitFilter("ratelimit"), routerFilter]),
        listener("path", listeners.path, [globalLimitFilter("own-ratelimit"), routerFilter]),
        listener("tls", listeners.tls, [routerFilter], { transport: tlsSocket(certificate) }),
        listener("routes", listeners.routes, [routerFilter], { hosts }),
        listener("keyed", listeners.keyed, [keyedLimitFilter, routerFilter]),
      ],
      clusters: [
        cluster("static", backends.staticPort),
        cluster("stream", backends.streamPort),
        cluster("websocket", backends.webSocketPort),
        { ...cluster("ratelimit", limitServicePort), typed_extension_protocol_options: http2 },
        { ...cluster("own-ratelimit", ownServicePort ?? limitServicePort), typed_extension_protocol_options: http2 },
      ],
    },
  };
}

function tlsSocket({ certFile, keyFile }: PeerSetup["certificate"]): object {
  return {
    name: "envoy.transport_sockets.tls",
    typed_config: {
      "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
      common_tls_context: {
        alpn_protocols: ["h2", "http/1.1"],
        tls_certificates: [{ certificate_chain: { filename: certFile }, private_key: { filename: keyFile } }],
      },
    },
  };
}

/** @param options `transport` absent: plain text; `hosts` absent: one virtual host for all. */
function listener(
  name: string,
  port: number,
  httpFilters: readonly object[],
  { transport, hosts }: { readonly transport?: object; readonly hosts?: readonly string[] } = {},
): object {
  const routes = [
    { match: { prefix: "/ws" }, route: { cluster: "websocket" } },
    { match: { prefix: "/v1/" }, route: { cluster: "stream" } },
    { match: { prefix: "/" }, route: { cluster: "static" } },
  ];
  const manager = {
    "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    stat_prefix: name,
    codec_type: "AUTO",
    upgrade_configs: [{ upgrade_type: "websocket" }],
    route_config: {
      virtual_hosts: (hosts ?? ["*"]).map((host) => ({ name: host, domains: [host], routes, rate_limits: byAddress })),
    },
    http_filters: httpFilters,
  };
  return {
    name,
    address: socketAddress(port),
    filter_chains: [
      {
        filters: [{ name: "envoy.filters.network.http_connection_manager", typed_config: manager }],
        ...(transport !== undefined && { transport_socket: transport }),
      },
    ],
  };
}

function cluster(name: string, port: number): object {
  return {
    name,
    type: "STATIC",
    load_assignment: {
      cluster_name: name,
      endpoints: [{ lb_endpoints: [{ endpoint: { address: socketAddress(port) } }] }],
    },
  };
}

function socketAddress(port: number): object {
  return { socket_address: { address: "127.0.0.1", port_value: port } };
}
