/** Compares sliding and calendar windows with what they promise, for random requests, threads, charges and clocks. */
import { CalendarWindows } from "@gatewayproxy/runtime/calendar";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type LimitUnit, type LocalLimit, unitMs } from "../../ir/limit.ts";
import { CounterTable, createCounters } from "./counter-table.ts";
import { type LimitSet, compileLimits } from "./local-limiter.ts";
import { request, requestsLimit, tokens, tokensLimit } from "./testing/local-limits.ts";
import type { WallClock } from "./window.ts";

/** One thread after another decides; all share the counters. */
function threadsOf(limit: LocalLimit, clock?: WallClock): readonly LimitSet[] {
  const memory = createCounters(16, 2);
  return [1, 2].map((owner) => compileLimits([limit], new CounterTable(memory, owner, clock)));
}

interface Counted {
  readonly atMs: number;
  units: number;
}

function unitsWithin(counted: readonly Counted[], fromMs: number, untilMs: number): number {
  return counted.reduce((sum, { atMs, units }) => sum + (atMs > fromMs && atMs <= untilMs ? units : 0), 0);
}

const step = fc.record({
  /** Often within a part, sometimes over a whole window. */
  waitMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 2_000 }), fc.integer({ min: 0, max: 70_000 })),
  thread: fc.nat(1),
  cost: fc.integer({ min: 0, max: 4 }),
  isRefunded: fc.boolean(),
});

describe("a sliding window", () => {
  const windowMs = unitMs.Minutes;
  const partMs = windowMs / 60;
  const limit = requestsLimit({ amount: 7, window: { kind: "Sliding" }, cost: 'int(request.headers["x-cost"])' });

  test("no span of one window has more than the limit, and a request is denied by no more than one part early", () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 5, maxLength: 120 }), (steps) => {
        const threads = threadsOf(limit);
        const counted: Counted[] = [];
        let nowMs = 1_000_000;
        for (const { waitMs, thread, cost, isRefunded } of steps) {
          nowMs += waitMs;
          const view = { ...request, rawHeaders: ["x-cost", String(cost)] };
          const decision = threads[thread]?.decide(view, nowMs);
          if (decision?.kind !== "allowed") {
            expect(unitsWithin(counted, nowMs - windowMs - partMs, nowMs) + cost).toBeGreaterThan(limit.amount);
            expect(decision?.kind).toBe("denied");
            continue;
          }
          expect(unitsWithin(counted, nowMs - windowMs, nowMs) + cost).toBeLessThanOrEqual(limit.amount);
          if (isRefunded) decision.reservation.refund(nowMs);
          else counted.push({ atMs: nowMs, units: cost });
          expect(decision.report.state?.remaining).toBeLessThanOrEqual(
            limit.amount - unitsWithin(counted, nowMs - windowMs, nowMs),
          );
        }
      }),
      { numRuns: 500 },
    );
  });

  test("a denied request is allowed after the time that its response names, and not a part before", () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 5, maxLength: 60 }), (steps) => {
        const threads = threadsOf(limit);
        let nowMs = 1_000_000;
        for (const { waitMs, thread, cost } of steps) {
          nowMs += waitMs;
          const view = { ...request, rawHeaders: ["x-cost", String(cost)] };
          const decision = threads[thread]?.decide(view, nowMs);
          if (decision?.kind !== "denied") continue;
          const { windowEndMs, retryAfterSeconds } = decision.by;
          expect(retryAfterSeconds).toBe(Math.max(1, Math.ceil((windowEndMs - nowMs) / 1_000)));
          expect(threads[thread]?.decide(view, windowEndMs - partMs / 2).kind).toBe("denied");
          nowMs = windowEndMs + 0.001;
          expect(threads[1 - thread]?.decide(view, nowMs).kind).toBe("allowed");
        }
      }),
      { numRuns: 300 },
    );
  });

  test("clients in one bucket of the table have their own windows", () => {
    const keyed = requestsLimit({ amount: 3, window: { kind: "Sliding" }, key: "request.path" });
    const [set] = threadsOf(keyed);
    const clients = Array.from({ length: 16 }, (_, at) => `/${at}`);
    const outcomes = (nowMs: number) => clients.map((path) => set?.decide({ ...request, path }, nowMs).kind);
    for (let at = 0; at < 60; at++) {
      const allowed = at % 20 < 3;
      expect(outcomes(1_000_000 + at * 3_100)).toEqual(clients.map(() => (allowed ? "allowed" : "denied")));
    }
  });

  test("tokens count from the time of their charge, and all of them leave", () => {
    const budget = tokensLimit({ amount: 100, window: { kind: "Sliding" } });
    const [threads] = [threadsOf(budget)];
    const decide = (nowMs: number) => threads[0]?.decide(request, nowMs);
    const first = decide(0);
    if (first?.kind !== "allowed") return expect.unreachable();
    first.reservation.charge(tokens(1_000_000_000_000), 30_000);
    expect(decide(30_000)?.kind).toBe("denied");
    expect(decide(90_000)?.kind).toBe("denied");
    expect(decide(91_000)?.kind).toBe("allowed");
  });
});

