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

  test("reports every problem of every file and fails", async () => {
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

  test("reports limits that the store cannot count", async () => {
    const text = "domain: d\ndescriptors:\n  - key: a\n    rate_limits: [{unit: day, requests_per_unit: 5}]\n";
    await writeFile(join(folder, "a.yaml"), text);
    expect((await checkConfig(folder, false)).exitCode).toBe(0);
    expect(await checkConfig(folder, false, { withoutGroups: "memcache" })).toEqual({
      lines: [
        `error: ${folder}/a.yaml:4:18 a.yaml: rate_limits cannot be counted with BACKEND_TYPE=memcache (accepted: memory, redis)`,
        "error loading rate limit configs: 1 problems",
      ],
      exitCode: 1,
    });
  });

  const limit = (value: string) =>
    `domain: d\ndescriptors:\n  - key: k\n    value: ${value}\n    rate_limit: {unit: day, requests_per_unit: 5}\n`;
  const utf16be = (text: string) => Buffer.from(`\ufeff${text}`, "utf16le").swap16();

  test.each<[string, Buffer]>([
    ["UTF-8", Buffer.from(limit("café"))],
    ["UTF-8 with a byte order mark", Buffer.from(`\ufeff${limit("café")}`)],
    ["UTF-16, little end first", Buffer.from(`\ufeff${limit("café")}`, "utf16le")],
    ["UTF-16, big end first", utf16be(limit("café"))],
    ["lines that end with CR and LF", Buffer.from(limit("café").replaceAll("\n", "\r\n"))],
    ["lines that end with CR", Buffer.from(limit("café").replaceAll("\n", "\r"))],
    ["tags of YAML's own types", Buffer.from(limit("!!str 5"))],
  ])("reads a file of %s", async (_, bytes) => {
    await writeFile(join(folder, "a.yaml"), bytes);
    expect(await checkConfig(folder, false)).toEqual({
      lines: ["all rate limit configs ok (1 files, 1 domains, 1 limits)"],
      exitCode: 0,
    });
  });

  const tags = "accepted are !!str, !!int, !!float, !!bool and !!null";
  test.each<[string, Buffer, string]>([
    [
      "Latin-1",
      Buffer.from(limit("café"), "latin1"),
      " a.yaml: error loading config file: the text is neither UTF-8 nor UTF-16",
    ],
    ["half of a UTF-16 character", utf16be(limit("v")).subarray(0, -1), "neither UTF-8 nor UTF-16"],
    [
      "a control character",
      Buffer.from(limit("a\u0007b")),
      "a.yaml:4:13 a.yaml: error loading config file: control characters are not allowed, found U+0007",
    ],
    [
      "a line break of YAML 1.1",
      Buffer.from(limit("a\u2028b")),
      "a.yaml:4:13 a.yaml: error loading config file: control characters are not allowed, found U+2028",
    ],
    [
      "a timestamp",
      Buffer.from(limit("!!timestamp 2001-01-01")),
      `a.yaml:4:24 a.yaml: error loading config file: the tag !!timestamp is not supported; ${tags}`,
    ],
    ["bytes in base64", Buffer.from(limit("!!binary aGk=")), `the tag !!binary is not supported; ${tags}`],
    ["a tag of one's own", Buffer.from(limit("!secret x")), `the tag !secret is not supported; ${tags}`],
    ["a set", Buffer.from("domain: d\ndescriptors: !!set {a}\n"), `the tag !!set is not supported; ${tags}`],
    [
      "a merge of what is no map",
      Buffer.from("domain: d\n<<: 5\n"),
      "map merge requires map or sequence of maps as the value",
    ],
    [
      "a merge of a list with such",
      Buffer.from("domain: d\n<<: [{descriptors: []}, 5]\n"),
      "map merge requires map or sequence of maps as the value",
    ],
  ])("rejects a file with %s", async (_, bytes, problem) => {
    await writeFile(join(folder, "a.yaml"), bytes);
    const { lines, exitCode } = await checkConfig(folder, false);
    expect(lines[0]).toMatch(/^error: /);
    expect(lines[0]).toContain(problem);
    expect(exitCode).toBe(1);
  });

  test("fails for a folder that is not there", async () => {
    const { lines, exitCode } = await checkConfig(join(folder, "missing"), false);
    expect(lines[0]).toMatch(/^error opening directory .*missing: /);
    expect(exitCode).toBe(1);
  });
});
