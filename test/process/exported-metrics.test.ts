/**
 * The metrics of the proxy and of the rate limit service in a real OpenTelemetry Collector, beside what Prometheus
 * sees, and the proxy with a collector that is not there.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { newSpanId, newTraceId } from "@gatewayproxy/runtime/ids";
import { renderTraceparent } from "@gatewayproxy/runtime/trace-context";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, onTestFinished, test } from "vitest";
import { startMockLlm } from "../../examples/mock-llm/src/mock-llm.ts";
import { type Collector, type ReceivedMetric, type ReceivedPoint, startCollector } from "../support/collector.ts";
import { describeWith } from "../support/describe-with.ts";
import { freePort } from "../support/free-port.ts";
import { gatewayManifest, manifests, routeManifest } from "../support/gateway.ts";
import { byAddress, globalPolicy } from "../support/global-policy.ts";
import { type ProxyProcess, spawnProxy, startProxy } from "../support/proxy-process.ts";
import { startRateLimitService } from "../support/ratelimit-process.ts";

type Variables = Readonly<Record<string, string>>;

async function limitsFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "gatewayproxy-limits-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const limit = "{ unit: hour, requests_per_unit: 10 }";
  await writeFile(
    join(folder, "chat.yaml"),
    `domain: chat\ndescriptors:\n  - key: remote_address\n    rate_limit: ${limit}\n`,
  );
  return folder;
}

/** A proxy with an LLM provider, and a limit of a rate limit service. */
async function serve(env: Variables, more: readonly string[] = []): Promise<{ proxy: ProxyProcess; url: string }> {
  const mock = await startMockLlm({ port: 0, host: "127.0.0.1" });
  onTestFinished(() => mock.close());
  const port = await freePort();
  const text = manifests(
    gatewayManifest().replace("port: 80", `port: ${port}`),
    `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: {} }, host: 127.0.0.1, port: ${mock.port} } }
`,
    routeManifest("chat", ["backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: llm }]"]),
    ...more,
  );
  const args = ["--listen-address", "127.0.0.1", "--workers", "2"];
  const proxy = await startProxy({ "all.yaml": text }, args, { DRAIN_DELAY: "0ms", ...env });
  return { proxy, url: `http://127.0.0.1:${port}/v1/chat/completions` };
}

function complete(url: string, traceId: string): Promise<Response> {
  return fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", traceparent: renderTraceparent(traceId, newSpanId(), true) },
    body: JSON.stringify({ model: "gpt-5", stream: true, messages: [{ role: "user", content: "Hi" }] }),
  });
}

/** The last export of a metric. */
async function metricOf(collector: Collector, service: string, name: string): Promise<ReceivedMetric | undefined> {
  const metrics = await collector.metrics();
  return metrics.findLast((metric) => metric.service === service && metric.name === name);
}

const attributesOf = ({ attributes = [] }: ReceivedPoint) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue]));

const sumOf = (metric: ReceivedMetric | undefined): number =>
  (metric?.sum?.dataPoints ?? []).reduce((sum, { asDouble = 0 }) => sum + asDouble, 0);

async function scraped({ stats }: ProxyProcess, accept = "text/plain"): Promise<string> {
  return (await fetch(`${stats}/metrics`, { headers: { accept } })).text();
}

