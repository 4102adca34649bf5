/** Every field that docs/gateway-api.md calls served names a test that there is. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repository } from "./markdown.ts";

const page = readFileSync(join(repository, "docs/gateway-api.md"), "utf8");
/** Field, `yes` or `no`, evidence. */
const rows = [...page.matchAll(/^\| (.+?) +\| (yes|no) +\| (.+?) +\|$/gm)].map(
  ([, field = "", served, evidence = ""]) => ({
    field,
    served,
    evidence,
  }),
);

/** `file › title`, the file below test/integration or, with a folder, below the repository. */
function namedTests(evidence: string): readonly { readonly file: string; readonly title: string }[] {
  return [...evidence.matchAll(/`([\w./-]+\.test\.ts)` › ([^|)]+)/g)].map(([, file = "", title = ""]) => ({
    file: file.includes("/") ? file : `test/integration/${file}`,
    title: title.trim(),
  }));
}

function namedGoldens(evidence: string): readonly string[] {
  return (/golden ([\w, -]+)/.exec(evidence)?.[1] ?? "").split(", ").filter((name) => name !== "");
}

test("the page has a row per field", () => {
  expect(rows.length).toBeGreaterThan(30);
});

test.each(rows)("$field: $served", ({ served, evidence }) => {
  const tests = namedTests(evidence);
  const goldens = namedGoldens(evidence);
  if (served === "yes") expect(tests.length + goldens.length).toBeGreaterThan(0);
  for (const { file, title } of tests) expect(readFileSync(join(repository, file), "utf8")).toContain(title);
  for (const golden of goldens) {
    expect(existsSync(join(repository, "proxy/src/translate/testdata", `${golden}.in.yaml`)), golden).toBe(true);
  }
});
