/** Calendar and sliding windows, and several limits of a descriptor, through the service with counters in memory. */
import { describe, expect, test } from "vitest";
import { createStoreMemory, MemoryTables } from "../store/memory-tables.ts";
import { MemoryStore } from "../store/memory-store.ts";
import type { CaseSettings } from "../testing/acceptance/case.ts";
import { createCore } from "../testing/acceptance/core.ts";
import { parseCall, renderResponse } from "../testing/acceptance/notation.ts";
import type { RateLimitResponse } from "../model/rate-limit.ts";

const limits = `
domain: d
descriptors:
  - {key: day, rate_limit: {unit: day, requests_per_unit: 5, calendar: true, timezone: Europe/Berlin}}
  - {key: month, rate_limit: {unit: month, requests_per_unit: 5, calendar: true, name: budget}}
  - {key: slide, rate_limit: {unit: minute, requests_per_unit: 5, window: sliding}}
  - key: both
    rate_limits:
      - {unit: minute, requests_per_unit: 3, name: burst}
      - {unit: month, requests_per_unit: 10, calendar: true, name: budget}
  - key: tokens
    count_denied: true
    rate_limits: [{unit: minute, requests_per_unit: 100}, {unit: hour, requests_per_unit: 150, window: sliding}]
  - key: shadow
    shadow_mode: true
    rate_limits: [{unit: minute, requests_per_unit: 1}]
  - key: quota
    quota_mode: true
    rate_limits: [{unit: minute, requests_per_unit: 1}]
  - key: replacing
    rate_limits: [{unit: minute, requests_per_unit: 9, name: own, replaces: [{name: budget}]}]
  - key: plain
    rate_limit: {unit: hour, requests_per_unit: 9}
`;

function openCore(settings: CaseSettings = {}, startText = "2026-11-27T12:00:00Z") {
  let store: MemoryStore | undefined;
  const core = createCore(
    (clock) => (store = new MemoryStore(new MemoryTables(createStoreMemory(1_024), 1), clock)),
    settings,
    { limits },
  );
  core.clock.advance(Date.parse(startText) - core.clock.nowMs());
  const ask = (...descriptors: string[]): RateLimitResponse => {
    const response = core.service.shouldRateLimit(parseCall("d", descriptors));
    if (response instanceof Promise) throw new Error("the store in memory returns at once");
    return response;
  };
  return {
    ...core,
    ask,
    text: (...descriptors: string[]) => renderResponse(ask(...descriptors)),
    reset: (descriptor: string) => ask(descriptor).statuses[0]?.durationUntilResetSeconds,
    keys: () => [...(store?.liveCounters() ?? [])].map(({ key, count }) => `${key} ${count}`).sort(),
    advance: (seconds: number) => core.clock.advance(seconds * 1_000),
  };
}

describe("a calendar window", () => {
  test("ends at midnight of its time zone, and counts denied calls as a plain one", () => {
    const { text, reset, advance, keys } = openCore({}, "2026-11-27T22:59:59Z");
    expect(reset("day=a #4")).toBe(1);
    expect(text("day=a #4")).toBe("OVER_LIMIT(5,0) DAY");
    expect(text("day=a #-6")).toBe("OK(5,3) DAY");
    expect(keys()).toEqual(["{d_day_a_}calendar-1-Days-Europe/Berlin-1795734000 2"]);
    advance(1);
    expect(text("day=a #4")).toBe("OK(5,1) DAY");
    expect(reset("day=a")).toBe(86_400);
    expect(keys()).toEqual(["{d_day_a_}calendar-1-Days-Europe/Berlin-1795820400 5"]);
  });

  test.each([
    ["2026-03-29T00:00:00Z", 79_200, "23 hours less one"],
    ["2026-10-25T00:00:00Z", 82_800, "25 hours less two"],
  ])("of a day with a change of the clocks, from %s, ends after %i s", (start, seconds) => {
    expect(openCore({}, start).reset("day=a")).toBe(seconds);
  });

  test("of a month has the length of the current one in the header", () => {
    const { ask } = openCore({ headers: "envoy" }, "2028-02-29T23:59:59Z");
    expect(ask("month=a").responseHeaders).toEqual([
      { key: "x-ratelimit-limit", value: '5, 5;w=2505600;name="budget"' },
      { key: "x-ratelimit-remaining", value: "4" },
      { key: "x-ratelimit-reset", value: "1" },
    ]);
  });

  test("a clock that is set back over its start finds the counter of the window before", () => {
    const { text, advance } = openCore({}, "2026-11-30T23:59:00Z");
    expect(text("month=a #5")).toBe("OK(5,0) MONTH");
    advance(120);
    expect(text("month=a #5")).toBe("OK(5,0) MONTH");
    advance(-120);
    expect(text("month=a")).toBe("OVER_LIMIT(5,0) MONTH");
    advance(120);
    expect(text("month=a")).toBe("OVER_LIMIT(5,0) MONTH");
  });
});

