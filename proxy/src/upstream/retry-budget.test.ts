import { describe, expect, test } from "vitest";
import { RetryBudget } from "./retry-budget.ts";

function retriesAt(budget: RetryBudget, nowMs: number): number {
  let taken = 0;
  while (taken < 10_000 && budget.tryRetry(nowMs)) taken++;
  return taken;
}

describe("RetryBudget", () => {
  test("lets a quiet backend have ten retries a second over ten seconds", () => {
    expect(retriesAt(new RetryBudget(), 5_000)).toBe(100);
  });

  test("lets a busy backend have a fifth of its requests", () => {
    const budget = new RetryBudget();
    for (let n = 0; n < 2_000; n++) budget.countRequest(5_000 + n);
    expect(retriesAt(budget, 7_000)).toBe(400);
  });

  test("forgets what is ten seconds old, second by second", () => {
    const budget = new RetryBudget();
    expect(retriesAt(budget, 5_000)).toBe(100);
    expect(retriesAt(budget, 14_999)).toBe(0);
    expect(retriesAt(budget, 15_000)).toBe(100);
  });

  test("forgets everything after a long silence", () => {
    const budget = new RetryBudget();
    for (let n = 0; n < 5_000; n++) budget.countRequest(1_000);
    expect(retriesAt(budget, 1_000_000)).toBe(100);
  });
});
