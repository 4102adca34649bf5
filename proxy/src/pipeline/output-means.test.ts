import { expect, test } from "vitest";
import { OutputMeans } from "./output-means.ts";

const usage = (output: number, estimated = false) => ({ output, total: output, estimated });

test("the mean follows the responses of a model, rounded up", () => {
  const means = new OutputMeans();
  expect(means.of("m")).toBeUndefined();
  means.learn(usage(160), "m");
  expect(means.of("m")).toBe(160);
  means.learn(usage(0), "m");
  expect(means.of("m")).toBe(150);
  means.learn(usage(1), "m");
  expect(means.of("m")).toBe(141);
});

test("estimates and responses without output teach nothing", () => {
  const means = new OutputMeans();
  means.learn(usage(10, true), "m");
  means.learn({ total: 10, estimated: false }, "m");
  means.learn(usage(10), undefined);
  expect(means.of("m")).toBeUndefined();
});

test("the models of the latest responses are kept", () => {
  const means = new OutputMeans(2);
  for (const model of ["a", "b", "a", "c"]) means.learn(usage(1), model);
  expect(["a", "b", "c"].map((model) => means.of(model))).toEqual([1, undefined, 1]);
});
