import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { slowestFiles, totalsOf, type TestReport } from "../../scripts/test-totals.ts";

const path = "proxy/src/some.test.ts";

const green: TestReport = {
  success: true,
  numPassedTests: 12,
  numFailedTests: 0,
  numPendingTests: 0,
  numTodoTests: 0,
  testResults: [fileWith({ status: "passed", failureMessages: [] })],
  otherErrors: [],
};

function fileWith(test: { status: string; failureMessages: string[] }): TestReport["testResults"][number] {
  return {
    name: resolve(path),
    startTime: 0,
    endTime: 0,
    status: "passed",
    message: "",
    assertionResults: [{ fullName: " a limit holds", ...test }],
  };
}

test("a green run has its number of tests and no failure", () => {
  expect(totalsOf(green)).toEqual({ line: "12 passed, 0 failed", failed: false, findings: [], notRun: [] });
});

test("the slowest files of all runs come first", () => {
  const file = (name: string, startTime: number, endTime: number) => ({
    ...fileWith({ status: "passed", failureMessages: [] }),
    ...{ name: resolve(name), startTime, endTime },
  });
  const first = { ...green, testResults: [file("a.test.ts", 1_000, 2_500), file("b.test.ts", 0, 100)] };
  const second = { ...green, testResults: [file("c.test.ts", 500, 13_000)] };
  expect(slowestFiles([first, second], 2)).toEqual(["  12.5 s  c.test.ts", "   1.5 s  a.test.ts"]);
});

test("skipped tests are counted", () => {
  expect(totalsOf({ ...green, numPendingTests: 2, numTodoTests: 1 }).line).toBe("12 passed, 0 failed, 3 skipped");
});

test("each skipped test is named; those without a program are counted by the program", () => {
  const skip = (fullName: string, missingPrograms?: readonly string[]) => ({
    fullName,
    status: "skipped",
    failureMessages: [],
    ...(missingPrograms === undefined ? {} : { meta: { missingPrograms } }),
  });
  const file = {
    ...fileWith({ status: "passed", failureMessages: [] }),
    assertionResults: [
      skip("one more", ["envoy", "wrk"]),
      skip("the previous release, which this shallow clone lacks"),
      skip("and another", ["envoy", "wrk"]),
      skip("a third", ["redis-server"]),
      { fullName: "an idea", status: "todo", failureMessages: [] },
      { fullName: "one that ran", status: "passed", failureMessages: [] },
    ],
  };
  expect(totalsOf({ ...green, numPendingTests: 5, testResults: [file] }).notRun).toEqual([
    `${path}: the previous release, which this shallow clone lacks`,
    `${path}: an idea (to be written)`,
    `${path}: 2 tests, for want of envoy, wrk`,
    `${path}: 1 test, for want of redis-server`,
  ]);
});

