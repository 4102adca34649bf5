/** The messages of exports, read by the reader of protobuf that is independent of the writer. */
import protobuf from "protobufjs";
import { describe, expect, test } from "vitest";
import { ExponentialBuckets } from "../metrics/exponential-buckets.ts";
import type { HistogramKind, MetricFamily } from "../metrics/metric-families.ts";
import { FakeClock } from "../testing/fake-clock.ts";
import { MetricExport } from "./metric-export.ts";
import type { MetricExportSettings, Temporality } from "./metric-export-settings.ts";

/** The part of opentelemetry-proto that is used. */
const { root } = protobuf.parse(`
syntax = "proto3";
message Request { repeated ResourceMetrics resource_metrics = 1; }
message ResourceMetrics { Resource resource = 1; repeated ScopeMetrics scope_metrics = 2; }
message Resource { repeated KeyValue attributes = 1; }
message ScopeMetrics { Scope scope = 1; repeated Metric metrics = 2; }
message Scope { string name = 1; string version = 2; }
message KeyValue { string key = 1; Value value = 2; }
message Value { string string_value = 1; }
message Metric {
  string name = 1; string description = 2; string unit = 3;
  oneof data { Gauge gauge = 5; Sum sum = 7; Histogram histogram = 9; ExponentialHistogram exponential_histogram = 10; }
}
message Gauge { repeated Point data_points = 1; }
message Sum { repeated Point data_points = 1; uint32 aggregation_temporality = 2; bool is_monotonic = 3; }
message Histogram { repeated HistogramPoint data_points = 1; uint32 aggregation_temporality = 2; }
message Point { repeated KeyValue attributes = 7; fixed64 start_time_unix_nano = 2; fixed64 time_unix_nano = 3; double as_double = 4; }
message HistogramPoint {
  repeated KeyValue attributes = 9; fixed64 start_time_unix_nano = 2; fixed64 time_unix_nano = 3; fixed64 count = 4;
  double sum = 5; repeated fixed64 bucket_counts = 6; repeated double explicit_bounds = 7; repeated Exemplar exemplars = 8;
}
message ExponentialHistogram { repeated ExponentialPoint data_points = 1; uint32 aggregation_temporality = 2; }
message ExponentialPoint {
  repeated KeyValue attributes = 1; fixed64 start_time_unix_nano = 2; fixed64 time_unix_nano = 3; fixed64 count = 4;
  double sum = 5; sint32 scale = 6; fixed64 zero_count = 7; Buckets positive = 8; repeated Exemplar exemplars = 11;
  double zero_threshold = 14;
}
message Buckets { sint32 offset = 1; repeated uint64 bucket_counts = 2; }
message Exemplar { fixed64 time_unix_nano = 2; double as_double = 3; bytes span_id = 4; bytes trace_id = 5; }
`);
const request = root.lookupType("Request");

interface Point {
  readonly startTimeUnixNano: number;
  readonly timeUnixNano: number;
  readonly asDouble?: number;
  readonly count?: number;
  readonly sum?: number;
  readonly bucketCounts?: readonly number[];
  readonly positive?: { readonly bucketCounts: readonly number[] };
  readonly exemplars?: readonly { readonly traceId: string }[];
  readonly attributes?: readonly { readonly key: string; readonly value: { readonly stringValue: string } }[];
}

interface Metric {
  readonly name: string;
  readonly unit?: string;
  readonly sum?: { readonly dataPoints: readonly Point[]; readonly aggregationTemporality: number };
  readonly histogram?: { readonly dataPoints: readonly Point[] };
  readonly exponentialHistogram?: { readonly dataPoints: readonly Point[]; readonly aggregationTemporality: number };
}

interface Decoded {
  readonly resourceMetrics: readonly {
    readonly resource: { readonly attributes: readonly object[] };
    readonly scopeMetrics: readonly { readonly scope: object; readonly metrics: readonly Metric[] }[];
  }[];
}

function decoded(bytes: Buffer): Decoded {
  return request.toObject(request.decode(bytes), { longs: Number, bytes: String }) as Decoded;
}

const metricsIn = ({ resourceMetrics }: Decoded): readonly Metric[] =>
  resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics));

