import { expect, test } from "vitest";
import { ThreadTotals } from "./thread-totals.ts";

const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);

test("keeps the last counts of threads that ended, however often a number is reused", () => {
  const totals = new ThreadTotals(sum);
  expect(totals.retired).toEqual([]);
  totals.record(1, 5);
  totals.record(1, 7);
  totals.record(2, 100);
  totals.retire(1);
  expect(totals.retired).toEqual([7]);
  totals.record(1, 3);
  expect(totals.retired).toEqual([7]);
  totals.retire(1);
  totals.retire(1);
  expect(totals.retired).toEqual([10]);
});

test("keeps nothing of a thread without counts", () => {
  const totals = new ThreadTotals(sum);
  totals.retire(1);
  expect(totals.retired).toEqual([]);
});
