import { Registry } from "prom-client";
import { describe, expect, test } from "vitest";
import { createFamilies, mergeMetrics, SeriesBound, takeSnapshot } from "./metrics.ts";
import { expositionContentTypes, formatOf, renderFamilies, renderMetricTable } from "./exposition.ts";
import { familiesOf } from "./metric-families.ts";
import { watchProcess } from "./process-metrics.ts";

const table = {
  requests: {
    name: "test_requests_total",
    type: "counter",
    help: "Requests that were served.",
    labels: ["route", "code"],
  },
  active: { name: "test_active", type: "gauge", help: "Requests in progress.", labels: [] },
  duration: {
    name: "test_duration_seconds",
    type: "histogram",
    help: "How long requests took.",
    labels: ["route"],
    buckets: [0.1, 1],
  },
} as const;

describe("cells", () => {
  test("are the same for the same label values", () => {
    const { requests } = createFamilies(table);
    requests.cell("a", 200).value++;
    requests.cell("a", 200).value++;
    requests.cell("a", 404).value++;
    expect(requests.snapshot().series).toEqual([
      { labels: ["a", "200"], data: [2] },
      { labels: ["a", "404"], data: [1] },
    ]);
  });

  test("of a metric without labels exist before the first event", () => {
    const { active } = createFamilies(table);
    expect(active.snapshot().series).toEqual([{ labels: [], data: [0] }]);
    active.cell().value += 2;
    expect(active.snapshot().series).toEqual([{ labels: [], data: [2] }]);
  });

  test("of a histogram count a value on a bound in the bucket below it", () => {
    const { duration } = createFamilies(table);
    for (const value of [0.05, 0.1, 0.5, 30]) duration.cell("a").observe(value);
    expect(duration.snapshot().series).toEqual([{ labels: ["a"], data: [2, 1, 1, 30.65] }]);
  });

  test("beyond the bound share one cell, so that label values from outside cannot fill the memory", () => {
    const { requests } = createFamilies(table);
    for (let n = 0; n < 10_500; n++) requests.cell(`route-${n}`, 200).value++;
    requests.cell("route-0", 200).value++;
    const { series } = requests.snapshot();
    expect(series).toHaveLength(10_001);
    expect(series[0]).toEqual({ labels: ["route-0", "200"], data: [2] });
    expect(series.at(-1)).toEqual({ labels: ["other", "other"], data: [500] });
  });
});

describe("mergeMetrics", () => {
  test("adds up threads series by series and keeps series that only one has", () => {
    const [one, two] = [createFamilies(table), createFamilies(table)];
    one.requests.cell("a", 200).value = 3;
    two.requests.cell("a", 200).value = 4;
    two.requests.cell("b", 200).value = 1;
    one.duration.cell("a").observe(0.5);
    two.duration.cell("a").observe(5);
    expect(mergeMetrics([one, two].map(takeSnapshot))).toEqual([
      {
        name: "test_requests_total",
        series: [
          { labels: ["a", "200"], data: [7] },
          { labels: ["b", "200"], data: [1] },
        ],
      },
      { name: "test_active", series: [{ labels: [], data: [0] }] },
      { name: "test_duration_seconds", series: [{ labels: ["a"], data: [0, 1, 1, 5.5] }] },
    ]);
  });

  test("distinguishes different label values", () => {
    const families = createFamilies(table);
    families.requests.cell('a","b', "c").value = 1;
    families.requests.cell("a", 'b","c').value = 1;
    expect(mergeMetrics([takeSnapshot(families)])[0]?.series).toHaveLength(2);
  });

  test("does not change the snapshots", () => {
    const families = createFamilies(table);
    const snapshot = takeSnapshot(families);
    mergeMetrics([snapshot, snapshot]);
    families.active.cell().value = 5;
    expect(snapshot[1]?.series).toEqual([{ labels: [], data: [0] }]);
  });
});