describe("the end of a run", () => {
  /** Runs the script as `.ci/run` does, on a report and on lines of checks that were left out. */
  function endOf(report: TestReport, leftOut: string): readonly string[] {
    const folder = mkdtempSync(join(tmpdir(), "test-totals-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    writeFileSync(join(folder, "report.json"), JSON.stringify(report));
    writeFileSync(join(folder, "not-run"), leftOut);
    const script = join(import.meta.dirname, "../../scripts/test-totals.ts");
    const env = { ...process.env, NOT_RUN: join(folder, "not-run") };
    const output = execFileSync(process.execPath, [script, join(folder, "report.json")], { encoding: "utf8", env });
    return output.trimEnd().split("\n");
  }

  test("lists every check and test that did not run, and has the totals on the last line", () => {
    const skipped = { ...fileWith({ status: "skipped", failureMessages: [] }), status: "passed" };
    const report = { ...green, numPendingTests: 1, testResults: [skipped] };
    expect(endOf(report, "end-to-end tests: dockerd is not installed\nnpm audit: 405\n")).toEqual([
      "== the slowest files of tests",
      `   0.0 s  ${path}`,
      "== not run:",
      "   end-to-end tests: dockerd is not installed",
      "   npm audit: 405",
      `   ${path}: a limit holds`,
      "12 passed, 0 failed, 1 skipped",
    ]);
  });

  test("reports that everything ran", () => {
    expect(endOf(green, "").slice(-2)).toEqual(["== nothing was left out", "12 passed, 0 failed"]);
  });
});

test("a failed test fails the run, and is named with its reason", () => {
  const testResults = [
    fileWith({
      status: "failed",
      failureMessages: ["Error: 4 instead of 3\n    at some.test.ts:7\n    at run (node_modules/runner.js:1)"],
    }),
  ];
  expect(totalsOf({ ...green, success: false, numFailedTests: 1, testResults })).toEqual({
    line: "12 passed, 1 failed",
    failed: true,
    findings: [`!! failed: ${path}: a limit holds\n   Error: 4 instead of 3\n       at some.test.ts:7`],
    notRun: [],
  });
});

test("a test that passed only when it was retried does not fail the run, and is named", () => {
  const testResults = [fileWith({ status: "passed", failureMessages: ["Error: timed out"] })];
  expect(totalsOf({ ...green, testResults })).toEqual({
    line: "12 passed, 0 failed",
    failed: false,
    findings: [`~~ passed only when tried again: ${path}: a limit holds\n   Error: timed out`],
    notRun: [],
  });
});

test("a file that cannot be loaded counts as a failure, and is named with its reason", () => {
  const unloaded = {
    name: resolve(path),
    startTime: 0,
    endTime: 0,
    status: "failed",
    message: "Cannot find module",
    assertionResults: [],
  };
  expect(totalsOf({ ...green, success: false, testResults: [...green.testResults, unloaded] })).toEqual({
    line: "12 passed, 1 failed",
    failed: true,
    findings: [`!! not loaded: ${path}\n   Cannot find module`],
    notRun: [],
  });
});

test("an error of a hook, or outside of every test, counts as a failure, and is named", () => {
  const otherErrors = [`${path}: some limits: Error: the socket is open\n    at some.test.ts:9`];
  expect(totalsOf({ ...green, otherErrors })).toEqual({
    line: "12 passed, 1 failed",
    failed: true,
    findings: [`!! error: ${path}: some limits: Error: the socket is open\n       at some.test.ts:9`],
    notRun: [],
  });
});

test("the report of a run has the errors of its hooks and those outside of its tests", () => {
  const folder = mkdtempSync(join(tmpdir(), "test-totals-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const reporter = pathToFileURL(resolve("test/support/run-report.ts")).href;
  writeFileSync(
    join(folder, "vitest.config.mjs"),
    `import { RunReport } from "${reporter}";
    export default { test: { globals: true, reporters: [new RunReport("${folder}/report.json")] } };`,
  );
  writeFileSync(
    join(folder, "hooks.test.js"),
    `afterAll(() => { throw new Error("the file stays open") });
    describe("a suite", () => {
      afterAll(() => { throw new Error("the socket stays open") });
      test("passes", () => { void Promise.reject(new Error("not handled")) });
    });`,
  );
  const vitest = resolve("node_modules/vitest/vitest.mjs");
  const { status } = spawnSync(process.execPath, [vitest, "run", "--root", folder, "--configLoader", "native"]);
  expect(status).toBe(1);
  const report = readFileSync(join(folder, "report.json"), "utf8");
  const { numPassedTests, otherErrors } = JSON.parse(report) as TestReport;
  expect(numPassedTests).toBe(1);
  expect(otherErrors).toEqual([
    expect.stringMatching(/hooks\.test\.js: Error: the file stays open\n/),
    expect.stringMatching(/hooks\.test\.js: a suite: Error: the socket stays open\n/),
    expect.stringMatching(/^outside of every test: Error: not handled\n/),
  ]);
});

test("several reports count as one run", () => {
  expect(totalsOf(green, { ...green, success: false, numFailedTests: 1, numTodoTests: 1 })).toMatchObject({
    line: "24 passed, 1 failed, 1 skipped",
    failed: true,
  });
});