const counter = (value: number): MetricFamily => ({
  name: "requests_total",
  help: "Requests.",
  type: "counter",
  points: [{ labels: { code: "200", reason: "" }, value }],
});

/** An export of what `families` holds, to a collector that takes messages while `isAway` is false. */
function exportOf(
  families: MetricFamily[],
  temporality: Temporality = "cumulative",
  histograms: HistogramKind = "classic",
) {
  const clock = new FakeClock();
  const settings: MetricExportSettings = {
    ...{ protocol: "http/protobuf", intervalMs: 60_000, timeoutMs: 30_000, temporality, histograms },
    resource: { "service.name": "edge" },
  };
  const collector = { isAway: false, messages: [] as Buffer[], closed: 0 };
  const ended: string[] = [];
  const problems: string[] = [];
  const metricExport = new MetricExport(
    {
      ...{ settings, clock, scope: { name: "gateway-proxy", version: "1" } },
      collect: () => Promise.resolve(families),
      observer: {
        ended: (outcome, points) => void ended.push(`${outcome} ${points}`),
        problem: (message) => void problems.push(message),
      },
    },
    {
      send(message) {
        if (collector.isAway) return Promise.reject(new Error("connect ECONNREFUSED"));
        collector.messages.push(message);
        return Promise.resolve();
      },
      close: () => {
        collector.closed++;
      },
    },
  );
  /** Lets one interval pass, and returns the metrics that the collector got. */
  const next = async (): Promise<readonly Metric[]> => {
    const [before, known] = [ended.length, collector.messages.length];
    clock.advance(60_000);
    await expect.poll(() => ended.length).toBe(before + 1);
    return collector.messages.slice(known).flatMap((message) => metricsIn(decoded(message)));
  };
  const pointOf = async (): Promise<Point | undefined> => (await next())[0]?.sum?.dataPoints[0];
  return { clock, collector, ended, problems, metricExport, next, pointOf };
}

const nanoseconds = (clock: FakeClock, agoMs = 0): number => (clock.nowMs() - agoMs) * 1_000_000;