describe("a sliding window", () => {
  test("frees hits one minute and one second after each of them", () => {
    const { text, reset, advance } = openCore();
    expect(text("slide=a #3")).toBe("OK(5,2) MINUTE");
    advance(30);
    expect(text("slide=a #2")).toBe("OK(5,0) MINUTE");
    expect(text("slide=a")).toBe("OVER_LIMIT(5,0) MINUTE");
    expect(reset("slide=a")).toBe(31);
    expect(reset("slide=a #4")).toBe(61);
    advance(30);
    expect(text("slide=a")).toBe("OVER_LIMIT(5,0) MINUTE");
    advance(1);
    expect(text("slide=a #0")).toBe("OK(5,3) MINUTE");
    expect(text("slide=a #4")).toBe("OVER_LIMIT(5,3) MINUTE");
    expect(text("slide=a #3")).toBe("OK(5,0) MINUTE");
  });

  test("a check of a used-up window is denied, and calls that are denied do not prolong it", () => {
    const { text, advance } = openCore();
    expect(text("slide=a #5")).toBe("OK(5,0) MINUTE");
    expect(text("slide=a #0")).toBe("OVER_LIMIT(5,0) MINUTE");
    for (let i = 0; i < 60; i++) {
      expect(text("slide=a")).toBe("OVER_LIMIT(5,0) MINUTE");
      advance(1);
    }
    advance(1);
    expect(text("slide=a")).toBe("OK(5,4) MINUTE");
  });

  test("has its length in the header", () => {
    const { ask } = openCore({ headers: "envoy" });
    expect(ask("slide=a").responseHeaders[0]?.value).toBe("5, 5;w=60");
  });
});

describe("several limits", () => {
  test("count a call all together or not at all, and show the nearest, or the one that resets last", () => {
    const { text, reset, advance, keys } = openCore({}, "2026-11-30T23:57:30Z");
    expect(text("both=a #3")).toBe("OK(3,0) MINUTE");
    expect(text("both=a")).toBe("OVER_LIMIT(3,0) MINUTE");
    advance(60);
    expect(text("both=a #3")).toBe("OK(3,0) MINUTE");
    advance(60);
    expect(text("both=a #4")).toBe("OVER_LIMIT(3,3) MINUTE");
    expect(text("both=a #3")).toBe("OK(3,0) MINUTE");
    expect(keys()).toEqual(["{d_both_a_}calendar-1-Months-UTC-1793491200 9", "{d_both_a_}fixed-60-1796083140 3"]);
    expect(reset("both=a #2")).toBe(30);
    advance(30);
    expect(text("both=a #2")).toBe("OK(3,1) MINUTE");
    advance(-30);
    advance(-60);
    expect(text("both=a #-9")).toBe("OK(3,3) MINUTE");
  });

  test("a refund is taken from each of them", () => {
    const { text, keys } = openCore();
    text("both=a #3");
    expect(text("both=a #-2")).toBe("OK(3,2) MINUTE");
    expect(keys().map((key) => key.split(" ")[1])).toEqual(["1", "1"]);
  });

  test("have one header with all of them", () => {
    const { ask } = openCore({ headers: "envoy" });
    expect(ask("both=a", "plain=a").responseHeaders[0]?.value).toBe(
      '3, 3;w=60;name="burst", 10;w=2592000;name="budget", 9;w=3600',
    );
  });

  test("with count_denied, hits beyond a limit count in all of them", () => {
    const { text, keys } = openCore();
    expect(text("tokens=a #0")).toBe("OK(100,100) MINUTE");
    expect(text("tokens=a #90")).toBe("OK(100,10) MINUTE");
    expect(text("tokens=a #80")).toBe("OVER_LIMIT(150,0) HOUR");
    expect(text("tokens=a #0")).toBe("OVER_LIMIT(150,0) HOUR");
    expect(keys().map((key) => key.split(" ")[1])).toEqual(["170", "170"]);
  });

  test("a limit that another one of the call replaces is left out, and a descriptor without others", () => {
    const { text, keys } = openCore();
    expect(text("both=a #3", "replacing=a", "month=a")).toBe("OK: OK(3,0) MINUTE | OK(9,8) MINUTE | OK(–)");
    expect(keys().map((key) => key.split("-")[0])).toEqual(["{d_both_a_}fixed", "{d_replacing_a_}fixed"]);
  });

  test("shadow mode, quota mode and SHADOW_MODE deny nothing, and count as if they did", () => {
    const { text } = openCore();
    expect(text("shadow=a #2")).toBe("OK(1,1) MINUTE");
    expect(text("quota=a #2", "plain=a")).toBe("OVER_LIMIT: OVER_LIMIT(1,1) MINUTE | OK(9,8) HOUR");
    expect(text("quota=a #2")).toBe("OVER_LIMIT(1,1) MINUTE");
    const shadowed = openCore({ shadowMode: true });
    expect(shadowed.ask("both=a #4").overallCode).toBe("OK");
    expect(shadowed.keys()).toEqual([]);
  });

  test("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT counts a call that they deny nowhere, and none that another denies", () => {
    const { text, keys } = openCore({ stopsAtOverLimit: true });
    expect(text("both=a #4", "plain=a #4")).toBe("OVER_LIMIT: OVER_LIMIT(3,3) MINUTE | OK(9,9) HOUR");
    expect(keys()).toEqual([]);
    expect(text("both=a", "plain=a #10")).toBe("OVER_LIMIT: OK(3,3) MINUTE | OVER_LIMIT(9,0) HOUR");
    expect(keys()).toEqual(["d_plain_a_1795780800 10"]);
  });

  test("an override of the call takes their place", () => {
    const { text, keys } = openCore();
    expect(text("both=a @1/HOUR #5")).toBe("OVER_LIMIT(1,0) HOUR");
    expect(keys()).toEqual(["d_both_a_1795780800 5"]);
  });
});

