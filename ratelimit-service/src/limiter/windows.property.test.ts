/**
 * Random calls at random times, against a plain list of what was allowed: in every time zone, near changes of the
 * clocks, leap days and the ends of ISO weeks, with clocks that are set back. The counters are in memory; every other
 * store has the same contract (`store/testing/group-contract.ts`).
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { createStoreMemory, MemoryTables } from "../store/memory-tables.ts";
import { MemoryStore } from "../store/memory-store.ts";
import { createCore } from "../testing/acceptance/core.ts";
import { parseCall } from "../testing/acceptance/notation.ts";

const memory = createStoreMemory(8_192);
const tables = new MemoryTables(memory, 1);
let serial = 0;

/** A service with one descriptor `k`, whose key in the store no other has. */
function openService(rule: string, startMs: number) {
  const limits = `domain: d${serial++}\ndescriptors:\n  - {key: k, ${rule}}\n`;
  const core = createCore((clock) => new MemoryStore(tables, clock), {}, { limits });
  core.clock.advance(startMs - core.clock.nowMs());
  return {
    clock: core.clock,
    /** Sends hits, or a refund, and returns the status. */
    send: (hits: number) => {
      const response = core.service.shouldRateLimit(parseCall(limits.slice(8, limits.indexOf("\n")), [`k=v #${hits}`]));
      if (response instanceof Promise) throw new Error("the store in memory returns at once");
      const [status] = response.statuses;
      if (status === undefined) throw new Error("a descriptor has a status");
      return status;
    },
  };
}

/** Days, weeks and months by the calendar of Intl, which is another implementation than that of the service. */
function windowOf(unit: "day" | "week" | "month", timeZone: string, ms: number): string {
  const format = new Intl.DateTimeFormat("en-CA", { timeZone, year: "numeric", month: "2-digit", day: "2-digit" });
  const [year = 0, month = 0, day = 0] = format.format(ms).split("-").map(Number);
  if (unit === "month") return `${year}-${month}`;
  if (unit === "day") return `${year}-${month}-${day}`;
  const weekday = (new Date(Date.UTC(year, month - 1, day)).getUTCDay() + 6) % 7;
  return new Date(Date.UTC(year, month - 1, day - weekday)).toISOString().slice(0, 10);
}

const zones = Intl.supportedValuesOf("timeZone");
const units = ["day", "week", "month"] as const;
const from = Date.parse("2024-01-01T00:00:00Z");

/** A moment near a change of the clocks, a leap day, or the end of a year, a month or an ISO week. */
const moment = fc
  .record({
    zone: fc.constantFrom(...zones),
    days: fc.integer({ min: 0, max: 366 * 4 }),
    near: fc.constantFrom("change", "leap", "year", "any"),
    minutes: fc.integer({ min: -180, max: 180 }),
  })
  .map(({ zone, days, near, minutes }) => {
    const anyMs = from + days * 86_400_000;
    const change = Temporal.Instant.fromEpochMilliseconds(anyMs).toZonedDateTimeISO(zone).getTimeZoneTransition("next");
    const base = {
      change: change === null || change.epochMilliseconds > Date.parse("2030-01-01") ? anyMs : change.epochMilliseconds,
      leap: Date.parse("2028-02-29T00:00:00Z"),
      year: Date.parse("2026-01-01T00:00:00Z"),
      any: anyMs,
    }[near];
    return { zone, startMs: base + minutes * 60_000 };
  });

