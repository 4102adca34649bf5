/** What a client can rely on that reserves hits, as tests of the service around a store. */
import { randomUUID } from "node:crypto";
import type { Clock } from "@gatewayproxy/runtime/clock";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { RateLimitRequest, RateLimitResponse } from "../model/rate-limit.ts";
import type { CounterStore } from "../model/counter-store.ts";
import type { CaseSettings } from "./acceptance/case.ts";
import { createCore } from "./acceptance/core.ts";
import { parseCall, renderResponse } from "./acceptance/notation.ts";

const plainLimits = `
domain: d
descriptors:
  - {key: minute, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: hour, rate_limit: {unit: hour, requests_per_unit: 100}}
  - {key: closed, rate_limit: {unit: hour, requests_per_unit: 0}}
  - {key: day, rate_limit: {unit: day, requests_per_unit: 50, calendar: true, timezone: Europe/Berlin}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 5}}
`;

const groupLimits = `
  - {key: slide, rate_limit: {unit: minute, requests_per_unit: 10, window: sliding}}
  - key: both
    rate_limits: [{unit: minute, requests_per_unit: 20, window: sliding}, {unit: hour, requests_per_unit: 60}]
  - key: tokens
    count_denied: true
    rate_limits: [{unit: minute, requests_per_unit: 20}, {unit: hour, requests_per_unit: 60}]
`;

/**
 * Runs the tests.
 *
 * @param open resolves with what creates the store.
 * @param hasGroups whether it counts sliding windows and several limits of one descriptor.
 */
