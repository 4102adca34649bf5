/**
 * Writes spans as OTLP (opentelemetry-proto, `ExportTraceServiceRequest`), each when it ends. The serializer of the SDK
 * needs objects of each span until the export, which cost more than the bytes.
 */
import type { WireWriter } from "@gatewayproxy/protos/wire-writer";
import { writeAttributes, writeTime } from "../otlp/otlp-fields.ts";
import type { FinishedSpan } from "./span.ts";

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
