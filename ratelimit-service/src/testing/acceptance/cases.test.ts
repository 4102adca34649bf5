import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { cases } from "./cases.ts";
import { casesTestedElsewhere } from "./cases-tested-elsewhere.ts";

test("each of the 73 acceptance cases is a row of the table or a test elsewhere", () => {
  const rows = cases.flatMap(({ id }) => [...id.matchAll(/\d+/g)].map(([number]) => Number(number)));
  const covered = new Set([...rows, ...Object.keys(casesTestedElsewhere).map(Number)]);
  const missing = Array.from({ length: 73 }, (_, i) => i + 1).filter((number) => !covered.has(number));
  expect(missing).toEqual([]);
});

test.each(Object.entries(casesTestedElsewhere))("case %s is where the list says", (_, { file, title }) => {
  expect(readFileSync(new URL(`../../${file}`, import.meta.url), "utf8")).toContain(title);
});
