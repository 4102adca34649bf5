import { expect, test } from "vitest";
import { OutputMeans } from "./output-means.ts";

const usage = (output: number, estimated = false) => ({ output, total: output, estimated });

test("the mean follows the responses of a model, rounded up", () => {
  const means = new OutputMeans();
  expect(means.of("b", "m")).toBeUndefined();
  means.learn(usage(160), "b", "m");
  expect(means.of("b", "m")).toBe(160);
  means.learn(usage(0), "b", "m");
  expect(means.of("b", "m")).toBe(150);
  means.learn(usage(1), "b", "m");
  expect(means.of("b", "m")).toBe(141);
});

test("estimates and responses without output teach nothing", () => {
  const means = new OutputMeans();
  means.learn(usage(10, true), "b", "m");
  means.learn({ total: 10, estimated: false }, "b", "m");
  means.learn(usage(10), "b", undefined);
  expect(means.of("b", "m")).toBeUndefined();
});

test("the models of the latest responses are kept", () => {
  const means = new OutputMeans(2);
  for (const model of ["a", "b", "a", "c"]) means.learn(usage(1), "b", model);
  expect(["a", "b", "c"].map((model) => means.of("b", model))).toEqual([1, undefined, 1]);
});

test("each backend has its own means", () => {
  const means = new OutputMeans();
  means.learn(usage(1_000_000), "Backend/other/llm", "m");
  expect(means.of("Backend/default/llm", "m")).toBeUndefined();
});
