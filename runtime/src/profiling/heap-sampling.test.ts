import { expect, test } from "vitest";
import { collectGarbage, readHeapSamples, startHeapSampling } from "./heap-sampling.ts";
import { encodeHeapProfile } from "./pprof.ts";
import { readProfile } from "../testing/read-profile.ts";

test("names functions while their memory is in use", () => {
  startHeapSampling();
  const kept: unknown[] = [];
  function keepMemory() {
    for (let index = 0; index < 200_000; index++) kept.push({ index, text: `text ${index}` });
  }
  keepMemory();
  const { types, samples } = readProfile(encodeHeapProfile([{ thread: "main", json: readHeapSamples() }]));
  const bytes = samples.filter(({ stack }) => stack.includes("keepMemory")).map(({ values }) => values[0] ?? 0);

  expect(types).toEqual(["inuse_space/bytes"]);
  expect(new Set(samples.map(({ thread }) => thread))).toEqual(new Set(["main"]));
  expect(bytes.reduce((sum, each) => sum + each, 0)).toBeGreaterThan(1_000_000);
  expect(kept).toHaveLength(200_000);
});

const collected = Promise.withResolvers<string>();
/** Not a local variable, since a registry that is garbage itself calls nothing. */
const registry = new FinalizationRegistry(collected.resolve);

test("collects garbage on request", async () => {
  startHeapSampling();
  const makeGarbage = () => registry.register({}, "garbage");
  makeGarbage();
  collectGarbage();
  expect(await collected.promise).toBe("garbage");
});
