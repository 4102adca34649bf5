/**
 * The logs of the proxy and of the rate limit service, exported by OTLP: to a real collector, and to one that is not
 * there.
 */
import { once } from "node:events";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { expect, onTestFinished, test, vi } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import { type ReceivedLogRecord, startCollector } from "../support/collector.ts";
import { describeWith } from "../support/describe-with.ts";
import { freePort } from "../support/free-port.ts";
import { backendManifest, backendRef, gatewayManifest, manifests, routeManifest } from "../support/gateway.ts";
import { type LogLine, type ProxyProcess, startProxy } from "../support/proxy-process.ts";
import { type RateLimitService, startRateLimitService } from "../support/ratelimit-process.ts";
import { limitsFolder, startTracedPrograms } from "../support/traced-programs.ts";

vi.setConfig({ testTimeout: 120_000 });

type Variables = Readonly<Record<string, string>>;

/** Exports logs, and no spans. */
const onlyLogs = { OTEL_LOGS_EXPORTER: "otlp", OTEL_TRACES_EXPORTER: "none", OTEL_BLRP_SCHEDULE_DELAY: "20" };

/** A proxy with a route, without a limit. */
async function serve(args: readonly string[], env: Variables): Promise<{ proxy: ProxyProcess; url: string }> {
  const backend = await startBackend(respondWith(200, "hello"));
  const port = await freePort();
  const text = manifests(
    gatewayManifest().replace("port: 80", `port: ${port}`),
    backendManifest("b", backend.port),
    routeManifest("r", [`{ backendRefs: [${backendRef("b")}] }`]),
  );
  const all = ["--listen-address", "127.0.0.1", "--drain-delay", "0ms", ...args];
  return { proxy: await startProxy({ "all.yaml": text }, all, env), url: `http://127.0.0.1:${port}` };
}

async function startService(env: Variables): Promise<RateLimitService> {
  const service = await startRateLimitService(await limitsFolder(), env);
  onTestFinished(() => service.kill());
  return service;
}

/** Asks the service for a decision, over HTTP. */
async function decide({ http }: RateLimitService): Promise<number> {
  const descriptors = [{ entries: [{ key: "remote_address", value: "1.2.3.4" }] }];
  const body = JSON.stringify({ domain: "chat", descriptors });
  return (await fetch(`${http}/json`, { method: "POST", body })).status;
}

async function sampleOf(url: string, name: string): Promise<number> {
  const text = await (await fetch(url)).text();
  const sample = text.split("\n").find((line) => line.startsWith(`${name} `));
  return Number(sample?.slice(name.length + 1) ?? 0);
}

/** `service scope: body`, or the name of the event in place of the body. */
const titleOf = ({ service, scope, eventName, body }: ReceivedLogRecord): string =>
  `${service} ${scope}: ${eventName ?? body.stringValue ?? ""}`;

