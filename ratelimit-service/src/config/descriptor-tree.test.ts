import { expect, test } from "vitest";
import type { DescriptorSpec } from "./descriptor-spec.ts";
import { buildDomain, maxPathCharacters } from "./descriptor-tree.ts";

const descriptor = (key: string, descriptors: readonly DescriptorSpec[] = []): DescriptorSpec => ({
  ...{ key, value: "", descriptors, shadowMode: false, quotaMode: false },
  ...{ detailedMetric: false, valueToMetric: false, shareThreshold: false },
});
const manyBelow = (key: string) => [
  descriptor(
    key,
    Array.from({ length: 60_000 }, (_, index) => descriptor(`k${index}`)),
  ),
];

test.each([
  ["a long key above many descriptors", "d", "x".repeat(1_000_000)],
  ["a long domain", "d".repeat(1_000_000), "x"],
])("%s is rejected with one problem", (_, domain, key) => {
  const { level, problems } = buildDomain({ key: "a.yaml", domain, descriptors: manyBelow(key) });
  expect(level).toBeUndefined();
  expect(problems.map(({ message }) => message)).toEqual([
    `the paths of all descriptors have more than ${maxPathCharacters} characters`,
  ]);
});

test("100,000 descriptors with usual keys are accepted", () => {
  const descriptors = Array.from({ length: 100_000 }, (_, index) => descriptor(`remote_address-of-a-client-${index}`));
  expect(buildDomain({ key: "a.yaml", domain: "production", descriptors }).problems).toEqual([]);
});

test("messages show the beginning of long names", () => {
  const key = "k".repeat(100_000);
  const spec = { key: "n".repeat(100_000), domain: "d", descriptors: [descriptor(key), descriptor(key)] };
  const [problem] = buildDomain(spec).problems;
  expect(problem?.message).toMatch(/^duplicate descriptor composite key 'd\.k{498}…'$/);
  expect(problem?.resource).toHaveLength(501);
});
