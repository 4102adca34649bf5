/** Opens the export of spans in one thread. */
import { systemClock } from "@gatewayproxy/runtime/clock";
import { LineLimit } from "@gatewayproxy/runtime/line-limit";
import type { Logger } from "@gatewayproxy/runtime/log";
import { redactText } from "@gatewayproxy/runtime/redaction";
import type { TracingSettings } from "@gatewayproxy/runtime/tracing-settings";
import { readVersion } from "@gatewayproxy/runtime/version";
import { ServiceTracing, type SpanCounts } from "../tracing/service-tracing.ts";

/** Loads the exporter, which no other process needs, and opens it. @param log of `ratelimit::tracing`. */
export async function openServiceTracing(settings: TracingSettings, log: Logger): Promise<ServiceTracing> {
  const { openTracing } = await import("@gatewayproxy/runtime/open-tracing");
  const lines = new LineLimit(systemClock, 1);
  const spans: SpanCounts = { exported: 0, failed: 0, dropped: 0 };
  const opened = await openTracing(settings, {
    name: "ratelimit-service",
    version: readVersion(new URL("../../package.json", import.meta.url)),
    random: Math.random,
    observer: {
      spansEnded(outcome, count) {
        spans[outcome] += count;
        log.debug({ outcome, spans: count }, "spans ended");
      },
      problem(error) {
        lines.log((omitted) => log.warn({ error: redactText(error), omitted }, "spans cannot be exported"));
      },
    },
  });
  return new ServiceTracing(opened, systemClock, spans);
}
