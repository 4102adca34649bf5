import { expect, test } from "vitest";
import { Http1Pipeline } from "./http1-pipeline.ts";

const nothing = (): void => undefined;

test.each([
  { name: "sixteen small requests", length: 100, count: 16 },
  { name: "two requests with heads of 40,000 characters", length: 40_000, count: 2 },
])("no more is read while $name wait, until one of them begins", ({ length, count }) => {
  const pipeline = new Http1Pipeline();
  expect(pipeline.tryBegin()).toBe(true);
  for (let at = 1; at < count; at++) pipeline.wait(nothing, length);
  expect(pipeline.isFull).toBe(false);
  pipeline.wait(nothing, length);
  expect(pipeline.isFull).toBe(true);
  pipeline.next();
  expect(pipeline.isFull).toBe(false);
});