describe("renderFamilies", () => {
  test("writes the Prometheus text format, with buckets counted cumulatively", async () => {
    const families = createFamilies(table);
    families.requests.cell('a "quoted"\n', 200).value = 2;
    families.duration.cell("a").observe(0.05);
    families.duration.cell("a").observe(7);
    expect(await renderFamilies(familiesOf(table, [takeSnapshot(families)]))).toBe(
      [
        "# HELP test_requests_total Requests that were served.",
        "# TYPE test_requests_total counter",
        'test_requests_total{route="a \\"quoted\\"\\n",code="200"} 2',
        "",
        "# HELP test_active Requests in progress.",
        "# TYPE test_active gauge",
        "test_active 0",
        "",
        "# HELP test_duration_seconds How long requests took.",
        "# TYPE test_duration_seconds histogram",
        'test_duration_seconds_bucket{route="a",le="0.1"} 1',
        'test_duration_seconds_bucket{route="a",le="1"} 1',
        'test_duration_seconds_bucket{route="a",le="+Inf"} 2',
        'test_duration_seconds_sum{route="a"} 7.05',
        'test_duration_seconds_count{route="a"} 2',
        "",
      ].join("\n"),
    );
  });
});

describe("a bound of series", () => {
  const rendered = async (families: ReturnType<typeof createFamilies<typeof table>>, bound: SeriesBound) =>
    (await renderFamilies(familiesOf(table, [takeSnapshot(families)], bound)))
      .split("\n")
      .filter((line) => line.startsWith("test_re"));

  test("adds up label sets beyond it, and each label set keeps its series", async () => {
    const families = createFamilies(table);
    const bound = new SeriesBound(2);
    families.requests.cell("a", 200).value = 1;
    expect(await rendered(families, bound)).toEqual(['test_requests_total{route="a",code="200"} 1']);
    const fresh = createFamilies(table);
    for (const [at, route] of ["d", "c", "b", "a"].entries()) fresh.requests.cell(route, 200).value = 10 ** at;
    expect(await rendered(fresh, bound)).toEqual([
      'test_requests_total{route="d",code="200"} 1',
      'test_requests_total{route="other",code="other"} 110',
      'test_requests_total{route="a",code="200"} 1000',
    ]);
    fresh.requests.removeSeries("route", "d");
    expect(await rendered(fresh, bound)).toEqual([
      'test_requests_total{route="c",code="200"} 10',
      'test_requests_total{route="other",code="other"} 100',
      'test_requests_total{route="a",code="200"} 1000',
    ]);
  });

  test("is a 25th for histograms", async () => {
    const families = createFamilies(table);
    for (let n = 0; n < 9; n++) families.duration.cell(`r${n}`).observe(0.5);
    const text = await renderFamilies(familiesOf(table, [takeSnapshot(families)], new SeriesBound(100)));
    expect(text.match(/^test_duration_seconds_count.*/gm)).toEqual([
      ...[0, 1, 2, 3].map((n) => `test_duration_seconds_count{route="r${n}"} 1`),
      'test_duration_seconds_count{route="other"} 5',
    ]);
  });
});

test("series are added up over labels that are not exposed", async () => {
  const summed = { duration: { ...table.duration, labels: ["listener", "route"], summedLabels: ["route"] } } as const;
  const families = createFamilies(summed);
  families.duration.cell("l", "a").observe(0.5);
  families.duration.cell("l", "b").observe(0.5);
  expect(await renderFamilies(familiesOf(summed, [takeSnapshot(families)]))).toContain(
    'test_duration_seconds_count{listener="l"} 2',
  );
  expect(renderMetricTable(summed)).not.toContain("route");
});

