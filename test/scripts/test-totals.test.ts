import { expect, test } from "vitest";
import { totalsOf, type TestReport } from "../../scripts/test-totals.ts";

const green: TestReport = {
  success: true,
  numPassedTests: 12,
  numFailedTests: 0,
  numPendingTests: 0,
  numTodoTests: 0,
  testResults: [{ status: "passed", assertionResults: [{}] }],
};

test("a green run has its number of tests and no failure", () => {
  expect(totalsOf(green)).toEqual({ line: "12 passed, 0 failed", failed: false });
});

test("skipped tests are counted aloud", () => {
  expect(totalsOf({ ...green, numPendingTests: 2, numTodoTests: 1 }).line).toBe("12 passed, 0 failed, 3 skipped");
});

test("a failed test fails the run", () => {
  expect(totalsOf({ ...green, success: false, numFailedTests: 2 })).toEqual({
    line: "12 passed, 2 failed",
    failed: true,
  });
});

test("a file that cannot be loaded counts as a failure", () => {
  const testResults = [...green.testResults, { status: "failed", assertionResults: [] }];
  expect(totalsOf({ ...green, success: false, testResults })).toEqual({ line: "12 passed, 1 failed", failed: true });
});

test("an error outside every test fails the run without a failed test", () => {
  expect(totalsOf({ ...green, success: false })).toEqual({ line: "12 passed, 0 failed", failed: true });
});

test("several reports count as one run", () => {
  expect(totalsOf(green, { ...green, success: false, numFailedTests: 1, numTodoTests: 1 })).toEqual({
    line: "24 passed, 1 failed, 1 skipped",
    failed: true,
  });
});
