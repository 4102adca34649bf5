import { expect, test } from "vitest";
import { WaitBudget } from "./wait-budget.ts";

test("a namespace has three seconds, and regains them in a minute", () => {
  const budget = new WaitBudget();
  budget.wait(new Set(["a"]), 1_000);
  budget.wait(new Set(), 3_999);
  expect(budget.allows("a", 3_999)).toBe(true);
  budget.wait(new Set(["a", "b"]), 4_000);
  budget.wait(new Set(), 7_000);
  expect(["a", "b", "c"].map((namespace) => budget.allows(namespace, 7_000))).toEqual([false, false, true]);
  expect(budget.allows("b", 7_100)).toBe(true);
  expect(budget.allows("a", 60_000)).toBe(false);
  expect(budget.allows("a", 67_000)).toBe(true);
});

test("a wait that goes on is charged once", () => {
  const budget = new WaitBudget();
  for (let nowMs = 0; nowMs <= 2_900; nowMs += 100) budget.wait(new Set(["a"]), nowMs);
  expect(budget.allows("a", 2_900)).toBe(true);
  budget.wait(new Set(), 3_300);
  expect(budget.allows("a", 3_300)).toBe(false);
});

test("all namespaces together have twelve seconds, and regain them in a minute", () => {
  const budget = new WaitBudget();
  let nowMs = 0;
  for (const namespace of ["a", "b", "c", "d", "e"]) {
    expect(budget.allows(namespace, nowMs)).toBe(true);
    budget.wait(new Set([namespace]), nowMs);
    nowMs += 3_000;
    budget.wait(new Set(), nowMs);
  }
  expect(budget.allows("f", nowMs)).toBe(false);
  expect(budget.allows("f", nowMs + 4_000)).toBe(true);
  budget.wait(new Set(["f"]), nowMs + 60_000);
  expect(budget.allows("g", nowMs + 60_000)).toBe(true);
});
