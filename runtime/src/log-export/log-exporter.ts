/** Exports log records by OTLP. Only processes that export logs load this module. */
import type { LogDestination } from "../log/log-destination.ts";
import type { ExportObserver } from "../otlp/export-observer.ts";
import { ExportQueue, type WrittenItems } from "../otlp/export-queue.ts";
import { messagesOfResource, messagesOfScope, type Scope } from "../otlp/otlp-fields.ts";
import type { OpenSender } from "../otlp/open-sender.ts";
import { systemClock } from "../timing/clock.ts";
import type { LogExportSettings } from "./log-export-settings.ts";
import type { LogRecordSink } from "./log-record.ts";
import { type AttributeNames, lineWriter, writeRecord } from "./otlp-records.ts";

/** Opens the exporter of records of one thread. @param scope name and version of the program. */
export async function openRecordExporter(
  settings: LogExportSettings,
  scope: Scope,
  openSender: OpenSender,
  observer: ExportObserver,
): Promise<LogRecordSink> {
  const { resource } = settings;
  return await openQueue(
    settings,
    { write: writeRecord, messageOf: messagesOfScope({ resource, scope }) },
    openSender,
    observer,
  );
}

/** Exports lines of `Logs`. */
export interface LineExporter extends LogDestination {
  /** Sends what is queued, within `timeoutMs`. Never rejects. */
  close(timeoutMs: number): Promise<void>;
}

/** The program whose lines are exported. */
export interface LoggingProgram {
  /** Version of the scopes, which have the names of modules. */
  readonly version: string;
  /** Fields whose attribute has another name. */
  readonly attributeNames: AttributeNames;
}

/** Opens the exporter of the lines of one thread. A line is a record of OTLP as soon as it is written. */
export async function openLineExporter(
  settings: LogExportSettings,
  { version, attributeNames }: LoggingProgram,
  openSender: OpenSender,
  observer: ExportObserver,
): Promise<LineExporter> {
  const lines = { write: lineWriter(version, attributeNames), messageOf: messagesOfResource(settings.resource) };
  const queue = await openQueue(settings, lines, openSender, observer);
  return { write: (line) => queue.add([line]), close: (timeoutMs) => queue.close(timeoutMs) };
}

async function openQueue<Item>(
  { batch, protocol }: LogExportSettings,
  items: WrittenItems<Item>,
  openSender: OpenSender,
  observer: ExportObserver,
): Promise<ExportQueue<Item>> {
  const transport = { signal: "records", protocol, timeoutMs: batch.exportTimeoutMs } as const;
  const sender = await openSender(transport, (message) => observer.problem(message));
  return new ExportQueue({ batch, items, sender, clock: systemClock, observer });
}
