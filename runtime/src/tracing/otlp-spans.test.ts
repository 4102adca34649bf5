/** Written spans, beside those that the serializer of the OpenTelemetry SDK writes. */
import { SpanKind, SpanStatusCode } from "@opentelemetry/api";
import { ProtobufTraceSerializer } from "@opentelemetry/otlp-transformer";
import { resourceFromAttributes } from "@opentelemetry/resources";
import type { ReadableSpan } from "@opentelemetry/sdk-trace";
import { WireWriter } from "@gatewayproxy/protos/wire-writer";
import fc from "fast-check";
import { expect, test } from "vitest";
import { messagesOfScope } from "../otlp/otlp-fields.ts";
import { decodeOtlp } from "../otlp/testing/decode-otlp.ts";
import { writeSpan } from "./otlp-spans.ts";
import type { FinishedSpan } from "./span.ts";

const decoded = (bytes: Uint8Array): unknown => decodeOtlp("Spans", bytes);

const origin = {
  resource: { "service.name": "edge ☂", "service.version": "" },
  scope: { name: "gateway-proxy", version: "1.2" },
};

function written(spans: readonly FinishedSpan[]): Uint8Array {
  const writer = new WireWriter();
  const parts = spans.map((span) => {
    writeSpan(writer, span);
    return writer.take();
  });
  return messagesOfScope(origin)(parts);
}

/** What the SDK writes for the same spans. */
function bySdk(spans: readonly FinishedSpan[]): Uint8Array {
  const resource = resourceFromAttributes(origin.resource);
  const time = (ms: number): [number, number] => {
    const seconds = Math.floor(ms / 1_000);
    return [seconds, Math.round((ms - seconds * 1_000) * 1_000_000)];
  };
  const kinds = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL };
  const readable = spans.map((span): ReadableSpan => {
    const { traceId, spanId, parentSpanId, tracestate } = span;
    const traceState = tracestate && { serialize: () => tracestate };
    return {
      ...{ name: span.name, kind: kinds[span.kind], resource, instrumentationScope: origin.scope },
      spanContext: () => ({ traceId, spanId, traceFlags: 1, ...(traceState && { traceState: traceState as never }) }),
      ...(parentSpanId !== undefined && {
        parentSpanContext: { traceId, spanId: parentSpanId, traceFlags: 1, isRemote: span.isParentRemote },
      }),
      ...{ startTime: time(span.startMs), endTime: time(Math.max(span.startMs, span.endMs)), duration: [0, 0] },
      status: span.isError
        ? { code: SpanStatusCode.ERROR, ...(span.message !== undefined && { message: span.message }) }
        : { code: SpanStatusCode.UNSET },
      attributes: JSON.parse(JSON.stringify(span.attributes)) as ReadableSpan["attributes"],
      ...{ links: [], events: [], ended: true },
      ...{ droppedAttributesCount: 0, droppedEventsCount: 0, droppedLinksCount: 0 },
    };
  });
  const bytes = ProtobufTraceSerializer.serializeRequest(readable);
  if (bytes === undefined) throw new Error("the SDK has written nothing");
  return bytes;
}

const hexOf = (digits: number) =>
  fc.array(fc.integer({ min: 0, max: 15 }), { minLength: digits, maxLength: digits }).map((values) =>
    values
      .map((value) => value.toString(16))
      .join("")
      .replace(/^0/, "1"),
  );

/** Spans with texts of a kind. Long ones have a length in more than one byte. */
const spansWith = (text: fc.Arbitrary<string>) => {
  const long = fc.tuple(text, fc.integer({ min: 1, max: 400 })).map(([part, times]) => part.repeat(times));
  const any = fc.oneof(text, long);
  const value = fc.oneof(
    ...[any, fc.boolean(), fc.integer(), fc.maxSafeInteger(), fc.double({ noNaN: true, noDefaultInfinity: true })],
    ...[fc.array(any, { maxLength: 3 }), fc.constant(undefined)],
  );
  const ms = fc.oneof(fc.double({ min: 1, max: 4e12, noNaN: true }), fc.integer({ min: 1, max: 4e12 }));
  const span: fc.Arbitrary<FinishedSpan> = fc.record({
    name: any,
    kind: fc.constantFrom("server" as const, "client" as const, "internal" as const),
    traceId: hexOf(32),
    spanId: hexOf(16),
    parentSpanId: fc.option(hexOf(16), { nil: undefined }),
    isParentRemote: fc.boolean(),
    tracestate: fc.option(any, { nil: undefined }),
    startMs: ms,
    endMs: ms,
    isError: fc.boolean(),
    message: fc.option(any, { nil: undefined }),
    attributes: fc.dictionary(any, value, { maxKeys: 5 }),
  });
  return fc.array(span, { minLength: 1, maxLength: 4 });
};

/** The SDK marks a parent as remote only if there is one, and has no integers beyond those that are exact. */
const isComparable = (spans: readonly FinishedSpan[]): boolean =>
  spans.every(
    ({ parentSpanId, isParentRemote, attributes }) =>
      !(isParentRemote && parentSpanId === undefined) &&
      Object.values(attributes).every(
        (value) => typeof value !== "number" || !Number.isInteger(value) || Number.isSafeInteger(value),
      ),
  );

test("written spans mean what the SDK writes", () => {
  fc.assert(
    fc.property(spansWith(fc.string({ unit: "grapheme" })).filter(isComparable), (spans) => {
      expect(decoded(written(spans))).toEqual(decoded(bySdk(spans)));
    }),
  );
});

test("all texts are UTF-8, also those with halves of surrogate pairs: a collector rejects a message with any other", () => {
  const units = fc.array(fc.integer({ min: 0, max: 0xffff })).map((codes) => String.fromCharCode(...codes));
  fc.assert(fc.property(spansWith(units), (spans) => void decoded(written(spans))));
});
