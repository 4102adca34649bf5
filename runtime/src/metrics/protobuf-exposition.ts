/**
 * Writes metrics in the protobuf format of Prometheus (`io.prometheus.client.MetricFamily` of prometheus/client_model,
 * each with its length before it), the only one with native histograms. A histogram has its buckets by bound, too.
 */
import { WireWriter } from "@gatewayproxy/protos/wire-writer";
import { type ExponentialCounts, zeroThreshold } from "./exponential-buckets.ts";
import {
  countOf,
  type HistogramFamily,
  type HistogramPoint,
  type Labels,
  type MetricFamily,
} from "./metric-families.ts";
import type { Exemplar } from "./metrics.ts";

/** `MetricType`, and the field of `Metric` with the value. */
const types = {
  counter: { type: 0, field: 3 },
  gauge: { type: 1, field: 2 },
  summary: { type: 2, field: 4 },
  histogram: { type: 4, field: 7 },
} as const;

/** Renders metrics in their order, without those that have no series. */
export function renderProtobuf(families: readonly MetricFamily[]): Buffer {
  const writer = new WireWriter();
  for (const family of families) {
    if (family.points.length === 0) continue;
    const message = writer.beginDelimited();
    writer.string(1, family.name);
    writer.string(2, family.help);
    writer.presentUint(3, types[family.type].type);
    if ("bounds" in family) {
      for (const point of family.points) {
        writeMetric(writer, family, point, () => writeHistogram(writer, family, point));
      }
    } else {
      for (const point of family.points) writeMetric(writer, family, point, () => writer.double(1, point.value));
    }
    writer.end(message);
  }
  return writer.take();
}

function writeMetric(
  writer: WireWriter,
  { type }: MetricFamily,
  { labels }: { readonly labels: Labels },
  writeValue: () => void,
): void {
  const metric = writer.begin(4);
  for (const [name, value] of Object.entries(labels)) writeLabel(writer, name, value);
  const field = writer.begin(types[type].field);
  writeValue();
  writer.end(field);
  writer.end(metric);
}

/** A label of a metric or of an exemplar. */
function writeLabel(writer: WireWriter, name: string, value: string): void {
  const label = writer.begin(1);
  writer.string(1, name);
  writer.presentString(2, value);
  writer.end(label);
}

/** A summary has a sum and a count only, in the same fields. */
function writeHistogram(writer: WireWriter, { type, bounds }: HistogramFamily, point: HistogramPoint): void {
  writer.presentUint(1, countOf(point));
  writer.double(2, point.sum);
  if (type === "summary") return;
  let cumulative = 0;
  for (const [at, count] of point.counts.entries()) {
    cumulative += count;
    const bucket = writer.begin(3);
    writer.presentUint(1, cumulative);
    writer.double(2, bounds[at] ?? Number.POSITIVE_INFINITY);
    const exemplar = point.exemplars?.[at];
    if (exemplar !== undefined) writeExemplar(writer, exemplar);
    writer.end(bucket);
  }
  if (point.native !== undefined) writeNative(writer, point.native);
}

function writeExemplar(writer: WireWriter, { traceId, spanId, value, atMs }: Exemplar): void {
  const exemplar = writer.begin(3);
  writeLabel(writer, "trace_id", traceId);
  writeLabel(writer, "span_id", spanId);
  writer.double(2, value);
  const timestamp = writer.begin(3);
  const ms = Math.round(atMs);
  writer.uint(1, Math.floor(ms / 1_000));
  writer.uint(2, (ms % 1_000) * 1_000_000);
  writer.end(timestamp);
  writer.end(exemplar);
}

/** The most empty buckets that are written as such: they are shorter than a new span. */
const maxEmpty = 2;

/** Buckets that follow each other. */
interface Span {
  /** From the end of the last span; of the first one its index. */
  readonly offset: number;
  length: number;
}

function writeNative(writer: WireWriter, { schema, zeros, offset, counts }: ExponentialCounts): void {
  const spans: Span[] = [];
  const deltas: number[] = [];
  let [end, last] = [0, 0];
  const add = (span: Span, count: number): void => {
    span.length++;
    deltas.push(count - last);
    last = count;
    end++;
  };
  for (const [at, count] of counts.entries()) {
    if (count === 0) continue;
    // Prometheus numbers a bucket by its upper bound.
    const index = offset + at + 1;
    let span = spans.at(-1);
    if (span === undefined || index - end > maxEmpty) {
      span = { offset: index - end, length: 0 };
      spans.push(span);
      end = index;
    }
    while (end < index) add(span, 0);
    add(span, count);
  }
  writer.sint(5, schema);
  writer.double(6, zeroThreshold);
  writer.presentUint(7, zeros);
  for (const span of spans) {
    const field = writer.begin(12);
    writer.sint(1, span.offset);
    writer.presentUint(2, span.length);
    writer.end(field);
  }
  writer.packedSints(13, deltas);
}
