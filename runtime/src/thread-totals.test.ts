import { expect, test } from "vitest";
import { ThreadTotals } from "./thread-totals.ts";

const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);

test("keeps what threads that ended had said last, however often a number is given again", () => {
  const totals = new ThreadTotals(sum);
  expect(totals.ofEnded).toEqual([]);
  totals.heard(1, 5);
  totals.heard(1, 7);
  totals.heard(2, 100);
  totals.ended(1);
  expect(totals.ofEnded).toEqual([7]);
  totals.heard(1, 3);
  expect(totals.ofEnded).toEqual([7]);
  totals.ended(1);
  totals.ended(1);
  expect(totals.ofEnded).toEqual([10]);
});

test("keeps nothing of a thread that was never asked", () => {
  const totals = new ThreadTotals(sum);
  totals.ended(1);
  expect(totals.ofEnded).toEqual([]);
});
