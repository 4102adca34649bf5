/**
 * The access log: one line, one record of OTLP, or both, for each finished request that is chosen.
 *
 * The lines of JSON look like those of the loggers but are built here by one `JSON.stringify` of an object of constant
 * shape. The logging library would serialize and join the many fields one by one.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { type Logger, withoutControls } from "@gatewayproxy/runtime/log";
import type { LogDestination } from "@gatewayproxy/runtime/log-destination";
import type { LogRecordSink } from "@gatewayproxy/runtime/log-record";
import type { Result } from "@gatewayproxy/runtime/problem";
import { type Expression, parseExpression } from "../../cel/expression.ts";
import type { RequestRecord } from "../request-record.ts";
import type { StreamRecord } from "../stream-record.ts";
import { type Ended, EndedRequest, EndedStream, type ViewedRequest } from "./ended-request.ts";
import { allFields, type Field, parseFields } from "./fields.ts";
import { lineOf, type LogLine, streamLineOf } from "./log-line.ts";
import type { LogValue } from "./logged-expression.ts";
import { type Selection, selectionOf, streamSelectionOf } from "./selection.ts";
import { parseTemplate, type RenderLine } from "./template.ts";

/** Logs one finished request. */
export type AccessLog = (record: RequestRecord, request: ViewedRequest) => void;

/** The settings of the access log. Plain data, whose texts are valid. */
export interface AccessLogSettings extends Selection {
  /** As `parseFields` accepts it. */
  readonly fields: string;
  /** As `parseTemplate` accepts it; undefined: lines of JSON. */
  readonly template: string | undefined;
  /** As `parseFilter` accepts it; undefined: no filter. */
  readonly filter: string | undefined;
}

/** The destinations of the access log, and what it reads. */
export interface AccessLogOptions {
  readonly settings: AccessLogSettings;
  /** The logger of `accessLogModule` (`log-line.ts`), whose level decides whether requests are logged. */
  readonly logger: Pick<Logger, "isLevelEnabled">;
  /** Receives the lines; undefined: no lines are made. */
  readonly destination: LogDestination | undefined;
  /** Receives records of OTLP; undefined: no records are made. */
  readonly records?: LogRecordSink | undefined;
  /** The time of each line. */
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
}

/** All requests, each with a line of JSON with all fields. */
export const defaultAccessLog: AccessLogSettings = {
  mode: "on",
  successRatio: 1,
  slowMs: 0,
  fields: allFields,
  template: undefined,
  filter: undefined,
};

/** Parses a condition that must not be false for a request that is logged. */
export function parseFilter(source: string): Result<Expression> {
  return parseExpression(source, { phase: "end", result: "condition" });
}

/** Creates the access log. Throws if a text of the settings is invalid. */
export function createAccessLog({ settings, ...options }: AccessLogOptions): AccessLog {
  const { logger, destination, records, clock, random } = options;
  if (settings.mode === "off" || (destination === undefined && records === undefined)) return () => undefined;
  const isSelected = selectionOf(settings, random);
  const fields = valid(parseFields(settings.fields));
  const template = settings.template === undefined ? undefined : valid(parseTemplate(settings.template));
  const filter = settings.filter === undefined ? undefined : valid(parseFilter(settings.filter));
  const timestamp = createTimestamp(clock);
  const isPlain = settings.fields === allFields && template === undefined && filter === undefined;
  if (isPlain && records === undefined) {
    return (record) => {
      if (!isSelected(record) || !logger.isLevelEnabled("info")) return;
      destination?.write(jsonLine(lineOf(timestamp(), record)));
    };
  }
  const render = template === undefined ? jsonOf(fields) : textOf(template);
  return (record, viewed) => {
    if (!isSelected(record) || !logger.isLevelEnabled("info")) return;
    const request = new EndedRequest(record, lineOf(timestamp(), record), viewed);
    if (filter !== undefined && isLeftOut(filter, request)) return;
    destination?.write(render(request));
    if (records !== undefined) addRecord(records, requestEventName, request, fields, template, clock.nowMs());
  };
}

/** Logs one relayed connection or session that has ended. */
export type StreamLog = (record: StreamRecord) => void;

/**
 * Creates the access log of relayed connections and sessions, with the same settings. Throws if a text of them is
 * invalid.
 */
export function createStreamLog({ settings, ...options }: AccessLogOptions): StreamLog {
  const { logger, destination, records, clock, random } = options;
  if (settings.mode === "off" || (destination === undefined && records === undefined)) return () => undefined;
  const isSelected = streamSelectionOf(settings, random);
  const fields = valid(parseFields(settings.fields));
  const template = settings.template === undefined ? undefined : valid(parseTemplate(settings.template));
  const filter = settings.filter === undefined ? undefined : valid(parseFilter(settings.filter));
  const timestamp = createTimestamp(clock);
  const render = template === undefined ? jsonOf(fields) : textOf(template);
  return (record) => {
    if (!isSelected(record) || !logger.isLevelEnabled("info")) return;
    const stream = new EndedStream(record, streamLineOf(timestamp(), record));
    if (filter !== undefined && isLeftOut(filter, stream)) return;
    destination?.write(render(stream));
    if (records !== undefined) addRecord(records, streamEventName, stream, fields, template, clock.nowMs());
  };
}

/** A condition without a value does not leave a request out: clients choose what it reads, and could hide. */
function isLeftOut({ evaluateScalar }: Expression, { view, allowance }: Ended): boolean {
  return evaluateScalar(view, allowance) === false;
}

function jsonLine(line: object): string {
  return `${withoutControls(JSON.stringify(line))}\n`;
}

function jsonOf(fields: readonly Field[]): (request: Ended) => string {
  return (request) => {
    const { level, time, module, msg }: LogLine = request.line;
    const line: Record<string, unknown> = { level, time, module };
    for (const { name, read } of fields) line[name] = read(request);
    line["msg"] = msg;
    return jsonLine(line);
  };
}

function textOf(template: RenderLine): (request: Ended) => string {
  return (request) => `${template(request)}\n`;
}

/** The names of the events of records. */
const requestEventName = "gatewayproxy.request";
const streamEventName = "gatewayproxy.connection";

function addRecord(
  records: LogRecordSink,
  eventName: string,
  request: Ended,
  fields: readonly Field[],
  template: RenderLine | undefined,
  timeMs: number,
): void {
  const { trace_id: traceId, span_id: spanId } = request.line;
  const attributes: Record<string, LogValue | undefined> = {};
  for (const { attribute, read } of fields) if (attribute !== undefined) attributes[attribute] = read(request);
  const body = template === undefined ? request.line.msg : template(request);
  records.add([{ timeMs, eventName, body, traceId, spanId, attributes }]);
}

function valid<T>(parsed: Result<T>): T {
  if (parsed.ok) return parsed.value;
  throw new Error(parsed.problems.map(({ message }) => message).join("; "));
}

/** The time in ISO 8601, rendered once per millisecond, in which a busy worker finishes dozens of requests. */
function createTimestamp(clock: Clock): () => string {
  let renderedMs = Number.NaN;
  let rendered = "";
  return () => {
    const nowMs = clock.nowMs();
    if (nowMs !== renderedMs) {
      renderedMs = nowMs;
      rendered = new Date(nowMs).toISOString();
    }
    return rendered;
  };
}
