/** Max-min fairness: a demand of no more than an equal share is granted, independently of the others. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { FairBudget, fairShares } from "./fair-share.ts";

const wishes = fc.dictionary(fc.string({ minLength: 1, maxLength: 3 }), fc.nat(1_000), { maxKeys: 8 });

test("shares are fair", () => {
  fc.assert(
    fc.property(wishes, fc.nat(4_000), (wanted, capacity) => {
      const shares = fairShares(new Map(Object.entries(wanted)), capacity);
      const total = [...shares.values()].reduce((sum, share) => sum + share, 0);
      const all = Object.values(wanted).reduce((sum, size) => sum + size, 0);
      expect(total).toBeLessThanOrEqual(capacity);
      if (all <= capacity) expect(total).toBe(all);
      const equal = Math.floor(capacity / Math.max(1, shares.size));
      for (const [name, share] of shares) expect(share).toBeGreaterThanOrEqual(Math.min(wanted[name] ?? 0, equal));
    }),
  );
});

test("shares do not depend on the order in which they are wanted", () => {
  fc.assert(
    fc.property(wishes, fc.nat(4_000), (wanted, capacity) => {
      const names = Object.entries(wanted);
      const forwards = fairShares(new Map(names), capacity);
      const backwards = fairShares(new Map(names.toReversed()), capacity);
      expect(new Map([...forwards].sort())).toEqual(new Map([...backwards].sort()));
    }),
  );
});

test("a higher demand reduces neither the share of a limited namespace nor that of a satisfied one", () => {
  fc.assert(
    fc.property(wishes, fc.nat(4_000), fc.nat(2_000), (wanted, capacity, more) => {
      const before = fairShares(new Map(Object.entries(wanted)), capacity);
      const [greedy] = Object.keys(wanted).filter((name) => (before.get(name) ?? 0) < (wanted[name] ?? 0));
      if (greedy === undefined) return;
      const after = fairShares(new Map([...Object.entries(wanted), [greedy, (wanted[greedy] ?? 0) + more]]), capacity);
      // Remainders of the division may go to another of those who want more.
      for (const [name, share] of before) {
        if (share === wanted[name]) expect(after.get(name)).toBe(share);
        else expect(Math.abs((after.get(name) ?? 0) - share)).toBeLessThanOrEqual(1);
      }
    }),
  );
});

test("a budget counts to the capacity what a namespace wants, and gives each its share", () => {
  fc.assert(
    fc.property(wishes, fc.integer({ min: 1, max: 4_000 }), (wanted, capacity) => {
      const budget = new FairBudget(capacity);
      for (const [name, size] of Object.entries(wanted)) {
        // In parts of ten, as routes come.
        for (let rest = size; rest > 0 && !budget.wantsAll(name); rest -= 10) budget.want(name, Math.min(10, rest));
      }
      const taken = Object.entries(wanted).map(([name, size]) => {
        const amount = Math.min(size, budget.left(name));
        budget.take(name, amount);
        expect(amount).toBeGreaterThanOrEqual(Math.min(size, Math.floor(capacity / Object.keys(wanted).length)));
        return amount;
      });
      expect(taken.reduce((sum, amount) => sum + amount, 0)).toBeLessThanOrEqual(capacity);
    }),
  );
});
