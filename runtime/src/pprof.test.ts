import { startCpuProfile } from "node:v8";
import { expect, test } from "vitest";
import { encodeCpuProfile } from "./pprof.ts";
import { readProfile } from "./testing/read-profile.ts";

test("names a regular expression by its source, which V8 writes into its JSON as it stands", () => {
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
