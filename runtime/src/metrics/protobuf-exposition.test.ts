/** The protobuf format, read by the reader of protobuf that is independent of the writer. */
import protobuf from "protobufjs";
import { describe, expect, test } from "vitest";
import { FakeClock } from "../testing/fake-clock.ts";
import {
  createFamilies,
  keepNative,
  type MetricsSnapshot,
  mergeMetrics,
  SeriesBound,
  takeSnapshot,
} from "./metrics.ts";
import { familiesOf, type HistogramKind, type MetricFamily } from "./metric-families.ts";
import { metricsPage } from "./metrics-page.ts";
import { renderProtobuf } from "./protobuf-exposition.ts";

/** The part of prometheus/client_model that is used. */
const { root } = protobuf.parse(`
syntax = "proto2";
message MetricFamily { optional string name = 1; optional string help = 2; optional uint32 type = 3; repeated Metric metric = 4; }
message Metric {
  repeated LabelPair label = 1; optional Value gauge = 2; optional Value counter = 3; optional Summary summary = 4;
  optional Histogram histogram = 7;
}
message LabelPair { optional string name = 1; optional string value = 2; }
message Value { optional double value = 1; }
message Summary { optional uint64 sample_count = 1; optional double sample_sum = 2; }
message Histogram {
  optional uint64 sample_count = 1; optional double sample_sum = 2; repeated Bucket bucket = 3;
  optional sint32 schema = 5; optional double zero_threshold = 6; optional uint64 zero_count = 7;
  repeated BucketSpan positive_span = 12; repeated sint64 positive_delta = 13;
}
message Bucket { optional uint64 cumulative_count = 1; optional double upper_bound = 2; optional Exemplar exemplar = 3; }
message BucketSpan { optional sint32 offset = 1; optional uint32 length = 2; }
message Exemplar { repeated LabelPair label = 1; optional double value = 2; optional Timestamp timestamp = 3; }
message Timestamp { optional int64 seconds = 1; optional int32 nanos = 2; }
`);
const metricFamily = root.lookupType("MetricFamily");

interface Histogram {
  readonly sampleCount: number;
  readonly sampleSum: number;
  readonly bucket: readonly { readonly cumulativeCount: number; readonly upperBound: number }[];
  readonly schema?: number;
  readonly zeroCount?: number;
  readonly positiveSpan?: readonly { readonly offset: number; readonly length: number }[];
  readonly positiveDelta?: readonly number[];
}

interface DecodedFamily {
  readonly name: string;
  readonly type: number;
  readonly metric: readonly { readonly histogram?: Histogram }[];
}

function decoded(bytes: Uint8Array): readonly DecodedFamily[] {
  const reader = protobuf.Reader.create(bytes);
  const families: DecodedFamily[] = [];
  while (reader.pos < reader.len) {
    families.push(metricFamily.toObject(metricFamily.decodeDelimited(reader), { longs: Number }) as DecodedFamily);
  }
  return families;
}

/** The counts of native buckets by the index of Prometheus, without empty ones. */
function nativeCounts({ positiveSpan = [], positiveDelta = [] }: Histogram): ReadonlyMap<number, number> {
  const counts = new Map<number, number>();
  const deltas = positiveDelta.values();
  let [index, count] = [0, 0];
  for (const { offset, length } of positiveSpan) {
    index += offset;
    for (let at = 0; at < length; at++) {
      count += deltas.next().value ?? Number.NaN;
      if (count > 0) counts.set(index, count);
      index++;
    }
  }
  return counts;
}

const table = {
  requests: { name: "test_requests_total", type: "counter", help: "Requests.", labels: ["route"] },
  active: { name: "test_active", type: "gauge", help: "Active.", labels: [] },
  duration: {
    name: "test_duration_seconds",
    type: "histogram",
    help: "Durations.",
    labels: ["listener", "route"],
    summedLabels: ["route"],
    buckets: [0.1, 1],
  },
} as const;

function durationIn(snapshots: readonly MetricsSnapshot[], bound?: SeriesBound): readonly Histogram[] {
  const families = decoded(renderProtobuf(familiesOf(table, snapshots, bound)));
  const metrics = families.find(({ name }) => name === "test_duration_seconds")?.metric ?? [];
  return metrics.flatMap(({ histogram }) => histogram ?? []);
}

