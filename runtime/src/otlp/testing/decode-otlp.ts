/** Decodes messages of OTLP, to compare them. */
import protobuf from "protobufjs";

/**
 * The part of opentelemetry-proto that is used. Texts are bytes here, since a collector rejects those that are not
 * UTF-8.
 */
const { root } = protobuf.parse(`
syntax = "proto3";
message Spans { repeated ResourceSpans resource_spans = 1; }
message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
message ScopeSpans { Scope scope = 1; repeated Span spans = 2; }
message Span {
  bytes trace_id = 1; bytes span_id = 2; bytes trace_state = 3; bytes parent_span_id = 4; bytes name = 5; uint32 kind = 6;
  fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8; repeated KeyValue attributes = 9;
  uint32 dropped_attributes_count = 10; uint32 dropped_events_count = 12; uint32 dropped_links_count = 14;
  Status status = 15; fixed32 flags = 16;
}
message Status { bytes message = 2; uint32 code = 3; }
message Records { repeated ResourceLogs resource_logs = 1; }
message ResourceLogs { Resource resource = 1; repeated ScopeLogs scope_logs = 2; }
message ScopeLogs { Scope scope = 1; repeated LogRecord log_records = 2; }
message LogRecord {
  fixed64 time_unix_nano = 1; uint32 severity_number = 2; bytes severity_text = 3; Value body = 5; repeated KeyValue attributes = 6;
  uint32 dropped_attributes_count = 7; fixed32 flags = 8; bytes trace_id = 9; bytes span_id = 10;
  fixed64 observed_time_unix_nano = 11; bytes event_name = 12;
}
message Resource { repeated KeyValue attributes = 1; }
message Scope { bytes name = 1; bytes version = 2; }
message KeyValue { bytes key = 1; Value value = 2; }
message Value {
  oneof value {
    bytes string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4; Array array_value = 5;
    List kvlist_value = 6;
  }
}
message Array { repeated Value values = 1; }
message List { repeated KeyValue values = 1; }
`);

const ids = new Set(["traceId", "spanId", "parentSpanId"]);
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Decodes an export request. Texts must be UTF-8, and absent fields have their defaults. */
export function decodeOtlp(signal: "Spans" | "Records", bytes: Uint8Array): unknown {
  const request = root.lookupType(signal);
  const message = request.toObject(request.decode(bytes), { longs: String, defaults: true, oneofs: true });
  const readable = (value: unknown, name: string): unknown => {
    if (value instanceof Uint8Array) return ids.has(name) ? Buffer.from(value).toString("hex") : utf8.decode(value);
    if (Array.isArray(value)) return value.map((item) => readable(item, name));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, readable(item, key)]));
  };
  const isNoStatus = (_: string, value: unknown): unknown =>
    JSON.stringify(value) === '{"message":"","code":0}' ? null : value;
  return JSON.parse(JSON.stringify(readable(message, "")), isNoStatus);
}
