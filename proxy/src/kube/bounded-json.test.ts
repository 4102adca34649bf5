/** Objects of the API server are parsed as by JSON.parse, but for what is beyond the first members of a map. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { parseBounded } from "./bounded-json.ts";

const parsed = (value: unknown) => parseBounded(Buffer.from(JSON.stringify(value)));
const mapOf = (count: number, valueOf: (at: number) => unknown) =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, valueOf(at)]));

test("a map keeps its first 4,096 members, and its siblings stay", () => {
  const labels = mapOf(20_000, () => "");
  const metadata = {
    annotations: mapOf(6_000, (at) => ({ list: [at, { inner: '}],\\"' }] })),
    name: "n",
    labels,
    uid: "u",
  };
  const first = (map: object) => Object.fromEntries(Object.entries(map).slice(0, 4_096));
  expect(parsed({ kind: "Service", metadata, spec: { ports: [1, 2] } })).toEqual({
    kind: "Service",
    metadata: { ...metadata, annotations: first(metadata.annotations), labels: first(labels) },
    spec: { ports: [1, 2] },
  });
});

test("a map of 4,096 members and a list of any length stay", () => {
  const value = { labels: mapOf(4_096, (at) => `v${at}`), list: Array.from({ length: 50_000 }, (_, at) => at) };
  expect(parsed(value)).toEqual(value);
});

test("a text that is no JSON is rejected", () => {
  expect(() => parseBounded(Buffer.from(`{"a":"${"x".repeat(100_000)}`))).toThrow(SyntaxError);
});

test("any JSON without such maps is parsed as by JSON.parse", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = JSON.stringify([value, "x".repeat(66_000), value]);
      expect(parseBounded(Buffer.from(text))).toEqual(JSON.parse(text));
    }),
  );
});
