import fc from "fast-check";
import { expect, test } from "vitest";
import { Allowance } from "./budget.ts";

const demands = fc.dictionary(fc.constantFrom("a", "b", "c", "d"), fc.nat(200), { minKeys: 1, noNullPrototype: true });
const spending = fc.array(fc.tuple(fc.constantFrom("a", "b", "c", "d", "other"), fc.nat(50)), { maxLength: 60 });

test("an allowance never gives more than its total, and each namespace its demand or an equal part", () => {
  fc.assert(
    fc.property(fc.nat(400), demands, spending, (total, demanded, spent) => {
      const needs = new Map(Object.entries(demanded));
      const allowance = new Allowance(total, needs);
      const taken = new Map<string, number>();
      let denials = 0;
      for (const [namespace, units] of spent) {
        const before = taken.get(namespace) ?? 0;
        const part = Math.min(needs.get(namespace) ?? 0, Math.floor(total / needs.size));
        const isGiven = allowance.spend(namespace, units);
        if (isGiven) taken.set(namespace, before + units);
        else denials++;
        // Independently of the other namespaces.
        if (before + units <= part) expect(isGiven).toBe(true);
      }
      expect([...taken.values()].reduce((sum, units) => sum + units, 0)).toBeLessThanOrEqual(total);
      expect(allowance.denials).toBe(denials);
    }),
  );
});

test("what no namespace needs is available to all", () => {
  const allowance = new Allowance(
    100,
    new Map([
      ["a", 10],
      ["b", 30],
    ]),
  );
  expect(allowance.spend("b", 90)).toBe(true);
  expect(allowance.spend("b", 1)).toBe(false);
  expect(allowance.spend("a", 10)).toBe(true);
  expect(allowance.spend("a", 1)).toBe(false);
});