describe("OpenMetrics", () => {
  const spanOf = (digit: string, atMs: number) => ({ traceId: digit.repeat(32), spanId: digit.repeat(16), atMs });

  test("has the last exemplar of each bucket, of all threads", async () => {
    const [one, two] = [createFamilies(table), createFamilies(table)];
    one.duration.cell("a").observe(0.5, spanOf("1", 1_000));
    one.duration.cell("a").observe(0.6, spanOf("2", 2_000));
    one.duration.cell("a").observe(0.7);
    two.duration.cell("a").observe(0.8, spanOf("3", 1_500));
    two.duration.cell("a").observe(7, spanOf("4", 1_700));
    const text = await renderFamilies(familiesOf(table, [one, two].map(takeSnapshot)), "openmetrics");
    // Without series, a metric is left out.
    expect(text.split("\n")).toEqual([
      "# HELP test_active Requests in progress.",
      "# TYPE test_active gauge",
      "test_active 0",
      "# HELP test_duration_seconds How long requests took.",
      "# TYPE test_duration_seconds histogram",
      'test_duration_seconds_bucket{route="a",le="0.1"} 0',
      `test_duration_seconds_bucket{route="a",le="1"} 4 # {trace_id="${"2".repeat(32)}",span_id="${"2".repeat(16)}"} 0.6 2`,
      `test_duration_seconds_bucket{route="a",le="+Inf"} 5 # {trace_id="${"4".repeat(32)}",span_id="${"4".repeat(16)}"} 7 1.7`,
      'test_duration_seconds_sum{route="a"} 9.6',
      'test_duration_seconds_count{route="a"} 5',
      "# EOF",
      "",
    ]);
    expect(await renderFamilies(familiesOf(table, [takeSnapshot(one)]))).not.toContain("trace_id");
  });

  test("keeps exemplars of label sets that are added up", () => {
    const families = createFamilies(table);
    for (let n = 0; n < 3; n++) families.duration.cell(`r${n}`).observe(0.5, spanOf(String(n), n));
    const [, , duration] = familiesOf(table, [takeSnapshot(families)], new SeriesBound(1));
    expect(duration).toMatchObject({
      points: [
        { labels: { route: "r0" }, exemplars: [undefined, { traceId: "0".repeat(32) }, undefined] },
        {
          labels: { route: "other" },
          counts: [0, 2, 0],
          exemplars: [undefined, { traceId: "2".repeat(32) }, undefined],
        },
      ],
    });
  });

  test("does not rename a counter without its suffix", async () => {
    const points = [{ labels: {}, value: 3 }];
    const text = await renderFamilies([{ name: "hits", help: "Hits.", type: "counter", points }], "openmetrics");
    expect(text).toBe("# HELP hits Hits.\n# TYPE hits unknown\nhits 3\n# EOF\n");
  });

  test.each([
    [undefined, "text"],
    ["*/*", "text"],
    ["text/plain;version=0.0.4", "text"],
    ["application/openmetrics-text", "openmetrics"],
    ["application/openmetrics-text;version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", "openmetrics"],
    ["application/openmetrics-text;version=1.0.0;q=0.5, text/plain;version=0.0.4;q=0.8", "text"],
    ["application/openmetrics-text;version=2.0.0,text/plain;q=0.1", "text"],
    ["application/openmetrics-text;q=0", "text"],
    ["application/openmetrics-text;q=nonsense, text/plain", "text"],
    ["application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", "protobuf"],
    ["application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text, text/plain;q=0.1", "text"],
    ["application/vnd.google.protobuf;encoding=delimited", "text"],
    [
      "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.3,application/openmetrics-text;q=0.5",
      "openmetrics",
    ],
  ])("is negotiated: %s", (accept, format) => {
    expect(formatOf(accept)).toBe(format);
  });
});

test("the types of the formats are those of the library that renders them", () => {
  expect(expositionContentTypes.text).toBe(Registry.PROMETHEUS_CONTENT_TYPE);
  expect(expositionContentTypes.openmetrics).toBe(Registry.OPENMETRICS_CONTENT_TYPE);
});

test("the process reports its processor time, its memory and its pauses", async () => {
  const families = await watchProcess().families();
  const text = await renderFamilies(families);
  expect(text).toMatch(/^process_resident_memory_bytes \d+$/m);
  expect(text).toMatch(/^process_cpu_seconds_total [\d.]+$/m);
  expect(families.find(({ name }) => name === "nodejs_gc_duration_seconds")?.type).toBe("histogram");
});

test("the table for the docs has a row for every metric and aligned columns", () => {
  expect(renderMetricTable(table)).toBe(
    [
      "| metric                  | type      | labels          | meaning                    |",
      "| ----------------------- | --------- | --------------- | -------------------------- |",
      "| `test_requests_total`   | counter   | `route`, `code` | Requests that were served. |",
      "| `test_active`           | gauge     | –               | Requests in progress.      |",
      "| `test_duration_seconds` | histogram | `route`         | How long requests took.    |",
      "",
    ].join("\n"),
  );
});