export function describeReservations(
  name: string,
  open: () => Promise<(clock: Clock) => CounterStore>,
  hasGroups: boolean,
): void {
  async function serve(settings: CaseSettings = {}) {
    const limits = plainLimits + (hasGroups ? groupLimits : "");
    const core = createCore(await open(), settings, { limits, cacheKeyPrefix: `${randomUUID()}_` });
    const ask = async (call: Partial<RateLimitRequest>, ...descriptors: readonly string[]) =>
      core.service.shouldRateLimit({ ...parseCall("d", descriptors), ...call });
    const reserve = (...descriptors: readonly string[]): Promise<RateLimitResponse> =>
      ask({ reserves: true }, ...descriptors);
    return {
      reserve,
      held: async (...descriptors: readonly string[]) =>
        (await reserve(...descriptors)).statuses.map(({ heldHits }) => heldHits ?? 0),
      refund: (heldAtMs: number | undefined, ...descriptors: readonly string[]) =>
        ask(heldAtMs === undefined ? {} : { heldAtMs }, ...descriptors),
      text: async (...descriptors: readonly string[]) => renderResponse(await ask({}, ...descriptors)),
      advance: (seconds: number) => core.clock.advance(seconds * 1_000),
      step: (seconds: number) => core.clock.stepWall(seconds * 1_000),
      nowMs: () => core.clock.nowMs(),
    };
  }

  describe(`reservations in ${name}`, () => {
    test("count as other calls, and say what they count, and when", async () => {
      const { reserve, text, nowMs } = await serve();
      const response = await reserve("hour=a #30", "minute=a #0", "none=a #7");
      expect(response.heldAtMs).toBe(nowMs());
      expect(response.statuses.map(({ heldHits }) => heldHits)).toEqual([30, undefined, undefined]);
      expect(await text("hour=a #0")).toBe("OK(100,70) HOUR");
    });

    test("that are denied count nothing, at no descriptor", async () => {
      const { reserve, text } = await serve();
      await reserve("hour=a #90");
      const denied = await reserve("minute=a #4", "hour=a #11");
      expect(renderResponse(denied)).toBe("OVER_LIMIT: OK(10,6) MINUTE | OVER_LIMIT(100,0) HOUR");
      expect(denied.statuses.map(({ heldHits }) => heldHits)).toEqual([undefined, undefined]);
      expect(denied.heldAtMs).toBeDefined();
      expect(await text("minute=a #0", "hour=a #0")).toBe("OK: OK(10,10) MINUTE | OK(100,10) HOUR");
    });

    test("larger than a limit fit where nothing is counted, and hold all of it", async () => {
      const { held, reserve, text } = await serve();
      expect(await held("minute=a #5000")).toEqual([10]);
      expect(await text("minute=a #0")).toBe("OK(10,0) MINUTE");
      expect((await reserve("minute=a #1")).overallCode).toBe("OVER_LIMIT");
    });

    test("are denied by a limit of 0", async () => {
      const { reserve } = await serve();
      expect((await reserve("closed=a #5")).overallCode).toBe("OVER_LIMIT");
    });

    test("beyond a limit in shadow mode hold what they count", async () => {
      const { held, text } = await serve();
      await held("shadow=a #5");
      expect(await held("shadow=a #3", "hour=a #3")).toEqual([3, 3]);
      expect(await text("shadow=a #0")).toBe("OK(5,0) HOUR");
    });

    test("are refunded in the window that counted them, also after its end", async () => {
      const { reserve, refund, text, advance } = await serve();
      const { heldAtMs } = await reserve("minute=a #6", "day=a #6");
      advance(60);
      expect(await text("minute=a #2")).toBe("OK(10,8) MINUTE");
      await refund(heldAtMs, "minute=a #-6", "day=a #-6");
      expect(await text("minute=a #0", "day=a #0")).toBe("OK: OK(10,8) MINUTE | OK(50,50) DAY");
      // Without the time, the refund is that of the current window.
      await refund(undefined, "minute=a #-1");
      expect(await text("minute=a #0")).toBe("OK(10,9) MINUTE");
    });

    test("of a clock that was ahead are not refunded in the window of now", async () => {
      const { reserve, refund, text, step } = await serve();
      await text("minute=a #7");
      step(60);
      const { heldAtMs } = await reserve("minute=a #6");
      // As another replica, or after the clock was set back.
      step(-60);
      await refund(heldAtMs, "minute=a #-6");
      expect(await text("minute=a #0")).toBe("OK(10,3) MINUTE");
      step(60);
      expect(await text("minute=a #0")).toBe("OK(10,10) MINUTE");
    });

    test.each<CaseSettings>([
      { stopsAtOverLimit: true },
      { overLimitCache: true },
      { stopsAtOverLimit: true, overLimitCache: true },
    ])("refund no more than they have counted, with %o", async (settings) => {
      const { reserve, refund, text } = await serve(settings);
      const { heldAtMs } = await reserve("hour=a #95");
      for (let times = 0; times < 3; times++) {
        expect((await reserve("minute=a #4", "hour=a #6")).overallCode).toBe("OVER_LIMIT");
      }
      expect(await text("minute=a #0", "hour=a #0")).toBe("OK: OK(10,10) MINUTE | OK(100,5) HOUR");
      await refund(heldAtMs, "hour=a #-95");
      expect((await reserve("hour=a #100")).overallCode).toBe("OK");
    });

    test("never count more than the limit together, and leave nothing when all are settled", async () => {
      const { reserve, refund, text } = await serve();
      const responses = await Promise.all(Array.from({ length: 40 }, () => reserve("hour=a #7", "day=a #2")));
      const allowed = responses.filter(({ overallCode }) => overallCode === "OK");
      expect(allowed.length).toBeGreaterThan(0);
      expect(allowed.length).toBeLessThanOrEqual(14);
      const used = allowed.length;
      expect(await text("hour=a #0")).toBe(`OK(100,${100 - 7 * used}) HOUR`);
      for (const { heldAtMs } of allowed) await refund(heldAtMs, "hour=a #-7", "day=a #-2");
      expect(await text("hour=a #0", "day=a #0")).toBe("OK: OK(100,100) HOUR | OK(50,50) DAY");
    });

    test("that do not fit do not deny those that do, at the same time", async () => {
      const { reserve } = await serve();
      await reserve("minute=spent #10");
      await reserve("hour=a #40");
      // One has nothing left of its own limit, the other asks for more than is left.
      const large = Array.from({ length: 5 }, () => [
        reserve("minute=spent #10", "hour=a #60"),
        reserve("hour=a #61"),
      ]).flat();
      const small = await reserve("minute=b #10", "hour=a #60");
      expect((await Promise.all(large)).map(({ overallCode }) => overallCode)).not.toContain("OK");
      expect(small.overallCode).toBe("OK");
    });

    test("keep every limit, whatever calls and refunds come in whatever order", async () => {
      const call = fc.record({
        hits: fc.array(fc.tuple(fc.constantFrom("hour=p", "hour=q", "day=p"), fc.nat(70)), {
          minLength: 1,
          maxLength: 3,
        }),
        settles: fc.nat(100),
      });
      await fc.assert(
        fc.asyncProperty(fc.array(call, { maxLength: 12 }), async (calls) => {
          const { reserve, refund, text } = await serve();
          const used = new Map<string, number>();
          const count = (key: string, hits: number) => used.set(key, (used.get(key) ?? 0) + hits);
          for (const { hits, settles } of calls) {
            const merged = [...new Map(hits)];
            const response = await reserve(...merged.map(([key, number]) => `${key} #${number}`));
            for (const [at, [key]] of merged.entries()) {
              const held = response.statuses[at]?.heldHits ?? 0;
              const kept = Math.floor((held * settles) / 100);
              if (held > kept) await refund(response.heldAtMs, `${key} #-${held - kept}`);
              count(key, kept);
            }
          }
          for (const [key, limit, unit] of [
            ["hour=p", 100, "HOUR"],
            ["hour=q", 100, "HOUR"],
            ["day=p", 50, "DAY"],
          ] as const) {
            expect(used.get(key) ?? 0).toBeLessThanOrEqual(limit);
            expect(await text(`${key} #0`)).toBe(`OK(${limit},${limit - (used.get(key) ?? 0)}) ${unit}`);
          }
        }),
        { numRuns: 30 },
      );
    });

    if (!hasGroups) return;

    test("of sliding windows and several limits count at all of them, or at none", async () => {
      const { reserve, held, text } = await serve();
      expect(await held("slide=a #4", "both=a #15", "tokens=a #15")).toEqual([4, 15, 15]);
      const denied = await reserve("slide=a #1", "both=a #6", "tokens=a #1");
      expect(denied.overallCode).toBe("OVER_LIMIT");
      expect((await reserve("slide=a #1", "tokens=a #6")).overallCode).toBe("OVER_LIMIT");
      expect(await text("slide=a #0", "both=a #0", "tokens=a #0")).toBe(
        "OK: OK(10,6) MINUTE | OK(20,5) MINUTE | OK(20,5) MINUTE",
      );
    });

    test("of a sliding window are not refunded after they have left it", async () => {
      const { reserve, refund, text, advance } = await serve();
      const { heldAtMs } = await reserve("slide=a #9", "both=a #18");
      advance(120);
      await text("slide=a #3", "both=a #3");
      await refund(heldAtMs, "slide=a #-9", "both=a #-18");
      expect(await text("slide=a #0")).toBe("OK(10,7) MINUTE");
      expect(await text("both=a #0")).toBe("OK(20,17) MINUTE");
      // Of the hour, 3 are counted.
      for (let times = 0; times < 2; times++) {
        advance(120);
        expect(await text("both=a #20")).toBe("OK(20,0) MINUTE");
      }
      advance(120);
      expect((await reserve("both=a #18")).overallCode).toBe("OVER_LIMIT");
      expect(await text("both=a #17")).toBe("OK(60,0) HOUR");
    });
  });
}