test("a calendar window allows its limit once, whatever the zone and however the clock moves", () => {
  const move = fc.record({
    seconds: fc.oneof(
      { arbitrary: fc.integer({ min: 0, max: 7_200 }), weight: 6 },
      { arbitrary: fc.integer({ min: -7_200, max: 0 }), weight: 2 },
      fc.integer({ min: 0, max: 200_000 }),
    ),
    hits: fc.integer({ min: 1, max: 3 }),
  });
  fc.assert(
    fc.property(moment, fc.constantFrom(...units), fc.array(move, { maxLength: 30 }), (at, unit, moves) => {
      const rule = `rate_limit: {unit: ${unit}, requests_per_unit: 7, calendar: true, timezone: ${at.zone}}`;
      const { clock, send } = openService(rule, at.startMs);
      const counted = new Map<string, number>();
      for (const { seconds, hits } of moves) {
        clock.advance(seconds * 1_000);
        const nowMs = clock.nowMs();
        // Clocks that are set back over midnight show its date again, and that date belongs to the window that has
        // begun.
        const name = windowAtOrAfter(unit, at.zone, nowMs);
        const before = counted.get(name) ?? 0;
        const status = send(hits);
        counted.set(name, before + hits);
        expect(status.code, `${name} at ${new Date(nowMs).toISOString()}`).toBe(
          before + hits > 7 ? "OVER_LIMIT" : "OK",
        );
        const end = nowMs + (status.durationUntilResetSeconds ?? 0) * 1_000;
        expect(windowAtOrAfter(unit, at.zone, end)).not.toBe(name);
        expect(windowAtOrAfter(unit, at.zone, end - 1_000 - (nowMs % 1_000))).toBe(name);
      }
    }),
    { numRuns: 200 },
  );
});

/** Returns the latest window that began in the two days before, for clocks that show a date twice. */
function windowAtOrAfter(unit: (typeof units)[number], zone: string, ms: number): string {
  const minutes = [0, 15, 30, 45, 60, 75, 90, 105, 120];
  const names = minutes.map((minute) => windowOf(unit, zone, ms - minute * 60_000));
  const order = (name: string) => Date.parse(name.replace(/-(\d)(?=-|$)/g, "-0$1"));
  return names.reduce((latest, name) => (order(name) > order(latest) ? name : latest));
}

const slidingMove = fc.record({
  ms: fc.oneof(
    { arbitrary: fc.integer({ min: 0, max: 20_000 }), weight: 6 },
    { arbitrary: fc.integer({ min: 0, max: 2_000 }), weight: 4 },
    fc.integer({ min: 0, max: 150_000 }),
  ),
  /** How far the clock is set back before the call. */
  backMs: fc.oneof(
    { arbitrary: fc.constant(0), weight: 6 },
    { arbitrary: fc.integer({ min: 0, max: 60_000 }), weight: 3 },
    fc.integer({ min: 0, max: 300_000 }),
  ),
  hits: fc.integer({ min: 1, max: 4 }),
});

test("a sliding window allows its limit in every span of its length, also while the clock is set back", () => {
  fc.assert(
    fc.property(
      fc.array(slidingMove, { minLength: 10, maxLength: 60 }),
      fc.integer({ min: 0, max: 6_000 }),
      (moves, offset) => {
        const { clock, send } = openService(
          "rate_limit: {unit: minute, requests_per_unit: 7, window: sliding}",
          from + offset,
        );
        const allowed: { readonly at: number; readonly hits: number }[] = [];
        let passedMs = 0;
        for (const { ms, backMs, hits } of moves) {
          passedMs += ms;
          clock.advance(ms - backMs);
          const { code } = send(hits);
          const within = (spanMs: number) =>
            allowed.filter(({ at }) => at > passedMs - spanMs).reduce((sum, call) => sum + call.hits, 0);
          if (code === "OK") {
            expect(within(60_000) + hits, JSON.stringify(allowed)).toBeLessThanOrEqual(7);
            allowed.push({ at: passedMs, hits });
          }
        }
      },
    ),
    { numRuns: 300 },
  );
});

test("a sliding window denies what it would allow by at most a sixtieth of its length too long", () => {
  const forward = slidingMove.map((move) => ({ ...move, backMs: 0 }));
  fc.assert(
    fc.property(fc.array(forward, { maxLength: 60 }), fc.integer({ min: 0, max: 6_000 }), (moves, offset) => {
      const { clock, send } = openService(
        "rate_limit: {unit: minute, requests_per_unit: 7, window: sliding}",
        from + offset,
      );
      const allowed: { readonly at: number; readonly hits: number }[] = [];
      for (const { ms, hits } of moves) {
        clock.advance(ms);
        const nowMs = clock.nowMs();
        const within = allowed.filter(({ at }) => at > nowMs - 61_000).reduce((sum, call) => sum + call.hits, 0);
        const status = send(hits);
        if (status.code === "OK") {
          allowed.push({ at: nowMs, hits });
          continue;
        }
        expect(within + hits).toBeGreaterThan(7);
        // The same call is allowed after the reset, and not a second before.
        const resetMs = (status.durationUntilResetSeconds ?? 0) * 1_000;
        const later = (at: number) =>
          allowed.filter((call) => call.at > at - 60_000).reduce((sum, call) => sum + call.hits, 0);
        expect(later(nowMs + resetMs) + hits).toBeLessThanOrEqual(7);
      }
    }),
    { numRuns: 300 },
  );
});