describe("the over-limit cache", () => {
  test("denies without the store until the limit resets, and knows refunds", () => {
    const { ask, text, stats, advance } = openCore({ overLimitCache: true });
    text("slide=a #5");
    text("slide=a");
    const cached = () => [...stats.series()].map(({ counts }) => counts.overLimitWithLocalCache);
    expect(cached()).toEqual([0]);
    advance(30);
    expect(ask("slide=a").statuses[0]).toMatchObject({ code: "OVER_LIMIT", durationUntilResetSeconds: 31 });
    expect(cached()).toEqual([1]);
    text("slide=a #-1");
    expect(text("slide=a")).toBe("OK(5,0) MINUTE");
    text("slide=a");
    advance(31);
    expect(text("slide=a #3")).toBe("OK(5,1) MINUTE");
    expect(cached()).toEqual([1]);
  });

  test("denies no longer than the store when a clock that was far ahead is set right", () => {
    const { text, advance } = openCore({ overLimitCache: true }, "2027-11-27T12:00:00Z");
    text("slide=a #5");
    expect(text("slide=a")).toBe("OVER_LIMIT(5,0) MINUTE");
    advance(-365 * 86_400);
    expect(text("slide=a")).toBe("OVER_LIMIT(5,0) MINUTE");
    advance(61);
    expect(text("slide=a")).toBe("OK(5,4) MINUTE");
  });

  test("a call of more hits than remain leaves smaller ones alone", () => {
    const { text } = openCore({ overLimitCache: true });
    expect(text("both=a #4")).toBe("OVER_LIMIT(3,3) MINUTE");
    expect(text("slide=a #9")).toBe("OVER_LIMIT(5,5) MINUTE");
    expect(text("both=a #3", "slide=a #5")).toBe("OK: OK(3,0) MINUTE | OK(5,0) MINUTE");
    expect(text("slide=a #9")).toBe("OVER_LIMIT(5,0) MINUTE");
    expect(text("slide=a #1")).toBe("OVER_LIMIT(5,0) MINUTE");
  });
});

test("hits near, within and over the limit are counted once for a descriptor, for the limit that is shown", () => {
  const { text, stats } = openCore();
  for (let i = 0; i < 5; i++) text("both=a");
  expect([...stats.series()].map(({ counts }) => counts)).toEqual([
    {
      ...{ totalHits: 5, overLimit: 2, nearLimit: 1, withinLimit: 3, overLimitWithLocalCache: 0 },
      ...{ shadowMode: 0, totalNegativeHits: 0 },
    },
  ]);
});
