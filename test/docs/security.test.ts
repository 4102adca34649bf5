import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readPages, repository } from "./markdown.ts";

const page = readPages().find(({ path }) => path === "docs/security.md");
const findings = page?.text.split("\n## Findings\n")[1]?.split("\n## ")[0] ?? "";
const rows = [...findings.matchAll(/^\| ([A-Z]\d+|–) +\| (.+) \|$/gm)].map(([, id = "", cells = ""]) => {
  const [attack = "", now = "", tests = ""] = cells.split(" | ").map((cell) => cell.trim());
  const paths = [...tests.matchAll(/`([^`]+)`/g)].flatMap((match) => match[1] ?? []);
  return { id, attack, now, paths };
});

/** Test files, contracts that several of them run, and scripts that CI runs. */
const isTest = /\.test\.ts$|-contract\.ts$|^scripts\/check-.*\.sh$/;

/** The identifiers of one severity: `H1` to `H10`. */
function identifiers(severity: string, count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `${severity}${index + 1}`);
}

describe("the page on security", () => {
  test("has a row for each finding of the review", () => {
    const expected = [
      ...identifiers("C", 1),
      ...identifiers("H", 10),
      ...identifiers("M", 10),
      ...identifiers("L", 11),
    ];
    const found = new Set(rows.map(({ id }) => id).filter((id) => id !== "–"));
    expect([...found].sort()).toEqual([...expected].sort());
  });

  test.each(rows)("$id ($attack) names the rule, and tests that exist", ({ attack, now, paths }) => {
    expect(attack).not.toBe("");
    expect(now).not.toBe("");
    // A behavior that is only documented has no test.
    expect(paths.length > 0 || now.startsWith("Documented:")).toBe(true);
    expect(paths.filter((path) => !isTest.test(path) || !existsSync(join(repository, path)))).toEqual([]);
  });
});
