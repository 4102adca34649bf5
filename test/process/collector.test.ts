/**
 * A trace from end to end, in a real OpenTelemetry Collector: it begins in a client, and crosses the proxy, the rate limit
 * service and a backend, each with spans of its own.
 */
import { expect, test, vi } from "vitest";
import { startCollector } from "../support/collector.ts";
import { describeWith } from "../support/describe-with.ts";
import { startTracedPrograms, treeOf, wholeTrace } from "../support/traced-programs.ts";

describeWith(["otelcol"], "a trace in a real collector", ({ otelcol }) => {
  test.each(["http/protobuf", "grpc"] as const)(
    "is whole, by %s",
    async (protocol) => {
      const collector = await startCollector(otelcol);
      const { url, request } = await startTracedPrograms({
        OTEL_EXPORTER_OTLP_ENDPOINT: protocol === "grpc" ? collector.grpc : collector.http,
        OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
      });
      const traceId = await request(async (traceparent) => {
        expect((await fetch(url, { headers: { traceparent } })).status).toBe(200);
      });
      await vi.waitFor(
        async () => {
          const spans = (await collector.spans()).filter((each) => each.traceId === traceId);
          const received = spans.map((each) => ({ ...each, start: BigInt(each.startTimeUnixNano) }));
          expect(treeOf(received)).toEqual(wholeTrace);
        },
        { timeout: 60_000, interval: 100 },
      );
      const loads = (await collector.spans()).filter(({ name }) => name === "load configuration");
      expect(loads.map(({ service }) => service)).toEqual(["RateLimit"]);
    },
    120_000,
  );
});
