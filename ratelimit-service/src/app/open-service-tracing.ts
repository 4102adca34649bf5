/** Opens the export of spans in one thread. */
import { systemClock } from "@gatewayproxy/runtime/clock";
import type { ExportCounts } from "@gatewayproxy/runtime/export-observer";
import type { Logger } from "@gatewayproxy/runtime/log";
import { openSender } from "@gatewayproxy/runtime/open-sender";
import type { TracingSettings } from "@gatewayproxy/runtime/tracing-settings";
import { readVersion } from "@gatewayproxy/runtime/version";
import { ServiceTracing } from "../tracing/service-tracing.ts";

/**
 * Loads the exporter, which no other process needs, and opens it.
 *
 * @param log of `ratelimit::tracing`.
 * @param onProblem called with a problem of an exporter.
 */
export async function openServiceTracing(
  settings: TracingSettings,
  log: Logger,
  onProblem: (message: string) => void,
): Promise<ServiceTracing> {
  const { openTracing } = await import("@gatewayproxy/runtime/open-tracing");
  const spans: ExportCounts = { exported: 0, failed: 0, dropped: 0 };
  const opened = await openTracing(settings, {
    name: "ratelimit-service",
    version: readVersion(new URL("../../package.json", import.meta.url)),
    random: Math.random,
    openSender,
    observer: {
      ended(outcome, count) {
        spans[outcome] += count;
        log.debug({ outcome, spans: count }, "spans ended");
      },
      problem: onProblem,
    },
  });
  return new ServiceTracing(opened, systemClock, spans);
}