describeWith(["otelcol"], "metrics in a real collector", ({ otelcol }) => {
  test.each(["http/protobuf", "grpc"] as const)(
    "are those that Prometheus gets from both programs, with the last traces, by %s",
    async (protocol) => {
      const collector = await startCollector(otelcol);
      const env = {
        OTEL_METRICS_EXPORTER: "otlp",
        OTEL_TRACES_EXPORTER: "otlp",
        OTEL_EXPORTER_OTLP_ENDPOINT: protocol === "grpc" ? collector.grpc : collector.http,
        OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
        OTEL_METRIC_EXPORT_INTERVAL: "200",
        OTEL_BSP_SCHEDULE_DELAY: "20",
      };
      const limits = await startRateLimitService(await limitsFolder(), env);
      onTestFinished(() => limits.kill());
      const { proxy, url } = await serve(env, [globalPolicy(`address: '127.0.0.1:${limits.grpcPort}', ${byAddress}`)]);
      const traceId = newTraceId();
      const response = await complete(url, traceId);
      expect([response.status, (await response.text()).length > 0]).toEqual([200, true]);
      await waitFor(
        async () => {
          expect(sumOf(await metricOf(collector, "gateway-proxy", "gateway_proxy_http_requests_total"))).toBe(1);
          const hits = await metricOf(collector, "RateLimit", "ratelimit_service_rate_limit_total_hits");
          expect(sumOf(hits)).toBe(1);
        },
        { timeout: 30_000, interval: 100 },
      );

      const requests = await metricOf(collector, "gateway-proxy", "gateway_proxy_http_requests_total");
      expect(requests?.sum).toMatchObject({ isMonotonic: true, aggregationTemporality: 2 });
      expect(requests?.sum?.dataPoints.map(attributesOf)).toEqual([
        {
          listener: "default/web/http",
          route: "default/chat",
          backend: "Backend/default/llm",
          method: "POST",
          code: "200",
        },
      ]);
      const firstToken = await metricOf(collector, "gateway-proxy", "gen_ai.server.time_to_first_token");
      expect(firstToken?.unit).toBe("s");
      expect(firstToken?.histogram?.dataPoints).toMatchObject([{ count: "1" }]);
      expect(firstToken?.histogram?.dataPoints.map(attributesOf)).toMatchObject([
        {
          "gen_ai.operation.name": "chat",
          "gen_ai.provider.name": "openai",
          "gatewayproxy.backend": "Backend/default/llm",
        },
      ]);

      const exemplars = async (service: string, name: string) => {
        const metrics = (await collector.metrics()).filter(
          (metric) => metric.service === service && metric.name === name,
        );
        return metrics
          .flatMap(({ histogram }) => histogram?.dataPoints ?? [])
          .flatMap((point) => point.exemplars ?? []);
      };
      for (const [service, name] of [
        ["gateway-proxy", "gateway_proxy_http_request_duration_seconds"],
        ["gateway-proxy", "gen_ai.server.request.duration"],
        ["RateLimit", "ratelimit_service_response_time_seconds"],
      ] as const) {
        const found = await exemplars(service, name);
        expect(new Set(found.map((exemplar) => exemplar.traceId)), name).toEqual(new Set([traceId]));
        // Spans and metrics are exported independently.
        const spanIds = async () => (await collector.spans()).map(({ spanId }) => spanId);
        await expect.poll(spanIds).toContain(found[0]?.spanId);
      }

      // Everything that Prometheus sees is exported, under its name there.
      const text = await scraped(proxy);
      const names = [...text.matchAll(/^# TYPE (\w+)/gm)].flatMap(([, name = ""]) => name);
      const series = names.filter((name) => new RegExp(`^${name}(?:_count)?[ {]`, "m").test(text));
      const exported = (await collector.metrics()).map(({ name }) => name.replaceAll(".", "_"));
      const isExported = (name: string) => exported.includes(name) || exported.includes(name.replace(/_seconds$/, ""));
      expect(series.length).toBeGreaterThan(40);
      // The count of exports follows the first one.
      await waitFor(async () => {
        exported.push(...(await collector.metrics()).map(({ name }) => name));
        expect(series.filter((name) => !isExported(name))).toEqual([]);
      });
      expect(await scraped(proxy, "application/openmetrics-text")).toContain(`# {trace_id="${traceId}",span_id="`);
      expect(text).not.toContain("trace_id");
    },
    120_000,
  );

  test("have the last requests of a process that ends, and with the latest conventions their names", async () => {
    const collector = await startCollector(otelcol);
    const { proxy, url } = await serve({
      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `${collector.http}/v1/metrics`,
      OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: "delta",
      OTEL_SEMCONV_STABILITY_OPT_IN: "gen_ai_latest_experimental",
    });
    for (let n = 0; n < 5; n++) await (await complete(url, newTraceId())).text();
    proxy.kill("SIGTERM");
    await proxy.exited;
    const requests = await waitFor(async () => {
      const metric = await metricOf(collector, "gateway-proxy", "gateway_proxy_http_requests_total");
      expect(metric).toBeDefined();
      return metric;
    });
    expect([sumOf(requests), requests?.sum?.aggregationTemporality]).toEqual([5, 1]);
    const names = new Set((await collector.metrics()).map(({ name }) => name));
    expect(names).toContain("gen_ai.client.inference.duration");
    expect(names).not.toContain("gen_ai.client.operation.duration");
    expect(await collector.spans()).toEqual([]);
  }, 120_000);

  test("have exponential histograms, from both programs, where a variable says so", async () => {
    const collector = await startCollector(otelcol);
    const env = {
      OTEL_METRICS_EXPORTER: "otlp",
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.http,
      OTEL_METRIC_EXPORT_INTERVAL: "200",
      OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION: "base2_exponential_bucket_histogram",
    };
    const limits = await startRateLimitService(await limitsFolder(), env);
    onTestFinished(() => limits.kill());
    const { url } = await serve(env, [globalPolicy(`address: '127.0.0.1:${limits.grpcPort}', ${byAddress}`)]);
    for (let n = 0; n < 5; n++) await (await complete(url, newTraceId())).text();
    for (const [service, name] of [
      ["gateway-proxy", "gateway_proxy_http_request_duration_seconds"],
      ["gateway-proxy", "gen_ai.server.request.duration"],
      ["RateLimit", "ratelimit_service_response_time_seconds"],
    ] as const) {
      await waitFor(
        async () => {
          const { histogram, exponentialHistogram } = (await metricOf(collector, service, name)) ?? {};
          const points = exponentialHistogram?.dataPoints ?? [];
          expect(histogram).toBeUndefined();
          expect(exponentialHistogram?.aggregationTemporality).toBe(2);
          expect(points).toMatchObject([{ count: "5" }]);
          for (const { positive, zeroCount = "0" } of points) {
            const counts = positive?.bucketCounts ?? [];
            expect(counts.map(Number).reduce((sum, count) => sum + count, Number(zeroCount))).toBe(5);
          }
        },
        { timeout: 30_000, interval: 100 },
      );
    }
  }, 120_000);
});

describe("a collector that is not there", () => {
  const failures = (text: string): number =>
    Number(/^gateway_proxy_metric_exports_total\{outcome="failed"\} (\d+)$/m.exec(text)?.[1] ?? 0);

  test("costs no request anything, and the log says so", async () => {
    const { proxy, url } = await serve({
      OTEL_METRICS_EXPORTER: "otlp",
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${await freePort()}`,
      OTEL_EXPORTER_OTLP_TIMEOUT: "100",
      OTEL_METRIC_EXPORT_INTERVAL: "50",
    });
    await waitFor(async () => expect(failures(await scraped(proxy))).toBeGreaterThan(1), { timeout: 30_000 });
    expect((await complete(url, newTraceId())).status).toBe(200);
    const line = await proxy.logged(({ msg }) => msg === "metrics cannot be exported");
    expect(line).toMatchObject({ level: "warn", module: "proxy::metrics" });
    proxy.kill("SIGTERM");
    expect(await proxy.exited).toBe(0);
  }, 60_000);

  test("or never responds: one export at a time waits for it", async () => {
    const silent = createServer();
    let connections = 0;
    silent.on("connection", () => connections++);
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void silent.close());
    const address = silent.address();
    const { proxy, url } = await serve({
      OTEL_METRICS_EXPORTER: "otlp",
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`,
      OTEL_METRIC_EXPORT_INTERVAL: "300",
    });
    await waitFor(async () => expect(failures(await scraped(proxy))).toBeGreaterThan(1), { timeout: 30_000 });
    expect(connections).toBeLessThanOrEqual(failures(await scraped(proxy)) + 2);
    expect((await complete(url, newTraceId())).status).toBe(200);
  }, 60_000);
});

test("an invalid variable prevents the start", async () => {
  const env = { OTEL_METRICS_EXPORTER: "otlp", OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: "both" };
  const proxy = await spawnProxy({}, [], env);
  expect(await proxy.exited).not.toBe(0);
  expect(proxy.stderr()).toContain(
    'OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: "both" is not one of cumulative, delta, lowmemory',
  );
}, 60_000);
