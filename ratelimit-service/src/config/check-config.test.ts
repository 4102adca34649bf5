import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { checkConfig } from "./check-config.ts";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "ratelimit-check-"));
});

afterEach(() => rm(folder, { recursive: true, force: true }));

describe("checking a configuration folder", () => {
  test("says that all is well, and how much there is", async () => {
    await writeFile(
      join(folder, "a.yaml"),
      "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: day, requests_per_unit: 5}\n",
    );
    const { lines, exitCode } = await checkConfig(folder, false);
    expect(lines).toEqual(["all rate limit configs ok (1 files, 1 domains, 1 limits)"]);
    expect(exitCode).toBe(0);
  });

  test("tells every problem of every file and fails", async () => {
    await writeFile(join(folder, "a.yaml"), "domain: d\ndescriptors:\n  - value: v\n  - {key: k, unit: day}\n");
    await writeFile(
      join(folder, "b.yaml"),
      "domain: e\ndescriptors:\n  - key: k\n    rate_limit: {unit: foo, requests_per_unit: 5}\n",
    );
    const { lines, exitCode } = await checkConfig(folder, false);
    expect(lines).toEqual([
      `warning: ${folder}/a.yaml:4:14 a.yaml: key 'unit' means nothing in a descriptor and is ignored`,
      `error: ${folder}/a.yaml:3:5 a.yaml: descriptor has empty key`,
      `error: ${folder}/b.yaml:4:24 b.yaml: invalid rate limit unit 'foo' (accepted: second, minute, hour, day, week, month, year)`,
      "error loading rate limit configs: 2 problems",
    ]);
    expect(exitCode).toBe(1);
  });

  test("fails for a folder that is not there", async () => {
    const { lines, exitCode } = await checkConfig(join(folder, "missing"), false);
    expect(lines[0]).toMatch(/^error opening directory .*missing: /);
    expect(exitCode).toBe(1);
  });
});
