/** Written log records, beside those that the serializer of the OpenTelemetry SDK writes. */
import { SeverityNumber } from "@opentelemetry/api";
import { ProtobufLogsSerializer } from "@opentelemetry/otlp-transformer";
import { resourceFromAttributes } from "@opentelemetry/resources";
import type { ReadableLogRecord } from "@opentelemetry/sdk-logs";
import { WireWriter } from "@gatewayproxy/protos/wire-writer";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Logs } from "../log/log.ts";
import { messagesOfResource, messagesOfScope } from "../otlp/otlp-fields.ts";
import { decodeOtlp } from "../otlp/testing/decode-otlp.ts";
import { FakeClock } from "../testing/fake-clock.ts";
import type { LogRecord } from "./log-record.ts";
import { lineWriter, writeRecord } from "./otlp-records.ts";

const resource = { "service.name": "edge ☂" };
const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const spanId = "00f067aa0ba902b7";

/** What the SDK writes for the same records. */
function bySdk(name: string, records: readonly (LogRecord & { readonly level?: SeverityNumber })[]): unknown {
  const origin = { resource: resourceFromAttributes(resource), instrumentationScope: { name, version: "1.2" } };
  const readable = records.map(({ timeMs, traceId: trace, spanId: span, level = SeverityNumber.INFO, ...record }) => {
    const time = [Math.floor(timeMs / 1_000), (timeMs % 1_000) * 1_000_000] as [number, number];
    return {
      ...{ hrTime: time, hrTimeObserved: time, severityNumber: level, severityText: SeverityNumber[level] },
      ...{ eventName: record.eventName, body: record.body, droppedAttributesCount: 0 },
      ...origin,
      attributes: JSON.parse(JSON.stringify(record.attributes)) as ReadableLogRecord["attributes"],
      ...(trace !== undefined &&
        span !== undefined && { spanContext: { traceId: trace, spanId: span, traceFlags: 0 } }),
    };
  });
  const bytes = ProtobufLogsSerializer.serializeRequest(readable);
  if (bytes === undefined) throw new Error("the SDK has written nothing");
  return decodeOtlp("Records", bytes);
}

test("records mean what the SDK writes", () => {
  const text = fc.string({ unit: "grapheme" });
  const value = fc.oneof(text, fc.boolean(), fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }));
  const isComparable = (one: unknown): boolean => !Number.isInteger(one) || Number.isSafeInteger(one);
  const record = fc.record({
    timeMs: fc.integer({ min: 1, max: 4e12 }),
    eventName: text,
    body: text,
    attributes: fc.dictionary(text, fc.oneof(value.filter(isComparable), fc.array(text), fc.constant(undefined))),
    trace: fc.boolean(),
  });
  const messageOf = messagesOfScope({ resource, scope: { name: "gateway-proxy", version: "1.2" } });
  fc.assert(
    fc.property(fc.array(record, { minLength: 1, maxLength: 4 }), (drawn) => {
      const records = drawn.map(({ trace, ...rest }) => {
        return { ...rest, ...(trace ? { traceId, spanId } : { traceId: undefined, spanId: undefined }) };
      });
      const writer = new WireWriter();
      for (const each of records) writeRecord(writer, each);
      expect(decodeOtlp("Records", messageOf([writer.take()]))).toEqual(bySdk("gateway-proxy", records));
    }),
  );
});

/** A time in ms at which the lines of the tests are logged. */
const timeMs = 1_700_000_000_123;

/** The records of the lines that `log` writes, decoded. */
function recordsOf(log: (logs: Logs) => void): unknown {
  const lines: string[] = [];
  const logs = new Logs({
    filter: { level: "trace", modules: new Map() },
    clock: new FakeClock(timeMs),
    destination: { write: () => undefined },
    bindings: { worker: 2 },
  });
  logs.copyTo({ write: (line) => lines.push(line) }, "proxy::tracing");
  log(logs);
  const writer = new WireWriter();
  const write = lineWriter("1.2", { requestId: "gatewayproxy.request_id" });
  for (const line of lines) write(writer, line);
  return decodeOtlp("Records", messagesOfResource(resource)([writer.take()]));
}

describe("lines", () => {
  const record = { timeMs, eventName: "", traceId: undefined, spanId: undefined };

  test("have the name of their module as scope, their message as body, and their fields as attributes", () => {
    const nested = { limits: ["a", 1], headers: { host: "é", deep: { list: [true, null] } } };
    const written = recordsOf((logs) => {
      const fields = { ...nested, requestId: "r1", trace_id: traceId, span_id: spanId, ratio: 0.5, gone: undefined };
      logs.logger("proxy::ratelimit").debug(fields, "limit denied");
    });
    const attributes = { worker: 2, ...nested, "gatewayproxy.request_id": "r1", ratio: 0.5 };
    const expected = { ...record, traceId, spanId, level: SeverityNumber.DEBUG, body: "limit denied" };
    expect(written).toEqual(bySdk("proxy::ratelimit", [{ ...expected, attributes: attributes as never }]));
  });

  test.each(["trace", "debug", "info", "warn", "error"] as const)("of the level %s have its severity", (level) => {
    const written = recordsOf((logs) => logs.logger("proxy::config")[level]({}, "configuration applied"));
    const name = level.toUpperCase() as keyof typeof SeverityNumber;
    const expected = { ...record, level: SeverityNumber[name], body: "configuration applied" };
    expect(written).toEqual(bySdk("proxy::config", [{ ...expected, attributes: { worker: 2 } }]));
  });

  test("of an error have the attributes of exceptions", () => {
    const err = Object.assign(new TypeError("bad"), { code: "E1" });
    const written = recordsOf((logs) => logs.logger("proxy::server").error({ err }, "internal error of the proxy"));
    const attributes = {
      ...{ worker: 2, "exception.type": "TypeError", "exception.message": "bad" },
      ...{ "exception.stacktrace": err.stack, err: { code: "E1" } },
    };
    const expected = { ...record, level: SeverityNumber.ERROR, body: "internal error of the proxy" };
    expect(written).toEqual(bySdk("proxy::server", [{ ...expected, attributes: attributes as never }]));
  });

  test("about the export itself are not exported", () => {
    const written = recordsOf((logs) => {
      logs.logger("proxy::tracing").warn({}, "OTLP export failed");
      logs.logger("proxy::metrics").warn({}, "metrics cannot be exported");
    });
    const expected = { ...record, level: SeverityNumber.WARN, body: "metrics cannot be exported" };
    expect(written).toEqual(bySdk("proxy::metrics", [{ ...expected, attributes: { worker: 2 } }]));
  });

  test("with any values can be written, and all texts are UTF-8", () => {
    const units = fc.array(fc.integer({ min: 0, max: 0xffff })).map((codes) => String.fromCharCode(...codes));
    const fields = fc.dictionary(units, fc.anything({ key: units, values: [units, fc.double(), fc.boolean()] }));
    fc.assert(
      fc.property(fields, units, (drawn, text) => {
        const written = recordsOf((logs) => logs.logger("proxy::server").info({ ...drawn, value: text }, text));
        expect(JSON.stringify(written)).toContain('"INFO"');
      }),
    );
  });
});
