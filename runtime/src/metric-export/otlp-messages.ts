/**
 * Writes metrics as OTLP (opentelemetry-proto, `ExportMetricsServiceRequest`). The serializer of the SDK does not write
 * exemplars.
 */
import { WireWriter } from "@gatewayproxy/protos/wire-writer";
import { countsOfBounds, type ExponentialCounts, zeroThreshold } from "../metrics/exponential-buckets.ts";
import type { Exemplar } from "../metrics/metrics.ts";
import {
  countOf,
  type HistogramFamily,
  type HistogramKind,
  type HistogramPoint,
  type Labels,
  type MetricFamily,
  type NumberFamily,
  type NumberPoint,
} from "../metrics/metric-families.ts";
import type { ExportedSeries, TimedPoint } from "./exported-series.ts";
import type { Temporality } from "./metric-export-settings.ts";

/** A message for a collector. */
export interface OtlpMessage {
  readonly bytes: Buffer;
  /** The number of points in it. */
  readonly points: number;
  /** To be called when it has been exported. */
  readonly commit: () => void;
}

/** The fields that all messages of a process share. */
export interface OtlpOptions {
  readonly resource: Readonly<Record<string, string>>;
  /** Name and version of the program. */
  readonly scope: { readonly name: string; readonly version: string };
  readonly temporality: Temporality;
  readonly histograms: HistogramKind;
}

/** A collector may reject messages of more than 4 MiB (the default of gRPC). */
const maxMessageBytes = 1_048_576;
/** Points of one metric that are together in a message. */
const maxPoints = 1_000;

const aggregationTemporality: Readonly<Record<Temporality, number>> = { delta: 1, cumulative: 2 };

/** Writes the metrics of one collection, in messages of 1 MiB or a little more. */
export function* otlpMessages(
  families: readonly MetricFamily[],
  exported: ExportedSeries,
  options: OtlpOptions,
): Generator<OtlpMessage, void> {
  let metrics: WrittenMetric[] = [];
  let length = 0;
  for (const metric of writtenMetrics(families, exported, options)) {
    metrics.push(metric);
    length += metric.bytes.length;
    if (length < maxMessageBytes) continue;
    yield messageOf(metrics, options);
    [metrics, length] = [[], 0];
  }
  if (metrics.length > 0) yield messageOf(metrics, options);
}

/** A metric, or a part of it, with the commits of its points. */
interface WrittenMetric {
  readonly bytes: Buffer;
  readonly commits: readonly (() => void)[];
}

function messageOf(metrics: readonly WrittenMetric[], { resource, scope }: OtlpOptions): OtlpMessage {
  const writer = new WireWriter();
  const resourceMetrics = writer.begin(1);
  const resourceField = writer.begin(1);
  writeAttributes(writer, 1, Object.entries(resource));
  writer.end(resourceField);
  const scopeMetrics = writer.begin(2);
  const scopeField = writer.begin(1);
  writer.string(1, scope.name);
  writer.string(2, scope.version);
  writer.end(scopeField);
  for (const { bytes } of metrics) writer.bytes(2, bytes);
  writer.end(scopeMetrics);
  writer.end(resourceMetrics);
  const commits = metrics.flatMap((metric) => metric.commits);
  return {
    bytes: writer.take(),
    points: commits.length,
    commit: () => {
      for (const commit of commits) commit();
    },
  };
}

function* writtenMetrics(
  families: readonly MetricFamily[],
  exported: ExportedSeries,
  { temporality, histograms }: OtlpOptions,
): Generator<WrittenMetric, void> {
  const writer = new WireWriter();
  for (const family of families) {
    for (let from = 0; from < family.points.length; from += maxPoints) {
      const commits =
        "bounds" in family
          ? writeHistograms(writer, family, from, {
              exported,
              temporality,
              isExponential: histograms === "native" && hasNative(family),
            })
          : writeNumbers(writer, family, from, exported, temporality);
      yield { bytes: writer.take(), commits };
    }
  }
}

function writeHead(writer: WireWriter, { name, help, instrument }: MetricFamily): void {
  writer.string(1, instrument?.name ?? name);
  writer.string(2, help);
  writer.string(3, instrument?.unit ?? unitOf(name));
}

/** The unit that a name of Prometheus ends with, in UCUM. */
function unitOf(name: string): string {
  const [, unit] = /_(seconds|bytes)(?:_total)?$/.exec(name) ?? [];
  return unit === undefined ? "" : unit === "seconds" ? "s" : "By";
}

const fieldOfGauge = 5;
const fieldOfSum = 7;
const fieldOfHistogram = 9;
const fieldOfExponentialHistogram = 10;

/** @returns the commits of the points that were written. */
function writeNumbers(
  writer: WireWriter,
  family: NumberFamily,
  from: number,
  exported: ExportedSeries,
  temporality: Temporality,
): readonly (() => void)[] {
  writeHead(writer, family);
  const data = writer.begin(family.type === "gauge" ? fieldOfGauge : fieldOfSum);
  const commits = family.points.slice(from, from + maxPoints).map((point) => {
    const timed = exported.number(family, point);
    writeNumber(writer, family, timed, exported.atMs);
    return timed.commit;
  });
  if (family.type === "counter") {
    writer.uint(2, aggregationTemporality[temporality]);
    writer.boolean(3, true);
  }
  writer.end(data);
  return commits;
}

