/**
 * A trace from end to end, in a real OpenTelemetry Collector: it begins in a client, and crosses the proxy, the rate limit
 * service and a backend, each with spans of its own.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { newSpanId, newTraceId } from "@gatewayproxy/runtime/ids";
import { openTracing, type Tracing } from "@gatewayproxy/runtime/open-tracing";
import { parseTraceparent, renderTraceparent } from "@gatewayproxy/runtime/trace-context";
import { readTracingSettings } from "@gatewayproxy/runtime/tracing-settings";
import { expect, onTestFinished, test, vi } from "vitest";
import { startBackend } from "../support/backend.ts";
import { type ReceivedSpan, startCollector } from "../support/collector.ts";
import { describeWith } from "../support/describe-with.ts";
import { freePort } from "../support/free-port.ts";
import { backendManifest, backendRef, gatewayManifest, manifests, routeManifest } from "../support/gateway.ts";
import { byAddress, globalPolicy } from "../support/global-policy.ts";
import { startProxy } from "../support/proxy-process.ts";
import { startRateLimitService } from "../support/ratelimit-process.ts";

/** Exports spans of a program that is in this process. */
async function tracingOf(service: string, env: Readonly<Record<string, string>>): Promise<Tracing> {
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  const read = readTracingSettings(env, { endpointSwitchesOn: true, resource: { "service.name": service } });
  if (!read.ok || read.value === undefined) throw new Error(JSON.stringify(read));
  const observer = { spansEnded: () => undefined, problem: (message: string) => console.error(message) };
  const tracing = await openTracing(read.value, { name: service, version: "1", random: Math.random, observer });
  onTestFinished(async () => {
    vi.unstubAllEnvs();
    await tracing.sink.close(1_000);
  });
  return tracing;
}

function span(name: string, kind: "client" | "server", traceId: string, spanId: string, parentSpanId?: string) {
  const [startMs, endMs] = [Date.now(), Date.now() + 1];
  const place = { traceId, spanId, parentSpanId, isParentRemote: kind === "server", tracestate: undefined };
  return { name, kind, ...place, startMs, endMs, isError: false, attributes: {} };
}

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

/** `service: name` of a span and of those below it. */
function tree(spans: readonly ReceivedSpan[], parentSpanId = ""): readonly unknown[] {
  return spans
    .filter((each) => (each.parentSpanId ?? "") === parentSpanId)
    .toSorted((a, b) => Number(BigInt(a.startTimeUnixNano) - BigInt(b.startTimeUnixNano)))
    .map(({ service, name, spanId }) => [`${service}: ${name}`, ...tree(spans, spanId)]);
}

describeWith(["otelcol"], "a trace in a real collector", ({ otelcol }) => {
  test.each(["http/protobuf", "grpc"] as const)(
    "is whole, by %s",
    async (protocol) => {
      const collector = await startCollector(otelcol);
      const env = {
        OTEL_EXPORTER_OTLP_ENDPOINT: protocol === "grpc" ? collector.grpc : collector.http,
        OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
        OTEL_BSP_SCHEDULE_DELAY: "20",
      };
      const [client, backend] = [await tracingOf("client", env), await tracingOf("backend", env)];
      const upstream = await startBackend((request, response) => {
        const parent = parseTraceparent(request.headers["traceparent"] as string | undefined);
        if (parent !== undefined) {
          backend.sink.add([span("GET /items", "server", parent.traceId, newSpanId(), parent.spanId)]);
        }
        response.end("hello");
      });
      const limits = await startRateLimitService(await limitsFolder(), { ...env, TRACING_ENABLED: "true" });
      onTestFinished(() => limits.kill());
      const port = await freePort();
      const text = manifests(
        gatewayManifest().replace("port: 80", `port: ${port}`),
        backendManifest("b", upstream.port),
        routeManifest("chat", [`{ backendRefs: [${backendRef("b")}] }`]),
        globalPolicy(`address: '127.0.0.1:${limits.grpcPort}', ${byAddress}`),
      );
      await startProxy({ "all.yaml": text }, ["--listen-address", "127.0.0.1", "--workers", "1"], env);
      const [traceId, spanId] = [newTraceId(), newSpanId()];
      const headers = { traceparent: renderTraceparent(traceId, spanId, true) };
      expect((await fetch(`http://127.0.0.1:${port}/items`, { headers })).status).toBe(200);
      client.sink.add([span("GET", "client", traceId, spanId)]);
      const method = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
      await vi.waitFor(
        async () => {
          const received = (await collector.spans()).filter((each) => each.traceId === traceId);
          expect(tree(received)).toEqual([
            [
              "client: GET",
              [
                "gateway-proxy: GET /",
                [`gateway-proxy: ${method}`, [`RateLimit: ${method}`, ["RateLimit: count memory"]]],
                ["gateway-proxy: GET", ["backend: GET /items"]],
              ],
            ],
          ]);
        },
        { timeout: 60_000, interval: 100 },
      );
      const loads = (await collector.spans()).filter(({ name }) => name === "load configuration");
      expect(loads.map(({ service }) => service)).toEqual(["RateLimit"]);
    },
    120_000,
  );
});
