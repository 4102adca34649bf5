import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { describeWith } from "./describe-with.ts";

describeWith(["curl"], "a suite whose program is there", (paths) => {
  test("receives the path of its binary", () => {
    const { stdout } = spawnSync(paths.curl, ["--version"], { encoding: "utf8" });
    expect(stdout).toMatch(/^curl \d/);
  });
});

/** Runs the fixture beside this file in a vitest process, on a machine without any program. */
function runWithoutPrograms(environment: Record<string, string>) {
  const empty = mkdtempSync(join(tmpdir(), "no-programs-"));
  try {
    const run = spawnSync(
      process.execPath,
      [
        "node_modules/vitest/vitest.mjs",
        "run",
        "--dir",
        "test/support/testdata",
        "--config",
        "test/support/testdata/vitest.config.ts",
      ],
      { encoding: "utf8", env: { PATH: empty, XDG_CACHE_HOME: empty, HOME: empty, NO_COLOR: "1", ...environment } },
    );
    return { status: run.status, output: run.stdout + run.stderr };
  } finally {
    rmSync(empty, { recursive: true });
  }
}

test("a suite without its program is skipped, counted and named at the end of the run", () => {
  const { status, output } = runWithoutPrograms({});
  expect(output).toContain("1 passed | 2 skipped");
  expect(output).toContain(
    "!! 2 tests SKIPPED because of missing programs: grpcurl. Run scripts/install-test-programs.sh to run them too.",
  );
  expect(status).toBe(0);
});

test("under CI=true a suite without its program fails", () => {
  const { status, output } = runWithoutPrograms({ CI: "true" });
  expect(output).toContain("grpcurl is not installed; run scripts/install-test-programs.sh");
  expect(status).toBe(1);
});