function writeNumber(
  writer: WireWriter,
  family: NumberFamily,
  { point, startMs }: TimedPoint<NumberPoint>,
  atMs: number,
): void {
  const field = writer.begin(1);
  writer.fixed64(2, nanoseconds(startMs));
  writer.fixed64(3, nanoseconds(atMs));
  writer.double(4, point.value);
  writeAttributes(writer, 7, attributesOf(family, point.labels));
  writer.end(field);
}

interface HistogramOptions {
  readonly exported: ExportedSeries;
  readonly temporality: Temporality;
  readonly isExponential: boolean;
}

/** A metric has one kind of points. The metrics of the process have no exponential buckets. */
function hasNative({ points }: HistogramFamily): boolean {
  return points.some(({ native }) => native !== undefined);
}

/** @returns the commits of the points that were written. */
function writeHistograms(
  writer: WireWriter,
  family: HistogramFamily,
  from: number,
  { exported, temporality, isExponential }: HistogramOptions,
): readonly (() => void)[] {
  writeHead(writer, family);
  const data = writer.begin(isExponential ? fieldOfExponentialHistogram : fieldOfHistogram);
  const commits = family.points.slice(from, from + maxPoints).map((point) => {
    const timed = exported.histogram(family, point);
    if (isExponential) writeExponentialHistogram(writer, family, timed, exported.atMs);
    else writeHistogram(writer, family, timed, exported.atMs);
    return timed.commit;
  });
  writer.uint(2, aggregationTemporality[temporality]);
  writer.end(data);
  return commits;
}

function writeHistogram(
  writer: WireWriter,
  family: HistogramFamily,
  { point, startMs, sinceMs }: TimedPoint<HistogramPoint>,
  atMs: number,
): void {
  const field = writer.begin(1);
  writer.fixed64(2, nanoseconds(startMs));
  writer.fixed64(3, nanoseconds(atMs));
  writer.fixed64(4, BigInt(countOf(point)));
  writer.double(5, point.sum);
  // A summary has a sum and a count only.
  if (family.type === "histogram") {
    writer.packedFixed64(6, point.counts);
    writer.packedDoubles(7, family.bounds);
  }
  writeExemplars(writer, 8, point, sinceMs);
  writeAttributes(writer, 9, attributesOf(family, point.labels));
  writer.end(field);
}

function writeExponentialHistogram(
  writer: WireWriter,
  family: HistogramFamily,
  { point, startMs, sinceMs }: TimedPoint<HistogramPoint>,
  atMs: number,
): void {
  const { schema, zeros, offset, counts }: ExponentialCounts =
    point.native ?? countsOfBounds(family.bounds, point.counts);
  const field = writer.begin(1);
  writeAttributes(writer, 1, attributesOf(family, point.labels));
  writer.fixed64(2, nanoseconds(startMs));
  writer.fixed64(3, nanoseconds(atMs));
  writer.fixed64(4, BigInt(countOf(point)));
  writer.double(5, point.sum);
  writer.sint(6, schema);
  writer.fixed64(7, BigInt(zeros));
  const positive = writer.begin(8);
  writer.sint(1, offset);
  writer.packedUints(2, counts);
  writer.end(positive);
  writeExemplars(writer, 11, point, sinceMs);
  writer.double(14, zeroThreshold);
  writer.end(field);
}

/** @param sinceMs earlier ones have been exported. */
function writeExemplars(writer: WireWriter, field: number, { exemplars = [] }: HistogramPoint, sinceMs: number): void {
  for (const exemplar of exemplars) {
    if (exemplar !== undefined && exemplar.atMs >= sinceMs) writeExemplar(writer, field, exemplar);
  }
}

function writeExemplar(writer: WireWriter, number: number, { value, atMs, traceId, spanId }: Exemplar): void {
  const field = writer.begin(number);
  writer.fixed64(2, nanoseconds(atMs));
  writer.double(3, value);
  writer.bytes(4, Buffer.from(spanId, "hex"));
  writer.bytes(5, Buffer.from(traceId, "hex"));
  writer.end(field);
}

/** A label without a value is none, as in Prometheus. */
function attributesOf({ instrument }: MetricFamily, labels: Labels): readonly (readonly [string, string])[] {
  return Object.entries(labels).flatMap(([label, value]) =>
    value === "" ? [] : [[instrument?.attributes[label] ?? label, value] as const],
  );
}

function writeAttributes(writer: WireWriter, field: number, attributes: readonly (readonly [string, string])[]): void {
  for (const [name, text] of attributes) {
    const attribute = writer.begin(field);
    writer.string(1, name);
    const value = writer.begin(2);
    writer.presentString(1, text);
    writer.end(value);
    writer.end(attribute);
  }
}

function nanoseconds(ms: number): bigint {
  return BigInt(Math.round(ms)) * 1_000_000n;
}
