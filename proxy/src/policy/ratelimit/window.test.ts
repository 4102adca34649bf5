import { describe, expect, test } from "vitest";
import { openWindow, requestsLimit, sameClock, tokensLimit } from "./testing/local-limits.ts";
import {
  budgetOf,
  count,
  hasBudget,
  msToReset,
  remaining,
  settle,
  refund,
  wholeSeconds,
  type Window,
} from "./window.ts";

const minute = 60_000;
const tenPerMinuteBurstFive = budgetOf(requestsLimit({ amount: 10, burst: 5 }), sameClock);
const thousandTokensPerMinute = budgetOf(tokensLimit({ amount: 1000 }), sameClock);

function settled(window: Window, budget = tenPerMinuteBurstFive, nowMs = 0): Window {
  settle(window, budget.windows, nowMs);
  return window;
}

describe("the budget of an entry", () => {
  test("of requests has the burst on top, and a window's end restores the requests alone", () => {
    expect(tenPerMinuteBurstFive).toEqual({ capacity: 15, windows: { kind: "Fixed", refill: 10, windowMs: minute } });
  });

  test("of tokens is restored whole", () => {
    expect(thousandTokensPerMinute).toEqual({
      capacity: 1000,
      windows: { kind: "Fixed", refill: Infinity, windowMs: minute },
    });
  });

  test.each([
    ["Seconds", 1_000],
    ["Minutes", 60_000],
    ["Hours", 3_600_000],
  ] as const)("of unit %s has windows of %d ms", (unit, windowMs) => {
    expect(budgetOf(requestsLimit({ unit }), sameClock).windows).toMatchObject({ windowMs });
  });
});

describe("settling", () => {
  test.each([
    ["gives nothing back within the window", openWindow(15), 59_999.999, openWindow(15)],
    ["gives the requests back at the window's end, to the millisecond", openWindow(15), minute, openWindow(5, minute)],
    ["continues with the next window while not full", openWindow(15), minute + 1, openWindow(5, minute)],
    ["never refills beyond the capacity", openWindow(15), 2 * minute, openWindow(0, 2 * minute)],
    ["makes up for all windows that ended unseen", openWindow(15), 1e9, openWindow(0, 999_960_000)],
    ["keeps windows aligned to the first one", openWindow(15, 1_234.5), 61_235, openWindow(5, 61_234.5)],
    ["ignores a clock reading from before the window", openWindow(15, minute), 0, openWindow(15, minute)],
    ["leaves a full counter alone", openWindow(0, 7), 1e9, openWindow(0, 7)],
  ])("%s", (_, window, nowMs, expected) => {
    expect(settled(window, tenPerMinuteBurstFive, nowMs)).toEqual(expected);
  });

  test("restores the whole token budget at the window's end, whatever the overage", () => {
    expect(settled(openWindow(5_000), thousandTokensPerMinute, minute).used).toBe(0);
  });
});

describe("counting", () => {
  test("opens a window with the first unit counted while full", () => {
    const window = openWindow(0);
    count(window, tenPerMinuteBurstFive.windows, 1, 500);
    expect(window).toEqual(openWindow(1, 500));
  });

  test("leaves an open window where it is", () => {
    const window = openWindow(1, 500);
    count(window, tenPerMinuteBurstFive.windows, 3, 900);
    expect(window).toEqual(openWindow(4, 500));
  });

  test("stops at the largest exact integer", () => {
    const window = openWindow(10);
    count(window, tenPerMinuteBurstFive.windows, Number.MAX_SAFE_INTEGER, 0);
    count(window, tenPerMinuteBurstFive.windows, Number.MAX_SAFE_INTEGER, 0);
    expect(window.used).toBe(Number.MAX_SAFE_INTEGER);
    expect(settled(window, thousandTokensPerMinute, minute).used).toBe(0);
  });

  test("admits while anything remains", () => {
    expect(hasBudget(openWindow(14), tenPerMinuteBurstFive, 1)).toBe(true);
    expect(hasBudget(openWindow(15), tenPerMinuteBurstFive, 1)).toBe(false);
    expect(hasBudget(openWindow(999), thousandTokensPerMinute, 1)).toBe(true);
    expect(hasBudget(openWindow(1200), thousandTokensPerMinute, 1)).toBe(false);
  });

  test("admits several units only whole, and none at all while nothing is over", () => {
    expect(hasBudget(openWindow(8), tenPerMinuteBurstFive, 7)).toBe(true);
    expect(hasBudget(openWindow(9), tenPerMinuteBurstFive, 7)).toBe(false);
    expect(hasBudget(openWindow(15), tenPerMinuteBurstFive, 0)).toBe(true);
    expect(hasBudget(openWindow(16), tenPerMinuteBurstFive, 0)).toBe(false);
  });
});

describe("refunding", () => {
  test("returns a unit to the window that counted it", () => {
    const window = openWindow(3, 500);
    expect(refund(window, tenPerMinuteBurstFive.windows, 1, 500)).toBe(true);
    expect(window.used).toBe(2);
  });

  test("returns several units as they were counted", () => {
    const window = openWindow(9, 500);
    expect(refund(window, tenPerMinuteBurstFive.windows, 7, 500)).toBe(true);
    expect(window.used).toBe(2);
  });

  test("returns nothing to a later window, whose start has restored it already", () => {
    const window = openWindow(3, minute);
    expect(refund(window, tenPerMinuteBurstFive.windows, 1, 0)).toBe(false);
    expect(window.used).toBe(3);
  });

  test("never goes below nothing", () => {
    const window = openWindow(0, 500);
    expect(refund(window, tenPerMinuteBurstFive.windows, 1, 500)).toBe(false);
    expect(window.used).toBe(0);
  });
});

describe("header figures", () => {
  test("remaining is never negative", () => {
    expect(remaining(openWindow(1200), thousandTokensPerMinute)).toBe(0);
    expect(remaining(openWindow(400), thousandTokensPerMinute)).toBe(600);
  });

  test.each([
    ["a whole window while none is open", openWindow(0, 0), 12_345, 60],
    ["a whole window at its very start", openWindow(1, 12_345), 12_345, 60],
    ["whole seconds, rounded up", openWindow(1, 0), 1, 60],
    ["whole seconds, exactly", openWindow(1, 0), 1_000, 59],
    ["1 in the last fraction of a millisecond", openWindow(1, 0), 59_999.999_9, 1],
    ["never more than the window, for a thread that read the clock earlier", openWindow(1, 100), 99, 60],
  ])("reset is %s", (_, window, nowMs, seconds) => {
    expect(wholeSeconds(msToReset(window, tenPerMinuteBurstFive.windows, nowMs))).toBe(seconds);
  });
});
