/** Opens the export of the log of one thread by OTLP. */
import type { ExportCounts } from "@gatewayproxy/runtime/export-observer";
import type { Logger, Logs } from "@gatewayproxy/runtime/log";
import type { LogExportSettings } from "@gatewayproxy/runtime/log-export-settings";
import type { LineExporter } from "@gatewayproxy/runtime/log-exporter";
import type { LogRecordSink } from "@gatewayproxy/runtime/log-record";
import type { OpenSender } from "@gatewayproxy/runtime/open-sender";
import { attributeNames } from "../telemetry/access-log/attributes.ts";

/**
 * The module that logs problems of exports by OTLP. Its own lines are not exported, so that a failing export has no
 * end.
 */
const exportModule = "proxy::tracing";

/** The receivers of what happens to the records of a thread. */
export interface LogExportOptions {
  /** Of `proxy::tracing`. */
  readonly log: Logger;
  /** Opens the sender of the records. */
  readonly openSender: OpenSender;
  /** Called with the number of records that were exported, or were not. */
  readonly onRecordsEnded: (outcome: keyof ExportCounts, count: number) => void;
  /** Called with a problem of an exporter. */
  readonly onProblem: (message: string) => void;
}

/** Loads the exporter, which no process without it needs, and opens it for the access log. */
export async function openAccessRecords(
  settings: LogExportSettings,
  { log, openSender, onRecordsEnded, onProblem }: LogExportOptions,
): Promise<LogRecordSink> {
  const { openRecordExporter } = await import("@gatewayproxy/runtime/log-exporter");
  const scope = { name: "gateway-proxy", version: versionOf(settings) };
  return await openRecordExporter(settings, scope, openSender, {
    ended(outcome, count) {
      onRecordsEnded(outcome, count);
      log.debug({ outcome, records: count }, "records of the access log ended");
    },
    problem: onProblem,
  });
}

/** Loads the exporter, and exports all lines of loggers from now on. */
export async function exportLines(
  settings: LogExportSettings,
  loggers: readonly Logs[],
  { log, openSender, onRecordsEnded, onProblem }: LogExportOptions,
): Promise<LineExporter> {
  const { openLineExporter } = await import("@gatewayproxy/runtime/log-exporter");
  const { requestId, listener, route, rule, backend, endpoint } = attributeNames;
  const program = {
    version: versionOf(settings),
    // What these fields name, they name in any line.
    attributeNames: { requestId, listener, route, rule, backend, endpoint },
  };
  const exporter = await openLineExporter(settings, program, openSender, {
    ended(outcome, count) {
      onRecordsEnded(outcome, count);
      log.debug({ outcome, records: count }, "records of the application log ended");
    },
    problem: onProblem,
  });
  for (const logs of loggers) logs.copyTo(exporter, exportModule);
  return exporter;
}

function versionOf({ resource }: LogExportSettings): string {
  return resource["service.version"] ?? "";
}
