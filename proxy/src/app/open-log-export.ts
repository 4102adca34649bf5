/** Opens the export of the access log of one worker by OTLP. */
import type { Logger } from "@gatewayproxy/runtime/log";
import type { LogExportSettings } from "@gatewayproxy/runtime/log-export-settings";
import type { LogRecordSink } from "@gatewayproxy/runtime/log-record";

/** The receivers of what happens to the records of a worker. */
export interface LogExportOptions {
  /** Of `proxy::tracing`. */
  readonly log: Logger;
  /** Called with the number of records that were exported, or were not. */
  readonly onRecordsEnded: (outcome: "exported" | "failed" | "dropped", count: number) => void;
  /** Called with a problem of an exporter. */
  readonly onProblem: (message: string) => void;
}

/** Loads the exporter, which no process without it needs, and opens it. */
export async function openLogExport(
  settings: LogExportSettings,
  { log, onRecordsEnded, onProblem }: LogExportOptions,
): Promise<LogRecordSink> {
  const { openLogExporter } = await import("@gatewayproxy/runtime/log-exporter");
  const scope = { name: "gateway-proxy", version: settings.resource["service.version"] ?? "" };
  return await openLogExporter(settings, scope, {
    recordsEnded(outcome, count) {
      onRecordsEnded(outcome, count);
      log.debug({ outcome, records: count }, "records of the access log ended");
    },
    problem: onProblem,
  });
}