test("refunds never let a sliding window allow more than its limit, net of them", () => {
  const move = fc.record({
    ms: fc.integer({ min: 0, max: 20_000 }),
    hits: fc.integer({ min: 1, max: 4 }),
    /** The place of the call to refund among those of the last minute. */
    refunded: fc.option(fc.nat({ max: 6 })),
  });
  fc.assert(
    fc.property(fc.array(move, { minLength: 10, maxLength: 60 }), (moves) => {
      const { clock, send } = openService("rate_limit: {unit: minute, requests_per_unit: 7, window: sliding}", from);
      const charged: { readonly at: number; readonly hits: number }[] = [];
      for (const { ms, hits, refunded } of moves) {
        clock.advance(ms);
        const nowMs = clock.nowMs();
        const place = charged.findIndex(({ at }) => at > nowMs - 60_000) + (refunded ?? 0);
        const call = refunded === null ? undefined : charged[place];
        if (call !== undefined && call.at > nowMs - 60_000) {
          charged.splice(place, 1);
          send(-call.hits);
        } else if (send(hits).code === "OK") {
          charged.push({ at: nowMs, hits });
          const within = charged.filter(({ at }) => at > nowMs - 60_000).reduce((sum, call) => sum + call.hits, 0);
          expect(within).toBeLessThanOrEqual(7);
        }
      }
    }),
    { numRuns: 300 },
  );
});

test("several limits count a call all together or not at all, like plain counters", () => {
  const move = fc.record({
    seconds: fc.integer({ min: 0, max: 40 }),
    hits: fc.oneof({ arbitrary: fc.integer({ min: 0, max: 4 }), weight: 5 }, fc.integer({ min: -4, max: -1 })),
  });
  fc.assert(
    fc.property(fc.array(move, { maxLength: 60 }), fc.boolean(), (moves, countDenied) => {
      const limits =
        "[{unit: minute, requests_per_unit: 5}, {unit: hour, requests_per_unit: 30}, {unit: day, requests_per_unit: 70, calendar: true}]";
      const { clock, send } = openService(`count_denied: ${countDenied}, rate_limits: ${limits}`, from + 3_000_000);
      const plain = [
        { seconds: 60, limit: 5 },
        { seconds: 3_600, limit: 30 },
        { seconds: 86_400, limit: 70 },
      ].map((each) => ({ ...each, counts: new Map<number, number>() }));
      for (const { seconds, hits } of moves) {
        clock.advance(seconds * 1_000);
        const nowSeconds = Math.floor(clock.nowMs() / 1_000);
        const counters = plain.map(({ seconds: length, limit, counts }) => {
          const window = Math.floor(nowSeconds / length);
          return { limit, window, counts, before: counts.get(window) ?? 0 };
        });
        const isOver = ({ before, limit }: (typeof counters)[number]) =>
          hits > 0 ? before + hits > limit : hits === 0 && before >= limit;
        const denies = counters.some(isOver);
        const status = send(hits);
        expect(status.code).toBe(denies ? "OVER_LIMIT" : "OK");
        const counts = hits < 0 || !denies || countDenied;
        for (const counter of counters) {
          if (counts) counter.counts.set(counter.window, Math.max(0, counter.before + hits));
        }
        const remaining = counters.map(({ limit, window, counts: all }) => Math.max(0, limit - (all.get(window) ?? 0)));
        if (!denies) expect(status.limitRemaining).toBe(Math.min(...remaining));
      }
    }),
    { numRuns: 200 },
  );
});
