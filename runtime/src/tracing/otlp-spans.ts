/**
 * Writes spans as OTLP (opentelemetry-proto, `ExportTraceServiceRequest`), each when it ends. The serializer of the SDK needs
 * objects of each span until the export, which cost more than the bytes.
 */
import { WireWriter } from "@gatewayproxy/protos/wire-writer";
import type { AttributeValue, FinishedSpan, SpanAttributes } from "./span.ts";

/** The fields that all spans of a process share. */
export interface SpanOrigin {
  readonly resource: Readonly<Record<string, string>>;
  /** Name and version of the program. */
  readonly scope: { readonly name: string; readonly version: string };
}

const kinds: Readonly<Record<FinishedSpan["kind"], number>> = { internal: 1, server: 2, client: 3 };
const statusError = 2;

/** `SpanFlags`: sampled, and whether it is known that the parent is in another process. */
const flagSampled = 0x1;
const flagHasIsRemote = 0x100;
const flagIsRemote = 0x200;

/** Writes a span as a field of `ScopeSpans`. */
export function writeSpan(writer: WireWriter, span: FinishedSpan): void {
  const start = writer.begin(2);
  writer.hex(1, span.traceId);
  writer.hex(2, span.spanId);
  if (span.tracestate !== undefined) writer.string(3, span.tracestate);
  if (span.parentSpanId !== undefined) writer.hex(4, span.parentSpanId);
  writer.string(5, span.name);
  writer.uint(6, kinds[span.kind]);
  writeTime(writer, 7, span.startMs);
  writeTime(writer, 8, Math.max(span.startMs, span.endMs));
  writeAttributes(writer, 9, span.attributes);
  if (span.isError) writeError(writer, span.message ?? "");
  writer.fixed32(16, flagSampled | flagHasIsRemote | (span.isParentRemote ? flagIsRemote : 0));
  writer.end(start);
}

function writeError(writer: WireWriter, message: string): void {
  const status = writer.begin(15);
  writer.string(2, message);
  writer.uint(3, statusError);
  writer.end(status);
}

/** Returns the function that makes a message of written spans. */
export function spanMessages({ resource, scope }: SpanOrigin): (spans: readonly Buffer[]) => Buffer {
  const writer = new WireWriter();
  const resourceField = writer.begin(1);
  writeAttributes(writer, 1, resource);
  writer.end(resourceField);
  const resourceBytes = writer.take();
  const scopeField = writer.begin(1);
  writer.string(1, scope.name);
  writer.string(2, scope.version);
  writer.end(scopeField);
  const scopeBytes = writer.take();
  return (spans) => {
    const scopeSpansLength = spans.reduce((sum, { length }) => sum + length, scopeBytes.length);
    writer.lengthOf(2, scopeSpansLength);
    const scopeSpansHead = writer.take();
    writer.lengthOf(1, resourceBytes.length + scopeSpansHead.length + scopeSpansLength);
    return Buffer.concat([writer.take(), resourceBytes, scopeSpansHead, scopeBytes, ...spans]);
  };
}

function writeAttributes(writer: WireWriter, field: number, attributes: SpanAttributes): void {
  for (const name in attributes) {
    const value = attributes[name];
    if (value === undefined) continue;
    const attribute = writer.begin(field);
    writer.string(1, name);
    const any = writer.begin(2);
    writeValue(writer, value);
    writer.end(any);
    writer.end(attribute);
  }
}

/** Writes the member of an `AnyValue`. */
function writeValue(writer: WireWriter, value: Exclude<AttributeValue, undefined>): void {
  if (typeof value === "string") {
    writer.presentString(1, value);
  } else if (typeof value === "number") {
    if (Number.isSafeInteger(value)) writer.presentInt(3, value);
    else writer.double(4, value);
  } else if (typeof value === "boolean") {
    writer.boolean(2, value);
  } else {
    const array = writer.begin(5);
    for (const item of value) {
      const any = writer.begin(1);
      writer.presentString(1, item);
      writer.end(any);
    }
    writer.end(array);
  }
}

const half = 0x1_0000;
const whole = 0x1_0000_0000;

/** Writes a time in nanoseconds, which have more bits than a number is exact for. @param ms since the epoch, with a fraction. */
function writeTime(writer: WireWriter, field: number, ms: number): void {
  const seconds = Math.floor(ms / 1_000);
  const nanoseconds = Math.round((ms - seconds * 1_000) * 1_000_000);
  const upper = Math.floor(seconds / half) * 1_000_000_000;
  const lower = (seconds % half) * 1_000_000_000 + nanoseconds + (upper % half) * half;
  writer.fixed64Halves(field, Math.floor(upper / half) + Math.floor(lower / whole), lower % whole);
}