describe("the protobuf format", () => {
  test("has counters, gauges, summaries and histograms, with exemplars", () => {
    const span = { traceId: "ab".repeat(16), spanId: "cd".repeat(8), atMs: 1_700, value: 0.5 };
    const families: readonly MetricFamily[] = [
      { name: "c_total", help: "C.", type: "counter", points: [{ labels: { code: "200", reason: "" }, value: 3 }] },
      { name: "g", help: "G.", type: "gauge", points: [{ labels: {}, value: -1.5 }] },
      { name: "empty", help: "E.", type: "gauge", points: [] },
      { name: "s", help: "S.", type: "summary", bounds: [1], points: [{ labels: {}, counts: [2, 1], sum: 4 }] },
      {
        ...{ name: "h", help: "H.", type: "histogram", bounds: [1] },
        points: [{ labels: {}, counts: [2, 1], sum: 4, exemplars: [span, undefined] }],
      },
    ];
    const label = [
      { name: "code", value: "200" },
      { name: "reason", value: "" },
    ];
    const exemplar = {
      label: [
        { name: "trace_id", value: span.traceId },
        { name: "span_id", value: span.spanId },
      ],
      value: 0.5,
      timestamp: { seconds: 1, nanos: 700_000_000 },
    };
    expect(decoded(renderProtobuf(families))).toEqual([
      { name: "c_total", help: "C.", type: 0, metric: [{ label, counter: { value: 3 } }] },
      { name: "g", help: "G.", type: 1, metric: [{ gauge: { value: -1.5 } }] },
      { name: "s", help: "S.", type: 2, metric: [{ summary: { sampleCount: 3, sampleSum: 4 } }] },
      {
        ...{ name: "h", help: "H.", type: 4 },
        metric: [
          {
            histogram: {
              ...{ sampleCount: 3, sampleSum: 4 },
              bucket: [
                { cumulativeCount: 2, upperBound: 1, exemplar },
                { cumulativeCount: 3, upperBound: Number.POSITIVE_INFINITY },
              ],
            },
          },
        ],
      },
    ]);
  });

  test("has native histograms once they are kept, each series once, with the sum of its hidden labels", () => {
    const families = createFamilies(table);
    families.duration.cell("l", "a").observe(0.5);
    expect(durationIn([takeSnapshot(families)])[0]).not.toHaveProperty("schema");
    keepNative(families);
    families.duration.cell("l", "a").observe(1);
    families.duration.cell("l", "b").observe(3);
    families.duration.cell("l", "b").observe(0);
    const [duration, ...others] = durationIn([takeSnapshot(families)]);
    expect(others).toEqual([]);
    expect(duration).toMatchObject({ sampleCount: 4, sampleSum: 4.5, schema: 3, zeroCount: 1 });
    // The value before is counted as its bound, 1. 3 is in (2^(12/8), 2^(13/8)].
    expect(duration && nativeCounts(duration)).toEqual(
      new Map([
        [0, 2],
        [13, 1],
      ]),
    );
  });

  test("adds up threads, those that have ended and those that keep no native histograms", () => {
    const [one, other, ended] = [createFamilies(table), createFamilies(table), createFamilies(table)];
    keepNative(one);
    for (const [index, families] of [one, other, ended].entries()) {
      for (let n = 0; n <= index; n++) families.duration.cell("l", "a").observe(2);
    }
    const retired = mergeMetrics([takeSnapshot(ended)]);
    const [duration] = durationIn([takeSnapshot(one), takeSnapshot(other), retired]);
    expect(duration).toMatchObject({ sampleCount: 6, sampleSum: 12 });
    // Above all bounds, and not known better: twice the last one.
    expect(duration && nativeCounts(duration)).toEqual(new Map([[8, 6]]));
  });

  test("has the bound of series", () => {
    const families = createFamilies(table);
    keepNative(families);
    for (let n = 0; n < 5; n++) families.duration.cell(`l${n}`, "a").observe(4);
    const durations = durationIn([takeSnapshot(families)], new SeriesBound(50));
    expect(durations.map(({ sampleCount }) => sampleCount)).toEqual([1, 1, 3]);
    expect(durations.map((each) => [...nativeCounts(each)])).toEqual([[[16, 1]], [[16, 1]], [[16, 3]]]);
  });

  test("forgets native buckets with the last series that they belong to", () => {
    const models = { ...table, duration: { ...table.duration, labels: ["model"], summedLabels: [] } } as const;
    const families = createFamilies(models);
    keepNative(families);
    families.duration.cell("m").observe(2);
    families.duration.removeSeries("model", "m");
    families.duration.cell("m").observe(4);
    const [duration] = decoded(renderProtobuf(familiesOf(models, [takeSnapshot(families)]))).flatMap(({ metric }) =>
      metric.flatMap(({ histogram }) => histogram ?? []),
    );
    expect(duration && nativeCounts(duration)).toEqual(new Map([[16, 1]]));
  });

  test("is shorter than 1 KiB for a histogram whose values have all sizes", () => {
    const families = createFamilies({ ...table, duration: { ...table.duration, buckets: [0.001, 0.01, 0.1, 1, 10] } });
    keepNative(families);
    const cell = families.duration.cell("namespace/gateway/listener", "route");
    for (let at = 0; at < 240; at++) {
      for (let n = 0; n < 1_000 + 37 * (at % 9); n++) cell.observe(1e-6 * 2 ** ((at + 0.5) / 8));
    }
    const [duration] = durationIn([takeSnapshot(families)]);
    expect(duration && nativeCounts(duration).size).toBe(240);
    expect(renderProtobuf(familiesOf(table, [takeSnapshot(families)]).slice(2)).length).toBeLessThan(1_024);
  });
});

test("a page asks for native histograms for the protobuf format only", async () => {
  const asked: HistogramKind[] = [];
  const clock = new FakeClock();
  const page = metricsPage((histograms) => {
    asked.push(histograms);
    return Promise.resolve([{ name: "c_total", help: "C.", type: "counter", points: [{ labels: {}, value: 1 }] }]);
  }, clock);
  const prometheus =
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6," +
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
  const { contentType, body } = await page(prometheus);
  expect(contentType).toBe(
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
  );
  expect(decoded(Buffer.from(body))).toMatchObject([{ name: "c_total" }]);
  expect((await page("text/plain")).body).toContain("c_total 1");
  expect((await page("application/openmetrics-text")).body).toContain("# EOF");
  expect(asked).toEqual(["native", "classic", "classic"]);
});
