/** The resets of a connection whose budget is used up. */
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, test } from "vitest";
import { sweepMs } from "../../sweep.ts";
import { ErrorCode } from "../frame.ts";
import { DelayedResets } from "./delayed-resets.ts";
import { ResetBudget } from "./reset-budget.ts";

function start() {
  const clock = new FakeClock();
  const budget = new ResetBudget({ first: 2, burst: 4, perSecond: 1 }, clock);
  const sent: number[] = [];
  const resets = new DelayedResets({ rstStream: (id) => void sent.push(id) }, budget);
  const sweep = (times: number): void => {
    for (let count = 0; count < times; count++) {
      clock.advance(sweepMs);
      resets.sweep();
    }
  };
  return { budget, sent, sweep, resets, reset: (id: number) => resets.add(id, ErrorCode.Cancel) };
}

test("a connection takes no more requests after the first resets without a response", () => {
  const { sent, reset } = start();
  expect([reset(1), reset(3), reset(5)]).toEqual([true, false, false]);
  expect(sent).toEqual([1, 3]);
});

test("two responses permit a reset, up to the maximum at once", () => {
  const { budget, sent, reset, sweep } = start();
  for (let count = 0; count < 100; count++) budget.onResponse();
  for (let id = 1; id <= 11; id += 2) reset(id);
  expect(sent).toEqual([1, 3, 5, 7]);
  for (let count = 0; count < 4; count++) budget.onResponse();
  sweep(1);
  expect(sent).toEqual([1, 3, 5, 7, 9]);
});

test("resets that have waited for half a minute are sent, two a second", () => {
  const { sent, reset, sweep } = start();
  for (let id = 1; id <= 13; id += 2) reset(id);
  sweep(29);
  expect(sent).toEqual([1, 3]);
  sweep(1);
  expect(sent).toEqual([1, 3, 5, 7]);
  sweep(1);
  expect(sent).toEqual([1, 3, 5, 7, 9, 11]);
});

test("a stream that its server has ended is not reset", () => {
  const { sent, reset, resets, sweep } = start();
  for (let id = 1; id <= 7; id += 2) reset(id);
  resets.ended(5);
  sweep(40);
  expect(sent).toEqual([1, 3, 7]);
});
