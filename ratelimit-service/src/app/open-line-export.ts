/** Opens the export of the log of one thread by OTLP. */
import type { ExportCounts } from "@gatewayproxy/runtime/export-observer";
import type { Logs } from "@gatewayproxy/runtime/log";
import type { LogExportSettings } from "@gatewayproxy/runtime/log-export-settings";
import { openSender } from "@gatewayproxy/runtime/open-sender";
import { readVersion } from "@gatewayproxy/runtime/version";

/**
 * The module that logs problems of exports by OTLP. Its own lines are not exported, so that a failing export has no
 * end.
 */
const exportModule = "ratelimit::tracing";

/** The lines of one thread that are exported. */
export interface ExportedLines {
  /** What became of them so far. */
  readonly counts: Readonly<ExportCounts>;
  /** Sends what is queued, for some seconds at most. Never rejects. */
  close(): Promise<void>;
}

/** Maximum time for which the end of a thread waits for a collector, in ms. */
const flushMs = 2_000;

/** Loads the exporter, which no process without it needs, and exports all lines of `logs` from now on. */
export async function exportLines(
  settings: LogExportSettings,
  logs: Logs,
  onProblem: (message: string) => void,
): Promise<ExportedLines> {
  const { openLineExporter } = await import("@gatewayproxy/runtime/log-exporter");
  const log = logs.logger("ratelimit::tracing");
  const counts: ExportCounts = { exported: 0, failed: 0, dropped: 0 };
  const version = readVersion(new URL("../../package.json", import.meta.url));
  const exporter = await openLineExporter(settings, { version, attributeNames: {} }, openSender, {
    ended(outcome, count) {
      counts[outcome] += count;
      log.debug({ outcome, records: count }, "log records ended");
    },
    problem: onProblem,
  });
  logs.copyTo(exporter, exportModule);
  return { counts, close: () => exporter.close(flushMs) };
}