describe("a calendar window", () => {
  const zones = ["UTC", "Europe/Berlin", "America/Havana", "Asia/Kathmandu", "Pacific/Apia", "Australia/Lord_Howe"];
  const calendar = fc.record({
    unit: fc.constantFrom("Days" as const, "Weeks" as const, "Months" as const),
    unitCount: fc.constantFrom(1, 2, 3, 1_000),
    timeZone: fc.constantFrom(...zones),
    fromMs: fc.integer({ min: Date.parse("2011-12-20"), max: Date.parse("2027-12-31") }),
  });
  const hourMs = unitMs.Hours;
  const calendarStep = fc.record({
    waitMs: fc.oneof(
      fc.integer({ min: 0, max: hourMs }),
      fc.integer({ min: 0, max: 40 * hourMs }),
      fc.integer({ min: 0, max: 3_000 * hourMs }),
    ),
    thread: fc.nat(1),
    isRefunded: fc.boolean(),
    /** How far the wall clock is set; only in the second test. */
    setMs: fc.oneof(fc.constant(0), fc.integer({ min: -90 * 24 * hourMs, max: 90 * 24 * hourMs })),
  });

  function limitOf({ unit, unitCount, timeZone }: { unit: LimitUnit; unitCount: number; timeZone: string }) {
    return requestsLimit({ amount: 3, unit, unitCount, window: { kind: "Calendar", timeZone } });
  }

  test("every window of the calendar allows exactly the limit", () => {
    fc.assert(
      fc.property(calendar, fc.array(calendarStep, { minLength: 5, maxLength: 80 }), (kind, steps) => {
        const clock = { wallMs: kind.fromMs, monotonicMs: 5_000_000 };
        const threads = threadsOf(limitOf(kind), { nowMs: () => clock.wallMs, monotonicMs: () => clock.monotonicMs });
        const windows = new CalendarWindows(kind.unit, kind.unitCount, kind.timeZone);
        const counted = new Map<number, number>();
        for (const { waitMs, thread, isRefunded } of steps) {
          clock.wallMs += waitMs;
          clock.monotonicMs += waitMs;
          const { startMs, endMs } = windows.at(clock.wallMs);
          const before = counted.get(startMs) ?? 0;
          const decision = threads[thread]?.decide(request, clock.monotonicMs);
          expect(decision?.kind).toBe(before < 3 ? "allowed" : "denied");
          const after = before < 3 ? before + 1 : before;
          const resetSeconds = Math.max(1, Math.ceil((endMs - clock.wallMs) / 1_000));
          expect(decision?.report.state).toEqual({ limit: 3, remaining: 3 - after, resetSeconds });
          counted.set(startMs, after);
          if (decision?.kind !== "allowed" || !isRefunded) continue;
          decision.reservation.refund(clock.monotonicMs);
          counted.set(startMs, before);
        }
      }),
      { numRuns: 500 },
    );
  });

  test("a clock that is set back restores nothing, and denies for no longer than two windows", () => {
    fc.assert(
      fc.property(calendar, fc.array(calendarStep, { minLength: 20, maxLength: 120 }), (kind, steps) => {
        const clock = { wallMs: kind.fromMs, monotonicMs: 5_000_000 };
        const threads = threadsOf(limitOf(kind), { nowMs: () => clock.wallMs, monotonicMs: () => clock.monotonicMs });
        const windows = new CalendarWindows(kind.unit, kind.unitCount, kind.timeZone);
        let shownMs = windows.at(clock.wallMs).startMs;
        let opened = 1;
        let allowed = 0;
        for (const { waitMs, thread, setMs } of steps) {
          clock.wallMs += waitMs + setMs;
          clock.monotonicMs += waitMs;
          const { startMs, endMs } = windows.at(clock.wallMs);
          if (startMs > shownMs) opened += 1;
          shownMs = startMs;
          const decision = threads[thread]?.decide(request, clock.monotonicMs);
          if (decision?.kind === "allowed") allowed += 1;
          expect(allowed).toBeLessThanOrEqual(3 * opened);
          const nextMs = windows.at(endMs).endMs - startMs;
          expect(decision?.report.state?.resetSeconds).toBeLessThanOrEqual((2.2 * nextMs) / 1_000);
        }
      }),
      { numRuns: 500 },
    );
  });

  test("the list of open counters shows the end of the window, and an ended one no more", () => {
    const clock = { wallMs: Date.parse("2026-11-27T12:00:00Z"), monotonicMs: 70_000 };
    const time = { nowMs: () => clock.wallMs, monotonicMs: () => clock.monotonicMs };
    const table = new CounterTable(createCounters(16, 2), 1, time);
    const limit = requestsLimit({ amount: 3, unit: "Months", window: { kind: "Calendar", timeZone: "UTC" } });
    compileLimits([limit], table).decide(request, clock.monotonicMs);
    const daysLeft = 3.5;
    expect([...table.entries(clock.monotonicMs)]).toEqual([
      { entry: table.labelOf(limit), key: undefined, used: 1, held: 0, resetSeconds: daysLeft * 86_400 },
    ]);
    clock.wallMs += daysLeft * unitMs.Days;
    clock.monotonicMs += daysLeft * unitMs.Days;
    expect([...table.entries(clock.monotonicMs)]).toEqual([]);
  });
});