describe("an export", () => {
  test("has the resource, the scope, and every metric with its unit and its attributes", async () => {
    const span = { traceId: "ab".repeat(16), spanId: "cd".repeat(8), atMs: 1, value: 0.2 };
    const families: MetricFamily[] = [
      counter(3),
      { name: "memory_bytes", help: "Memory.", type: "gauge", points: [{ labels: {}, value: 7 }] },
      {
        name: "gen_ai_server_request_duration_seconds",
        help: "Durations.",
        type: "histogram",
        bounds: [0.1, 1],
        instrument: {
          name: "gen_ai.server.request.duration",
          unit: "s",
          attributes: { gen_ai_provider_name: "gen_ai.provider.name" },
        },
        points: [
          {
            labels: { gen_ai_provider_name: "openai" },
            counts: [0, 2, 1],
            sum: 5.5,
            exemplars: [undefined, { ...span, atMs: 2_000_000_000_000 }, undefined],
          },
        ],
      },
    ];
    const { next, collector, ended, clock } = exportOf(families);
    const metrics = await next();
    const times = { startTimeUnixNano: nanoseconds(clock, 60_000), timeUnixNano: nanoseconds(clock) };
    expect(metrics).toEqual([
      {
        name: "requests_total",
        description: "Requests.",
        sum: {
          aggregationTemporality: 2,
          isMonotonic: true,
          dataPoints: [{ ...times, asDouble: 3, attributes: [{ key: "code", value: { stringValue: "200" } }] }],
        },
      },
      {
        name: "memory_bytes",
        description: "Memory.",
        unit: "By",
        gauge: { dataPoints: [{ ...times, startTimeUnixNano: times.timeUnixNano, asDouble: 7 }] },
      },
      {
        name: "gen_ai.server.request.duration",
        description: "Durations.",
        unit: "s",
        histogram: {
          aggregationTemporality: 2,
          dataPoints: [
            {
              ...times,
              count: 3,
              sum: 5.5,
              bucketCounts: [0, 2, 1],
              explicitBounds: [0.1, 1],
              exemplars: [
                {
                  timeUnixNano: 2_000_000_000_000_000_000,
                  asDouble: 0.2,
                  spanId: Buffer.from(span.spanId, "hex").toString("base64"),
                  traceId: Buffer.from(span.traceId, "hex").toString("base64"),
                },
              ],
              attributes: [{ key: "gen_ai.provider.name", value: { stringValue: "openai" } }],
            },
          ],
        },
      },
    ]);
    const [message] = collector.messages;
    expect(decoded(message ?? Buffer.alloc(0)).resourceMetrics).toMatchObject([
      {
        resource: { attributes: [{ key: "service.name", value: { stringValue: "edge" } }] },
        scopeMetrics: [{ scope: { name: "gateway-proxy", version: "1" } }],
      },
    ]);
    expect(ended).toEqual(["exported 3"]);
  });

  test("of many series is in messages that collectors accept", async () => {
    const points = Array.from({ length: 30_000 }, (_, n) => ({ labels: { route: `tenant/route-${n}` }, value: n }));
    const { next, collector, ended } = exportOf([{ name: "r_total", help: "R.", type: "counter", points }]);
    const metrics = await next();
    expect(metrics.flatMap(({ sum }) => sum?.dataPoints ?? [])).toHaveLength(30_000);
    expect(collector.messages.length).toBeGreaterThan(1);
    for (const { length } of collector.messages) expect(length).toBeLessThan(2_000_000);
    expect(ended).toEqual(["exported 30000"]);
  });

  test("does not begin before the last one has ended, and follows its rhythm", async () => {
    const families = [counter(1)];
    const { clock, metricExport, ended } = exportOf(families);
    clock.advance(59_999);
    expect(ended).toEqual([]);
    clock.advance(1);
    await expect.poll(() => ended).toEqual(["exported 1"]);
    await metricExport.close(1_000);
    clock.advance(600_000);
    expect(ended).toEqual(["exported 1", "exported 1"]);
  });

  test("at the end does not wait for a collector longer than it may", async () => {
    const clock = new FakeClock();
    const never = new Promise<void>(() => undefined);
    const settings: MetricExportSettings = {
      ...{ protocol: "grpc", intervalMs: 60_000, timeoutMs: 30_000, temporality: "cumulative", histograms: "classic" },
      resource: {},
    };
    const observer = { ended: () => undefined, problem: () => undefined };
    const collect = () => Promise.resolve([counter(1)]);
    const options = { settings, clock, scope: { name: "a", version: "" }, collect, observer };
    const metricExport = new MetricExport(options, { send: () => never, close: () => undefined });
    const closed = metricExport.close(2_000);
    clock.advance(2_000);
    await closed;
  });
});

describe("cumulative points", () => {
  test("begin when their series began", async () => {
    const families = [counter(1)];
    const { pointOf, next, clock } = exportOf(families);
    const startMs = clock.nowMs();
    expect(await pointOf()).toMatchObject({ startTimeUnixNano: startMs * 1_000_000, asDouble: 1 });
    families[0] = counter(4);
    expect(await pointOf()).toMatchObject({ startTimeUnixNano: startMs * 1_000_000, asDouble: 4 });
    families.length = 0;
    await next();
    families.push(counter(2));
    expect(await pointOf()).toMatchObject({ startTimeUnixNano: nanoseconds(clock, 60_000), asDouble: 2 });
  });

  test("begin again when a count falls", async () => {
    const families = [counter(5)];
    const { pointOf, clock } = exportOf(families);
    await pointOf();
    families[0] = counter(1);
    expect(await pointOf()).toMatchObject({ startTimeUnixNano: nanoseconds(clock, 60_000), asDouble: 1 });
  });
});

