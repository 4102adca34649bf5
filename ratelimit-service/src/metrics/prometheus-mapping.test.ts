import { describe, expect, test } from "vitest";
import { metricMapper, parsePrometheusMapping } from "./prometheus-mapping.ts";

const mapperOf = (text: string) => metricMapper(parsePrometheusMapping(text));

describe("a mapping", () => {
  test("takes a metric by its whole name, each star one part of it", () => {
    const map = mapperOf('mappings: [{match: "a.*.c.*", name: "x_$2", labels: {one: "${1}s"}}]');

    expect(map("a.b.c.d", "counter")).toMatchObject({ name: "x_d", labels: { one: "bs" } });
    for (const name of ["a.b.c", "a.b.c.d.e", "b.b.c.d", "a.b.b.c.d"]) {
      expect(map(name, "counter")?.name).toBe(name.replaceAll(".", "_"));
    }
  });

  test("asks its rules in their order, expressions after globs, and each for one type where it says so", () => {
    const map = mapperOf(`mappings:
  - {match: "b$", match_type: regex, name: regex}
  - {match: "a.b", name: gauge, match_metric_type: gauge}
  - {match: "a.*", name: first}
  - {match: "a.b", name: second}`);

    expect(map("a.b", "gauge")?.name).toBe("gauge");
    expect(map("a.b", "counter")?.name).toBe("first");
    expect(map("x.b", "counter")?.name).toBe("regex");
  });

  test("drops what a rule says is dropped", () => {
    expect(mapperOf('mappings: [{match: "a.*", action: drop}]')("a.b", "counter")).toBeUndefined();
  });

  test("makes a name of one that no rule takes", () => {
    expect(mapperOf("{}")("1a.b-c:d", "gauge")).toMatchObject({ name: "_1a_b_c:d", labels: {} });
  });

  test("has defaults for its rules and for what none takes", () => {
    const map = mapperOf(`defaults: {observer_type: histogram, histogram_options: {buckets: [2, 1]}, match_type: regex}
mappings: [{match: "^t", name: t}, {match: "^s", name: s, timer_type: summary, scale: 0.001}]`);

    expect(map("time", "observer")).toMatchObject({ name: "t", observer: "histogram", buckets: [1, 2], scale: 1 });
    expect(map("slow", "observer")).toMatchObject({ name: "s", observer: "summary", scale: 0.001 });
    expect(map("other", "observer")).toMatchObject({ name: "other", observer: "histogram", buckets: [1, 2] });
  });

  test.each([
    ["- a", "the file is not a mapping"],
    ["mappings: {}", "mappings is not a list"],
    ["maps: []", "the file.maps is not supported; accepted are defaults, mappings"],
    ["mappings: [{name: x}]", "mappings[0].match is not a text"],
    ["mappings: [{match: a*.b, name: x}]", 'mappings[0].match: "a*.b" is not a glob'],
    ['mappings: [{match: "(", match_type: regex, name: x}]', "mappings[0].match: "],
    ["mappings: [{match: a.b}]", "mappings[0].name is not a text"],
    ["mappings: [{match: a.b, name: 'a b'}]", 'mappings[0].name: "a b" is not the name of a metric'],
    ["mappings: [{match: a.b, name: x, labels: {a-b: c}}]", 'mappings[0].labels: "a-b" is not the name of a label'],
    ["mappings: [{match: a.b, name: x, match_metric_type: set}]", 'mappings[0].match_metric_type: "set" is none of'],
    ["mappings: [{match: a.b, name: x, ttl: 5s}]", "mappings[0].ttl is not supported"],
    ["mappings: [{match: a.b, name: x, summary_options: {}}]", "mappings[0].summary_options is not supported"],
    ["mappings: [{match: a.b, name: x, histogram_options: {buckets: [a]}}]", "buckets is not a list of numbers"],
    ["mappings: [", "Flow sequence"],
  ])("%s is rejected: %s", (text, problem) => {
    expect(() => parsePrometheusMapping(text)).toThrow(problem);
  });
});
