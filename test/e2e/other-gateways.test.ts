import { afterAll, beforeAll, expect, test } from "vitest";
import { stringify } from "yaml";
import { sendMany, tally, testPort } from "./support/client.ts";
import { apply, createNamespace, eventually, kubectl, systemNamespace } from "./support/cluster.ts";
import { program, rolledOut } from "./support/program.ts";

/**
 * Another gateway in the cluster with limits: a real Envoy that calls the bundled service. Its image is a parameter;
 * without a registry `test/rig/kind/rig.sh tests` builds it. The version is that of scripts/install-test-programs.sh.
 */
const envoyImage = process.env["ENVOY_IMAGE"] ?? "docker.io/envoyproxy/envoy:v1.40.0";

const namespace = "e2e-neighbours";
const service = `gateway-proxy-ratelimit-service.${systemNamespace}.svc.cluster.local`;
/** Of each user per minute, in the service. */
const limit = 6;

let created: AsyncDisposable;

beforeAll(async () => {
  created = await createNamespace(namespace);
});

afterAll(async () => {
  await created[Symbol.asyncDispose]();
});

/** An Envoy in front of the mock LLM that calls a rate limit service for each user. */
function envoyConfig(): string {
  const cluster = (name: string, address: string, port: number, isHttp2: boolean) => ({
    name,
    type: "STRICT_DNS",
    connect_timeout: "2s",
    load_assignment: {
      cluster_name: name,
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address, port_value: port } } } }] }],
    },
    ...(isHttp2 && {
      typed_extension_protocol_options: {
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
          "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
          explicit_http_config: { http2_protocol_options: {} },
        },
      },
    }),
  });
  const rateLimit = {
    name: "envoy.filters.http.ratelimit",
    typed_config: {
      "@type": "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit",
      domain: "team",
      timeout: "1s",
      failure_mode_deny: true,
      rate_limit_service: { transport_api_version: "V3", grpc_service: { envoy_grpc: { cluster_name: "limits" } } },
    },
  };
  const router = {
    name: "envoy.filters.http.router",
    typed_config: { "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router" },
  };
  const byUser = { actions: [{ request_headers: { header_name: "x-user", descriptor_key: "user" } }] };
  const manager = {
    "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    stat_prefix: "front",
    route_config: {
      virtual_hosts: [
        {
          name: "all",
          domains: ["*"],
          routes: [{ match: { prefix: "/" }, route: { cluster: "llm", rate_limits: [byUser] } }],
        },
      ],
    },
    http_filters: [rateLimit, router],
  };
  return stringify({
    static_resources: {
      listeners: [
        {
          address: { socket_address: { address: "0.0.0.0", port_value: 8080 } },
          filter_chains: [
            { filters: [{ name: "envoy.filters.network.http_connection_manager", typed_config: manager }] },
          ],
        },
      ],
      clusters: [
        cluster("llm", "mock-llm.default.svc.cluster.local", 8089, false),
        cluster("limits", service, 8081, true),
      ],
    },
  });
}

test("a real Envoy calls the bundled service", async () => {
  const args = ["--config-path", "/etc/envoy/config/envoy.yaml", "--concurrency", "1", "--use-dynamic-base-id"];
  const files = { "envoy.yaml": envoyConfig() };
  await apply(
    namespace,
    ...program({ name: "envoy", image: envoyImage, port: 8080, args, files, nodePort: testPort.node }),
  );
  await rolledOut(namespace, "envoy");
  const request = { path: "/v1/models", headers: { "x-user": `envoy-${Date.now()}` } };
  await eventually("Envoy responds", async () => {
    const [response] = await sendMany(1, { path: "/v1/models" });
    return response?.status === 200 ? true : undefined;
  });
  const responses = await sendMany(20, request);
  expect(tally(responses)).toEqual({ 200: limit, 429: 20 - limit });
  expect(responses.find(({ status }) => status === 429)?.headers).toMatchObject({ "x-envoy-ratelimited": "true" });
  await kubectl(["-n", namespace, "delete", "deployment,service,configmap", "envoy", "--wait"]);
});
