import { startCpuProfile } from "node:v8";
import { expect, test } from "vitest";
import { encodeCpuProfile, encodeHeapChange, encodeHeapProfile } from "./pprof.ts";
import { readProfile } from "../testing/read-profile.ts";

test("names a regular expression by its source, which V8 writes into its JSON without escapes", () => {
  const source = String.raw`(?:\d+[^"\\x]|\w\s)*\q"?$`;
  const expression = new RegExp(source);
  const text = "1234 abc".repeat(3_000);
  const profile = startCpuProfile();
  const end = Date.now() + 300;
  let found = 0;
  while (Date.now() < end) if (expression.test(text)) found++;
  const json = profile.stop();

  expect(found).toBe(0);
  expect(() => JSON.parse(json) as unknown).toThrow("JSON");
  const { samples } = readProfile(encodeCpuProfile([{ thread: "main", json }], 300));
  expect(samples.flatMap(({ stack }) => stack)).toContain(`RegExp: ${source}`);
});

const frame = (functionName: string) => ({ functionName, url: "file:///a.ts", lineNumber: 3 });
const heap = (sizes: Readonly<Record<string, number>>) => {
  const children = Object.entries(sizes).map(([name, selfSize]) => ({
    callFrame: frame(name),
    selfSize,
    children: [],
  }));
  return [{ thread: "main", json: JSON.stringify({ head: { callFrame: frame("(root)"), selfSize: 0, children } }) }];
};

test("profiles contain their sampling period", () => {
  const json = JSON.stringify({ nodes: [{ id: 1, callFrame: frame("(root)") }], samples: [], timeDeltas: [] });
  expect(readProfile(encodeCpuProfile([{ thread: "main", json }], 1)).period).toBe("1000000 cpu/nanoseconds");
  expect(readProfile(encodeHeapProfile(heap({ kept: 1 }))).period).toBe("524288 space/bytes");
});

test("a change of the heap is what was allocated, less what was freed", () => {
  const { samples } = readProfile(
    encodeHeapChange(heap({ grown: 10, gone: 7, kept: 5 }), heap({ grown: 30, kept: 5 }), 1),
  );
  const changes = samples.map(({ stack, values }) => [stack[0], values[0]]);
  expect(changes.toSorted()).toEqual([
    ["gone", -7],
    ["grown", 20],
  ]);
});
