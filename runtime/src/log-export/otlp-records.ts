/** Writes log records as OTLP (opentelemetry-proto, `ExportLogsServiceRequest`), each when it is logged. */
import type { WireWriter } from "@gatewayproxy/protos/wire-writer";
import { writeAny, writeAttribute, writeAttributes, writeScope, writeTime } from "../otlp/otlp-fields.ts";
import type { LogRecord } from "./log-record.ts";

/** `SeverityNumber` of each level. */
const severities: Readonly<Record<string, number>> = { trace: 1, debug: 5, info: 9, warn: 13, error: 17 };

/** What a record has besides its attributes. */
interface Head extends Pick<LogRecord, "timeMs" | "traceId" | "spanId"> {
  /** A key of `severities`. */
  readonly level: string;
  readonly body: unknown;
}

/** Writes a record as a field of `ScopeLogs`. */
export function writeRecord(writer: WireWriter, record: LogRecord): void {
  const field = writer.begin(2);
  writeHead(writer, { ...record, level: "info" });
  writeAttributes(writer, 6, record.attributes);
  writer.string(12, record.eventName);
  writer.end(field);
}

/** A field of lines, and the attribute that records have for it if it is not the name of the field. */
export type AttributeNames = Readonly<Record<string, string | undefined>>;

/** Returns the function that writes a line of `Logs` as a field of `ResourceLogs`: a `ScopeLogs` of its module. */
export function lineWriter(version: string, names: AttributeNames): (writer: WireWriter, line: string) => void {
  return (writer, line) => {
    // `Logs` writes one JSON object per line.
    const { level, time, module, msg, trace_id, span_id, err, ...fields } = JSON.parse(line) as Line;
    const scopeLogs = writer.begin(2);
    writeScope(writer, 1, { name: module, version });
    const record = writer.begin(2);
    writeHead(writer, { timeMs: Date.parse(time), level, body: msg, traceId: trace_id, spanId: span_id });
    for (const name in fields) writeAttribute(writer, 6, names[name] ?? name, fields[name]);
    if (err !== undefined) writeException(writer, err);
    writer.end(record);
    writer.end(scopeLogs);
  };
}

/** A line of `Logs`. Other fields have values of JSON. */
interface Line {
  readonly level: string;
  readonly time: string;
  readonly module: string;
  readonly msg: string;
  readonly trace_id?: string;
  readonly span_id?: string;
  /** An Error as Pino serializes it; any other value that was thrown as it is. */
  readonly err?: unknown;
  readonly [name: string]: unknown;
}

function writeHead(writer: WireWriter, { timeMs, level, body, traceId, spanId }: Head): void {
  writeTime(writer, 1, timeMs);
  writer.uint(2, severities[level] ?? 0);
  writer.string(3, level.toUpperCase());
  writeAny(writer, 5, body);
  if (traceId !== undefined) writer.hex(9, traceId);
  if (spanId !== undefined) writer.hex(10, spanId);
  // The time of observation: the program itself makes the record.
  writeTime(writer, 11, timeMs);
}

/**
 * Writes the attributes of "Exceptions in logs" of the semantic conventions; the other properties of the error are
 * below `err`.
 */
function writeException(writer: WireWriter, err: unknown): void {
  if (typeof err !== "object" || err === null) {
    writeAttribute(writer, 6, "err", err);
    return;
  }
  const { type, message, stack, ...others } = err as Readonly<Record<string, unknown>>;
  writeAttributes(writer, 6, { "exception.type": type, "exception.message": message, "exception.stacktrace": stack });
  if (Object.keys(others).length > 0) writeAttribute(writer, 6, "err", others);
}
