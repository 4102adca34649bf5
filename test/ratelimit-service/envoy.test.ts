/**
 * A real Envoy in front: it calls the bundled service for every request, as the gateways do whose rate limit service it
 * replaces.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { describeWith } from "../support/describe-with.ts";
import { freePort } from "../support/free-port.ts";
import { type Environment, startRateLimitService } from "../support/ratelimit-process.ts";

const limits = `
domain: edge
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 3}
`;

interface EdgePorts {
  readonly port: number;
  readonly adminPort: number;
  readonly grpcPort: number;
  readonly backendPort: number;
}

/** One listener that calls the service on `grpcPort` with the header x-user before it forwards to the backend. */
function envoyConfig({ port, adminPort, grpcPort, backendPort }: EdgePorts, ownHeaders: boolean): string {
  const address = (at: number) => ({ socket_address: { address: "127.0.0.1", port_value: at } });
  const filter = (name: string, type: string, fields: object) => ({
    name,
    typed_config: { "@type": `type.googleapis.com/${type}`, ...fields },
  });
  const rateLimit = filter("envoy.filters.http.ratelimit", "envoy.extensions.filters.http.ratelimit.v3.RateLimit", {
    domain: "edge",
    timeout: "2s",
    failure_mode_deny: true,
    enable_x_ratelimit_headers: ownHeaders ? "DRAFT_VERSION_03" : "OFF",
    rate_limit_service: { transport_api_version: "V3", grpc_service: { envoy_grpc: { cluster_name: "ratelimit" } } },
  });
  const router = filter("envoy.filters.http.router", "envoy.extensions.filters.http.router.v3.Router", {});
  const actions = [{ request_headers: { header_name: "x-user", descriptor_key: "user" } }];
  const route = { match: { prefix: "/" }, route: { cluster: "backend" } };
  const manager = filter(
    "envoy.filters.network.http_connection_manager",
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    {
      stat_prefix: "edge",
      http_filters: [rateLimit, router],
      route_config: {
        virtual_hosts: [{ name: "all", domains: ["*"], rate_limits: [{ actions }], routes: [route] }],
      },
    },
  );
  const http2 = { explicit_http_config: { http2_protocol_options: {} } };
  const options = {
    "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
    ...http2,
  };
  const cluster = (name: string, at: number, fields: object) => ({
    name,
    type: "STATIC",
    load_assignment: {
      cluster_name: name,
      endpoints: [{ lb_endpoints: [{ endpoint: { address: address(at) } }] }],
    },
    ...fields,
  });
  // JSON is YAML.
  return JSON.stringify({
    admin: { address: address(adminPort) },
    static_resources: {
      listeners: [{ name: "edge", address: address(port), filter_chains: [{ filters: [manager] }] }],
      clusters: [
        cluster("backend", backendPort, {}),
        cluster("ratelimit", grpcPort, {
          typed_extension_protocol_options: { "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options },
        }),
      ],
    },
  });
}

interface TestResponse {
  readonly status: number | undefined;
  /** Every header line, duplicates included. */
  readonly headers: readonly (readonly [string, string])[];
}

function get(port: number, user: string): Promise<TestResponse> {
  return new Promise((resolve, reject) => {
    const sent = request({ port, host: "127.0.0.1", headers: { "x-user": user } }, (response) => {
      const raw = response.rawHeaders;
      const headers = raw.flatMap((name, at) =>
        at % 2 === 0 ? [[name.toLowerCase(), raw[at + 1] ?? ""] as const] : [],
      );
      response.resume();
      response.on("end", () => resolve({ status: response.statusCode, headers }));
    });
    sent.on("error", reject);
    sent.end();
  });
}

const limitHeaders = ({ headers }: TestResponse) =>
  headers.filter(([name]) => /^x-(envoy-)?ratelimit/.test(name)).sort();

describeWith(["envoy"], "behind Envoy", ({ envoy }) => {
  async function start(ownHeaders: boolean, env: Environment) {
    const folder = await mkdtemp(join(tmpdir(), "envoy-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    await mkdir(join(folder, "limits"));
    await writeFile(join(folder, "limits", "edge.yaml"), limits);
    const service = await startRateLimitService(join(folder, "limits"), env);
    onTestFinished(() => service.kill());
    const backend = createServer((_, res) => res.end("served")).listen(0, "127.0.0.1");
    onTestFinished(() => void backend.close());
    await once(backend, "listening");
    // A listening TCP server has an address with a port.
    const { port: backendPort } = backend.address() as AddressInfo;
    const [port, adminPort] = [await freePort(), await freePort()];
    const file = join(folder, "envoy.json");
    const ports = { port, adminPort, grpcPort: service.grpcPort, backendPort };
    await writeFile(file, envoyConfig(ports, ownHeaders));
    const child = spawn(envoy, ["-c", file, "--concurrency", "1", "--disable-hot-restart", "-l", "error"], {
      stdio: "ignore",
    });
    onTestFinished(async () => {
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
    });
    for (;;) {
      const isReady = await fetch(`http://127.0.0.1:${adminPort}/ready`).then(
        ({ ok }) => ok,
        () => false,
      );
      if (isReady) return { port, service };
      if (child.exitCode !== null) throw new Error("Envoy did not start");
      await sleep(50);
    }
  }

  test.each([
    ["by the service, and forwarded by Envoy", false, {}],
    ["by Envoy itself, while the service sends none", true, { RESPONSE_HEADERS: "off" }],
  ])("limits requests; each header is sent once, added %s", { timeout: 60_000 }, async (_, ownHeaders, env) => {
    const { port } = await start(ownHeaders, env);
    const responses = [];
    for (let call = 0; call < 5; call++) responses.push(await get(port, "ada"));

    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 429, 429]);
    const reset = expect.stringMatching(/^\d{1,5}$/) as string;
    expect(responses[0] && limitHeaders(responses[0])).toEqual([
      ["x-ratelimit-limit", "3, 3;w=86400"],
      ["x-ratelimit-remaining", "2"],
      ["x-ratelimit-reset", reset],
    ]);
    expect(responses[4] && limitHeaders(responses[4])).toEqual([
      ["x-envoy-ratelimited", "true"],
      ["x-ratelimit-limit", "3, 3;w=86400"],
      ["x-ratelimit-remaining", "0"],
      ["x-ratelimit-reset", reset],
    ]);
    expect((await get(port, "grace")).status).toBe(200);
  });

  test("responds to many concurrent requests, each counted once", { timeout: 60_000 }, async () => {
    const { port, service } = await start(false, {});
    const users = Array.from({ length: 100 }, (_, index) => `user-${index}`);
    const responses = await Promise.all(
      users.flatMap((user) => [get(port, user), get(port, user), get(port, user), get(port, user)]),
    );
    const stats = await (await fetch(`${service.debug}/stats`)).text();

    expect(responses.filter(({ status }) => status === 200)).toHaveLength(300);
    expect(responses.filter(({ status }) => status === 429)).toHaveLength(100);
    expect(stats).toContain("ratelimit.service.rate_limit.edge.user.total_hits: 400\n");
  });
});