describeWith(["otelcol"], "a real collector", ({ otelcol }) => {
  test.each(["http/protobuf", "grpc"] as const)(
    "has the records of a request with the ids of its spans, by %s",
    async (protocol) => {
      const collector = await startCollector(otelcol);
      const { proxy, url, request } = await startTracedPrograms({
        OTEL_EXPORTER_OTLP_ENDPOINT: protocol === "grpc" ? collector.grpc : collector.http,
        OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
        ...{ OTEL_LOGS_EXPORTER: "otlp", OTEL_BLRP_SCHEDULE_DELAY: "20", LOG_LEVEL: "debug" },
      });
      const traceId = await request(async (traceparent) => {
        expect((await fetch(url, { headers: { traceparent } })).status).toBe(200);
      });
      const recordsOf = async (service: string): Promise<readonly ReceivedLogRecord[]> =>
        (await collector.logRecords()).filter((each) => each.service === service && each.traceId === traceId);
      const spanOf = async (service: string) =>
        (await collector.spans()).find(
          (each) => each.service === service && each.traceId === traceId && each.kind === 2,
        );
      await waitFor(
        async () => {
          expect((await recordsOf("gateway-proxy")).map(titleOf)).toEqual(
            expect.arrayContaining([
              "gateway-proxy gateway-proxy: gatewayproxy.request",
              "gateway-proxy proxy::routing: route matched",
              "gateway-proxy proxy::ratelimit: limit allowed",
              "gateway-proxy proxy::upstream: endpoint picked",
              "gateway-proxy proxy::server: request ended",
            ]),
          );
          expect((await recordsOf("RateLimit")).map(titleOf)).toContain("RateLimit ratelimit::grpc: limit allowed");
          expect([await spanOf("gateway-proxy"), await spanOf("RateLimit")]).not.toContain(undefined);
        },
        { timeout: 60_000, interval: 100 },
      );
      for (const service of ["gateway-proxy", "RateLimit"]) {
        const spans = new Set((await recordsOf(service)).map(({ spanId }) => spanId));
        expect(spans).toEqual(new Set([(await spanOf(service))?.spanId]));
      }
      const decision = (await recordsOf("gateway-proxy")).find(({ scope }) => scope === "proxy::ratelimit");
      const line = proxy.log.find(({ trace_id, module }) => trace_id === traceId && module === "proxy::ratelimit");
      expect(decision).toMatchObject({ severityText: "DEBUG", severityNumber: 5 });
      expect(decision?.attributes).toContainEqual({
        key: "gatewayproxy.request_id",
        value: { stringValue: line?.["requestId"] },
      });
      // Lines without a request, of the main thread.
      const all = await collector.logRecords();
      expect(all.map(titleOf)).toEqual(
        expect.arrayContaining(["gateway-proxy proxy::lifecycle: ready", "RateLimit ratelimit::lifecycle: ready"]),
      );
      expect(new Set(all.map(({ scope }) => scope)).has("proxy::tracing")).toBe(false);
      expect(new Set(all.map(({ scope }) => scope)).has("ratelimit::tracing")).toBe(false);
    },
  );

  test("has the lines of the shutdown when the process has ended, also those of worker threads", async () => {
    const collector = await startCollector(otelcol);
    const env = { ...onlyLogs, OTEL_EXPORTER_OTLP_ENDPOINT: collector.http, OTEL_BLRP_SCHEDULE_DELAY: "60000" };
    const { proxy, url } = await serve(["--workers", "1", "--log-level", "debug"], env);
    const service = await startService({ ...env, WORKERS: "2", LOG_LEVEL: "debug" });
    await fetch(url);
    const ended = once(service.child, "exit");
    service.child.kill("SIGTERM");
    proxy.kill("SIGTERM");
    await Promise.all([proxy.exited, ended]);
    await waitFor(
      async () => {
        expect((await collector.logRecords()).map(titleOf)).toEqual(
          expect.arrayContaining([
            "gateway-proxy proxy::lifecycle: stopped",
            "gateway-proxy proxy::server: request ended",
            "RateLimit ratelimit::lifecycle: stopped",
            "RateLimit ratelimit::grpc: grpc server opened",
          ]),
        );
      },
      { timeout: 30_000, interval: 100 },
    );
  });

  test.each([
    ["access", ["gateway-proxy: gatewayproxy.request"], "proxy::lifecycle: stopped"],
    ["application", ["proxy::lifecycle: stopped"], "gateway-proxy: gatewayproxy.request"],
  ])("has only the log that the setting names: %s", async (exported, expected, absent) => {
    const collector = await startCollector(otelcol);
    const env = { ...onlyLogs, OTEL_EXPORTER_OTLP_ENDPOINT: collector.http };
    const { proxy, url } = await serve(["--workers", "1", "--exported-logs", exported], env);
    await fetch(url);
    proxy.kill("SIGTERM");
    await proxy.exited;
    const titles = async () => (await collector.logRecords()).map((each) => titleOf({ ...each, service: "" }).slice(1));
    await waitFor(async () => expect(await titles()).toEqual(expect.arrayContaining(expected)), {
      timeout: 30_000,
      interval: 100,
    });
    expect(await titles()).not.toContain(absent);
  });
});

/** The number of lines about requests, and of those about a failed export. */
const countLines = (lines: readonly LogLine[]) => ({
  ofRequests: lines.filter(({ requestId, msg }) => requestId !== undefined && msg !== "request").length,
  ofExports: lines.filter(({ module }) => module === "proxy::tracing" || module === "ratelimit::tracing").length,
});

test("a collector that is not there costs no request anything: lines are dropped and counted, and all are on stdout", async () => {
  const away = { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${await freePort()}`, OTEL_BLRP_MAX_QUEUE_SIZE: "8" };
  const { proxy, url } = await serve(["--workers", "1", "--log-level", "debug,proxy::tracing=warn"], {
    ...onlyLogs,
    ...away,
  });
  const statuses = await Promise.all(Array.from({ length: 50 }, async () => (await fetch(url)).status));
  expect(new Set(statuses)).toEqual(new Set([200]));
  const dropped = 'gateway_proxy_application_log_records_total{outcome="dropped"}';
  expect(await sampleOf(`${proxy.stats}/metrics`, dropped)).toBeGreaterThan(200);
  proxy.kill("SIGTERM");
  expect(await proxy.exited).toBe(0);
  const lines = countLines(proxy.log);
  expect(lines.ofRequests).toBeGreaterThanOrEqual(50 * 5);
  expect(lines.ofRequests % 50).toBe(0);
  expect(lines.ofExports).toBeLessThan(30);
});

test("nor does it cost a call of the rate limit service", async () => {
  const service = await startService({
    ...{ ...onlyLogs, OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${await freePort()}` },
    ...{ OTEL_BLRP_MAX_QUEUE_SIZE: "8", LOG_LEVEL: "debug,ratelimit::tracing=warn", USE_PROMETHEUS: "true" },
  });
  const statuses = await Promise.all(Array.from({ length: 50 }, () => decide(service)));
  expect(statuses.toSorted()).toEqual([...Array<number>(10).fill(200), ...Array<number>(40).fill(429)]);
  expect(await sampleOf(`${service.debug}/metrics`, "ratelimit_service_log_records_dropped")).toBeGreaterThan(40);
  expect(service.output.filter((line) => /"msg":"limit (allowed|denied)"/.test(line))).toHaveLength(50);
  const lines = countLines(service.output.map((line) => JSON.parse(line) as LogLine));
  expect(lines.ofExports).toBeLessThan(30);
});
