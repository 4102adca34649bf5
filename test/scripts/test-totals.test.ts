import { resolve } from "node:path";
import { expect, test } from "vitest";
import { totalsOf, type TestReport } from "../../scripts/test-totals.ts";

const path = "proxy/src/some.test.ts";

const green: TestReport = {
  success: true,
  numPassedTests: 12,
  numFailedTests: 0,
  numPendingTests: 0,
  numTodoTests: 0,
  testResults: [fileWith({ status: "passed", failureMessages: [] })],
};

function fileWith(test: { status: string; failureMessages: string[] }): TestReport["testResults"][number] {
  return {
    name: resolve(path),
    status: "passed",
    message: "",
    assertionResults: [{ fullName: " a limit holds", ...test }],
  };
}

test("a green run has its number of tests and no failure", () => {
  expect(totalsOf(green)).toEqual({ line: "12 passed, 0 failed", failed: false, findings: [] });
});

test("skipped tests are counted aloud", () => {
  expect(totalsOf({ ...green, numPendingTests: 2, numTodoTests: 1 }).line).toBe("12 passed, 0 failed, 3 skipped");
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
  });
});

test("a test that passed only when it was tried again does not fail the run, and is named", () => {
  const testResults = [fileWith({ status: "passed", failureMessages: ["Error: timed out"] })];
  expect(totalsOf({ ...green, testResults })).toEqual({
    line: "12 passed, 0 failed",
    failed: false,
    findings: [`~~ passed only when tried again: ${path}: a limit holds\n   Error: timed out`],
  });
});

test("a file that cannot be loaded counts as a failure, and is named with its reason", () => {
  const unloaded = { name: resolve(path), status: "failed", message: "Cannot find module", assertionResults: [] };
  expect(totalsOf({ ...green, success: false, testResults: [...green.testResults, unloaded] })).toEqual({
    line: "12 passed, 1 failed",
    failed: true,
    findings: [`!! not loaded: ${path}\n   Cannot find module`],
  });
});

test("an error outside every test fails the run without a failed test", () => {
  expect(totalsOf({ ...green, success: false })).toMatchObject({ line: "12 passed, 0 failed", failed: true });
});

test("several reports count as one run", () => {
  expect(totalsOf(green, { ...green, success: false, numFailedTests: 1, numTodoTests: 1 })).toMatchObject({
    line: "24 passed, 1 failed, 1 skipped",
    failed: true,
  });
});
