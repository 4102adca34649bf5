/** Native histograms of all programs, as Prometheus reads them. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { newSpanId, newTraceId } from "@gatewayproxy/runtime/ids";
import { expositionContentTypes } from "@gatewayproxy/runtime/exposition";
import { familiesOf } from "@gatewayproxy/runtime/metric-families";
import { createFamilies, keepNative, takeSnapshot } from "@gatewayproxy/runtime/metrics";
import { renderProtobuf } from "@gatewayproxy/runtime/protobuf-exposition";
import { renderTraceparent } from "@gatewayproxy/runtime/trace-context";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import { describeWith } from "../support/describe-with.ts";
import { freePort } from "../support/free-port.ts";
import { backendManifest, backendRef, gatewayManifest, manifests, routeManifest } from "../support/gateway.ts";
import { byAddress, globalPolicy } from "../support/global-policy.ts";
import { histogramsOf, readPage, scrapeNative } from "../support/promread.ts";
import { startProxy } from "../support/proxy-process.ts";
import { startRateLimitService } from "../support/ratelimit-process.ts";

const duration = "gateway_proxy_http_request_duration_seconds";

describeWith(["promread"], "native histograms, read by Prometheus", ({ promread }) => {
  test("are beside the classic ones of both programs, from the first scrape that asks for them", async () => {
    const folder = await mkdtemp(join(tmpdir(), "gatewayproxy-limits-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const limit = "{ unit: hour, requests_per_unit: 1000 }";
    const descriptors = `descriptors:\n  - key: remote_address\n    rate_limit: ${limit}\n`;
    await writeFile(join(folder, "chat.yaml"), `domain: chat\n${descriptors}`);
    const limits = await startRateLimitService(folder, { WORKERS: "2" });
    onTestFinished(() => limits.kill());
    const backend = await startBackend(respondWith(200, "hello"));
    const [port, collector] = [await freePort(), await freePort()];
    const text = manifests(
      gatewayManifest().replace("port: 80", `port: ${port}`),
      backendManifest("b", backend.port),
      routeManifest("chat", [`{ backendRefs: [${backendRef("b")}] }`]),
      globalPolicy(`address: '127.0.0.1:${limits.grpcPort}', ${byAddress}`),
    );
    const args = ["--listen-address", "127.0.0.1", "--workers", "2"];
    // Only exported spans are exemplars; that no collector takes them is of no importance.
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${collector}` };
    const proxy = await startProxy({ "all.yaml": text }, args, env);
    const traceId = newTraceId();
    const send = async (count: number): Promise<void> => {
      const headers = { traceparent: renderTraceparent(traceId, newSpanId(), true), connection: "close" };
      const statuses = await Promise.all(
        Array.from({ length: count }, async () => (await fetch(`http://127.0.0.1:${port}/`, { headers })).status),
      );
      expect(new Set(statuses)).toEqual(new Set([200]));
    };
    const [ofProxy, ofLimits] = [`${proxy.stats}/metrics`, `${limits.debug}/metrics`];
    const counted = async (expected: number) => {
      const page = await scrapeNative(promread, ofProxy);
      const [requests, ...others] = histogramsOf(page, duration);
      expect(others).toEqual([]);
      expect(requests).toMatchObject({ schema: 3, count: expected });
      const listener = 'listener="default/web/http"';
      expect(page.series[`${duration}_count{${listener}}`]).toBe(expected);
      expect(page.series[`${duration}_bucket{le="+Inf", ${listener}}`]).toBe(expected);
      expect(page.series[`${duration}_sum{${listener}}`]).toBe(requests?.sum);
      return { page, requests };
    };

    await send(7);
    expect(await (await fetch(ofProxy)).text()).toContain(`${duration}_count{listener="default/web/http"} 7`);
    // Those before are in the buckets of their bounds.
    const before = await counted(7);
    await send(20);
    const { page, requests } = await counted(27);
    expect(requests?.buckets.length).toBeGreaterThan(before.requests?.buckets.length ?? 0);
    expect(requests?.exemplars.map((exemplar) => exemplar["trace_id"])).toContain(traceId);
    for (const name of [
      "gateway_proxy_upstream_response_seconds",
      "gateway_proxy_global_limit_call_duration_seconds",
    ]) {
      expect(histogramsOf(page, name), name).toMatchObject([{ count: 27 }]);
    }
    // A gauge of the process, and a counter, are on the same page.
    expect(Object.keys(page.series).join("\n")).toMatch(/^process_resident_memory_bytes\{/m);
    expect(Object.keys(page.series).join("\n")).toMatch(/^gateway_proxy_http_requests_total\{/m);
    const calls = async () =>
      histogramsOf(await scrapeNative(promread, ofLimits), "ratelimit_service_response_time_seconds");
    expect(await calls()).toMatchObject([{ count: 27 }]);
    await send(3);
    expect(await calls()).toMatchObject([{ count: 30, schema: 3 }]);
  }, 120_000);

  test("have quantiles that are at most 9.1 % from the exact ones", () => {
    const table = {
      duration: { name: "d_seconds", type: "histogram", help: "D.", labels: ["series"], buckets: [0.01, 1] },
    } as const;
    const quantiles = ["0.5", "0.9", "0.99"] as const;
    const durations = fc.array(fc.double({ min: 1e-4, max: 300, noNaN: true }), { minLength: 1, maxLength: 300 });
    fc.assert(
      fc.property(fc.array(durations, { minLength: 1, maxLength: 100 }), (series) => {
        const families = createFamilies(table);
        keepNative(families);
        for (const [at, values] of series.entries()) {
          for (const value of values) families.duration.cell(at).observe(value);
        }
        const page = renderProtobuf(familiesOf(table, [takeSnapshot(families)]));
        const read = histogramsOf(readPage(promread, expositionContentTypes.protobuf, page), "d_seconds");
        expect(read).toHaveLength(series.length);
        for (const [at, values] of series.entries()) {
          const histogram = read.find(({ labels }) => labels["series"] === String(at));
          expect(histogram).toMatchObject({ count: values.length, schema: 3 });
          const sorted = values.toSorted((a, b) => a - b);
          for (const quantile of quantiles) {
            // Between two values, any quantile is exact.
            const rank = Number(quantile) * values.length;
            const exact = [sorted[Math.ceil(rank) - 1], sorted[Math.min(values.length - 1, Math.floor(rank))]];
            const [low = Number.NaN, high = Number.NaN] = exact;
            expect(histogram?.quantiles[quantile]).toBeGreaterThan(low / 1.0906);
            expect(histogram?.quantiles[quantile]).toBeLessThan(high * 1.0906);
          }
        }
      }),
      { numRuns: 20 },
    );
  }, 120_000);
});