describe("delta points", () => {
  const histogram = (counts: readonly number[], sum: number): MetricFamily => ({
    ...{ name: "d_seconds", help: "D.", type: "histogram", bounds: [1] },
    points: [{ labels: {}, counts, sum }],
  });

  test("have what was counted since the last export, and no count is lost while the collector is away", async () => {
    const families = [counter(5)];
    const { pointOf, next, collector, ended, problems, clock } = exportOf(families, "delta");
    expect(await pointOf()).toMatchObject({ asDouble: 5 });
    families[0] = counter(7);
    expect(await pointOf()).toMatchObject({ startTimeUnixNano: nanoseconds(clock, 60_000), asDouble: 2 });
    collector.isAway = true;
    families[0] = counter(8);
    expect(await next()).toEqual([]);
    expect([ended.at(-1), problems]).toEqual(["failed 0", ["connect ECONNREFUSED"]]);
    collector.isAway = false;
    families[0] = counter(11);
    expect(await pointOf()).toMatchObject({ startTimeUnixNano: nanoseconds(clock, 120_000), asDouble: 4 });
    expect(await pointOf()).toMatchObject({ asDouble: 0 });
  });

  test("of histograms, too", async () => {
    const families = [histogram([1, 1], 3)];
    const { next } = exportOf(families, "delta");
    await next();
    families[0] = histogram([1, 3], 9);
    expect((await next())[0]?.histogram?.dataPoints).toMatchObject([{ count: 2, sum: 6, bucketCounts: [0, 2] }]);
  });

  test("have all of a count that has fallen, and what a new series has", async () => {
    const families = [counter(5)];
    const { pointOf } = exportOf(families, "delta");
    await pointOf();
    families[0] = counter(2);
    expect(await pointOf()).toMatchObject({ asDouble: 2 });
    families[0] = { ...counter(9), points: [{ labels: { code: "500" }, value: 9 }] } as MetricFamily;
    expect(await pointOf()).toMatchObject({ asDouble: 9 });
  });
});

describe("exponential histograms", () => {
  function histogram(...values: readonly number[]): MetricFamily {
    const buckets = new ExponentialBuckets();
    for (const value of values) buckets.add(value);
    const sum = values.reduce((total, value) => total + value, 0);
    const exemplar = { traceId: "ab".repeat(16), spanId: "cd".repeat(8), atMs: 2_000_000_000_000, value: 2 };
    const exemplars = [exemplar, undefined];
    const points = [{ labels: { route: "a" }, counts: [values.length, 0], sum, exemplars, native: buckets.counts() }];
    return { name: "d_seconds", help: "D.", type: "histogram", bounds: [1_000], points };
  }

  test("have the buckets, the zeros and the exemplars", async () => {
    const { next, clock } = exportOf([histogram(0, 1, 2, 2)], "cumulative", "native");
    expect((await next())[0]).toEqual({
      ...{ name: "d_seconds", description: "D.", unit: "s" },
      exponentialHistogram: {
        aggregationTemporality: 2,
        dataPoints: [
          {
            attributes: [{ key: "route", value: { stringValue: "a" } }],
            ...{ startTimeUnixNano: nanoseconds(clock, 60_000), timeUnixNano: nanoseconds(clock) },
            ...{ count: 4, sum: 5, scale: 3, zeroCount: 1, zeroThreshold: 2 ** -128 },
            // (2^(-1/8), 1] has 1, and (2^(7/8), 2] has 2.
            positive: { offset: -1, bucketCounts: [1, 0, 0, 0, 0, 0, 0, 0, 2] },
            exemplars: [expect.objectContaining({ asDouble: 2 })],
          },
        ],
      },
    });
  });

  test("have the values since the last export with delta temporality, also after the buckets became wider", async () => {
    const families = [histogram(0, 1)];
    const { next } = exportOf(families, "delta", "native");
    await next();
    families[0] = histogram(0, 1, 0, 1e-6, 1e6);
    const [metric] = await next();
    expect(metric?.exponentialHistogram).toMatchObject({ aggregationTemporality: 1 });
    expect(metric?.exponentialHistogram?.dataPoints).toMatchObject([{ count: 3, scale: 2, zeroCount: 1 }]);
    const [point] = metric?.exponentialHistogram?.dataPoints ?? [];
    expect(point?.positive?.bucketCounts.filter((count) => count !== 0)).toEqual([1, 1]);
  });

  test("are those with explicit bounds where a program has no exponential ones, or does not want them", async () => {
    const [classic] = [histogram(1)].map(({ points, ...family }) => ({
      ...family,
      points: points.map((point) => ({ ...point, native: undefined })),
    }));
    const withoutNative = await exportOf([classic as MetricFamily], "cumulative", "native").next();
    expect(withoutNative[0]?.histogram?.dataPoints).toMatchObject([{ count: 1, bucketCounts: [1, 0] }]);
    expect((await exportOf([histogram(1)]).next())[0]?.histogram?.dataPoints).toMatchObject([{ count: 1 }]);
  });
});
