import { systemClock } from "@gatewayproxy/runtime/clock";
import { describe, expect, test } from "vitest";
import type { LocalLimit } from "../../ir/limit.ts";
import type { CounterTable } from "./counter-table.ts";
import { denialResponse } from "./denial-response.ts";
import { limitHeaders } from "./headers.ts";
import { type LocalDecision, type LocalReport, compileLimits, type LimitSet } from "./local-limiter.ts";
import { allowed, denied, freshTable, request, requestOf, requestsLimit, tokensLimit } from "./testing/local-limits.ts";

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;

function limiter(...limits: readonly LocalLimit[]): LimitSet {
  return compileLimits(limits, freshTable());
}

/** Returns how many of `requests` requests at one time are allowed. */
function countAllowed(set: LimitSet, requests: number, nowMs: number): number {
  let passed = 0;
  for (let at = 0; at < requests; at++) if (set.decide(request, nowMs).kind === "allowed") passed++;
  return passed;
}

function spend(set: LimitSet, tokens: number, nowMs: number): void {
  allowed(set.decide(request, nowMs)).reservation.charge(tokens, nowMs);
}

function outcomes(decided: LocalDecision | LocalReport): readonly string[] {
  const { decisions } = "report" in decided ? decided.report : decided;
  return decisions.map((decision) => decision.outcome);
}

function used(table: CounterTable, limit: LocalLimit, nowMs: number): number {
  const label = table.labelOf(limit);
  return [...table.entries(nowMs)].find((counter) => counter.entry === label)?.used ?? 0;
}

describe("spec 2.1, the fields of an entry", () => {
  test.each([
    ["Seconds", second],
    ["Minutes", minute],
    ["Hours", hour],
  ] as const)("unit %s: `requests` requests pass per unit, to the millisecond", (unit, unitMs) => {
    const set = limiter(requestsLimit({ amount: 3, unit }));
    for (const windowMs of [0, unitMs, 2 * unitMs]) {
      expect(countAllowed(set, 5, windowMs)).toBe(3);
      expect(countAllowed(set, 5, windowMs + unitMs - 0.001)).toBe(0);
    }
  });

  test("tokens: requests pass until the tokens of the unit are used up", () => {
    const set = limiter(tokensLimit({ amount: 100 }));
    spend(set, 60, 0);
    spend(set, 40, 1);
    denied(set.decide(request, 2));
  });

  test("burst: so many extra requests pass above the base limit", () => {
    expect(countAllowed(limiter(requestsLimit({ amount: 10, burst: 5 })), 100, 0)).toBe(15);
  });

  test("no burst: the base limit is the ceiling", () => {
    expect(countAllowed(limiter(requestsLimit({ amount: 10 })), 100, 0)).toBe(10);
  });
});

describe("spec 2.1, the rules", () => {
  const gatewayLimit = requestsLimit({ amount: 6, target: "Gateway/default/public", policy: "default/ceiling" });

  test("rule 1: a route's entry limits that route alone", () => {
    const table = freshTable();
    const one = compileLimits([requestsLimit({ amount: 2, target: "HTTPRoute/default/one" })], table);
    const other = compileLimits([requestsLimit({ amount: 2, target: "HTTPRoute/default/other" })], table);
    expect(countAllowed(one, 5, 0)).toBe(2);
    expect(countAllowed(other, 5, 0)).toBe(2);
  });

  test("rule 1: a Gateway's entry is a ceiling across all its routes", () => {
    const table = freshTable();
    const one = compileLimits([gatewayLimit], table);
    const other = compileLimits([gatewayLimit], table);
    expect(countAllowed(one, 4, 0)).toBe(4);
    expect(countAllowed(other, 4, 0)).toBe(2);
    expect(countAllowed(one, 4, 0)).toBe(0);
  });

  test("rule 1: a route's entry does not replace the Gateway's ceiling", () => {
    const table = freshTable();
    const loose = compileLimits([requestsLimit({ amount: 100 }), gatewayLimit], table);
    expect(countAllowed(loose, 50, 0)).toBe(6);
  });

  test("rule 2: one policy holds several entries, here requests and tokens", () => {
    const set = limiter(requestsLimit({ amount: 2 }), tokensLimit({ amount: 1000 }));
    expect(set.countsTokens).toBe(true);
    spend(set, 10, 0);
    spend(set, 10, 0);
    expect(denied(set.decide(request, 0)).limit.counts).toBe("requests");
  });

  test("rule 3: a request must pass every entry, and any one that is exceeded rejects it", () => {
    const set = limiter(requestsLimit({ amount: 5 }), tokensLimit({ amount: 100 }));
    spend(set, 150, 0);
    const decision = set.decide(request, 0);
    expect(denied(decision).limit.counts).toBe("tokens");
    expect(outcomes(decision)).toEqual(["allowed", "denied"]);
  });

  test("rule 3: entries are evaluated independently, also after one has denied", () => {
    const set = limiter(requestsLimit({ amount: 1 }), tokensLimit({ amount: 1 }));
    spend(set, 1, 0);
    expect(outcomes(set.decide(request, 0))).toEqual(["denied", "denied"]);
  });

  test("rule 4: x-ratelimit-limit of a requests entry is the base limit plus burst", () => {
    expect(allowed(limiter(requestsLimit({ amount: 10, burst: 5 })).decide(request, 0)).state?.limit).toBe(15);
  });

  test("rule 5: the sum of tokens counts over the window, and the window's end resets the budget", () => {
    const set = limiter(tokensLimit({ amount: 1000, unit: "Hours" }));
    for (let at = 0; at < 4; at++) spend(set, 250, at * minute);
    denied(set.decide(request, hour - 1));
    expect(allowed(set.decide(request, hour)).state).toEqual({ limit: 1000, remaining: 1000, resetSeconds: 3600 });
  });
});

describe("spec 3, the transitions of a token window", () => {
  test("budget remaining → exhausted: the response that crosses the limit belongs to a request that passed", () => {
    const set = limiter(tokensLimit({ amount: 1000 }));
    spend(set, 999, 0);
    const crossing = allowed(set.decide(request, 1));
    crossing.reservation.charge(500, 2);
    denied(set.decide(request, 3));
  });

  test("exhausted → exhausted: every next request of the window is rejected", () => {
    const set = limiter(tokensLimit({ amount: 1000 }));
    spend(set, 1000, 0);
    for (const nowMs of [0, 1, 30 * second, minute - 0.001]) denied(set.decide(request, nowMs));
  });

  test("exhausted → restored: requests succeed again when the unit has passed, by themselves", () => {
    const set = limiter(tokensLimit({ amount: 1000 }));
    spend(set, 1000, 0);
    denied(set.decide(request, minute - 1));
    expect(allowed(set.decide(request, minute)).state?.remaining).toBe(1000);
  });
});

describe("spec 7, errors and headers", () => {
  const set = limiter(requestsLimit({ amount: 10, burst: 5 }));
  countAllowed(set, 15, 0);
  const response = denialResponse(denied(set.decide(request, 500)), 500);

  test("a request over any entry gets a 429 with exactly `rate limit exceeded`", () => {
    expect(response.responses.denied).toBeUndefined();
    expect(response.body).toBe("rate limit exceeded");
  });

  test("x-ratelimit-limit, -remaining and -reset are on a denied response, of the entry that denied", () => {
    expect(response.rawHeaders.slice(0, 6)).toEqual(limitHeaders({ limit: 15, remaining: 0, resetSeconds: 60 }));
  });

  test("x-ratelimit-limit, -remaining and -reset are on an allowed response", () => {
    const fresh = limiter(requestsLimit({ amount: 10, burst: 5 }));
    expect(allowed(fresh.decide(request, 0)).state).toEqual({ limit: 15, remaining: 14, resetSeconds: 60 });
    expect(allowed(fresh.decide(request, 20_001)).state).toEqual({ limit: 15, remaining: 13, resetSeconds: 40 });
  });

  test("x-ratelimit-remaining counts tokens for a tokens entry", () => {
    const tokens = limiter(tokensLimit({ amount: 1000 }));
    spend(tokens, 300, 0);
    expect(allowed(tokens.decide(request, 15_000)).state).toEqual({ limit: 1000, remaining: 700, resetSeconds: 45 });
  });

  test("x-envoy-ratelimited is never present under local limiting", () => {
    expect(response.rawHeaders).not.toContain("x-envoy-ratelimited");
  });
});

describe("spec 8, limits", () => {
  test("1: a limit of Seconds holds in real time", async () => {
    const set = limiter(requestsLimit({ amount: 2, unit: "Seconds" }));
    const startMs = systemClock.monotonicMs();
    expect(countAllowed(set, 5, startMs)).toBe(2);
    let nowMs = startMs;
    while (set.decide(request, nowMs).kind === "denied") {
      await new Promise((resolve) => setTimeout(resolve, 5));
      nowMs = systemClock.monotonicMs();
    }
    expect(nowMs - startMs).toBeGreaterThanOrEqual(second);
    expect(nowMs - startMs).toBeLessThan(3 * second);
  });

  test("3: tokens are counted after the response, so concurrent requests may overshoot by what was in flight", () => {
    const set = limiter(tokensLimit({ amount: 1000 }));
    const inFlight = [0, 0, 0].map(() => allowed(set.decide(request, 0)));
    for (const { reservation } of inFlight) reservation.charge(600, 10);
    denied(set.decide(request, 11));
  });

  test("3: with 1000 tokens a minute one response of 1200 succeeds and later requests wait for the window", () => {
    const set = limiter(tokensLimit({ amount: 1000 }));
    spend(set, 1200, 0);
    const response = denied(set.decide(request, 10 * second));
    expect(response.state).toEqual({ limit: 1000, remaining: 0, resetSeconds: 50 });
    allowed(set.decide(request, minute));
  });

  test("3: a stream that ends after its window is counted in the window it ends in", () => {
    const set = limiter(tokensLimit({ amount: 1000 }));
    spend(set, 100, 0);
    const stream = allowed(set.decide(request, 50 * second));
    stream.reservation.charge(1000, 70 * second);
    expect(denied(set.decide(request, 71 * second)).state.resetSeconds).toBe(59);
  });

  test("5: local limits are per replica", () => {
    const limit = requestsLimit({ amount: 3 });
    expect(countAllowed(compileLimits([limit], freshTable()), 5, 0)).toBe(3);
    expect(countAllowed(compileLimits([limit], freshTable()), 5, 0)).toBe(3);
  });

  test("6: 10 requests a minute with burst 5 together with 1000 tokens a minute behaves to the letter", () => {
    const set = limiter(requestsLimit({ amount: 10, burst: 5 }), tokensLimit({ amount: 1000 }));
    for (let at = 0; at < 15; at++) spend(set, 10, 0);
    expect(denied(set.decide(request, 1)).state).toEqual({ limit: 15, remaining: 0, resetSeconds: 60 });
    for (let at = 0; at < 3; at++) spend(set, 400, minute);
    expect(denied(set.decide(request, minute + 1)).state).toEqual({ limit: 1000, remaining: 0, resetSeconds: 60 });
    expect(countAllowed(set, 100, 2 * minute)).toBe(15); // 8 were out and 10 came back: full again.
    expect(countAllowed(set, 100, 3 * minute)).toBe(10);
  });
});

describe("the contract: all or nothing", () => {
  test("a request that one entry denies consumes nothing of another", () => {
    const table = freshTable();
    const wide = requestsLimit({ amount: 100 });
    const set = compileLimits([wide, requestsLimit({ amount: 2 }), tokensLimit()], table);
    expect(countAllowed(set, 50, 0)).toBe(2);
    expect(used(table, wide, 0)).toBe(2);
  });

  test("a request that is denied is not counted by a shadow entry either", () => {
    const table = freshTable();
    const shadow = requestsLimit({ amount: 100, mode: "Shadow" });
    expect(countAllowed(compileLimits([shadow, requestsLimit({ amount: 2 })], table), 50, 0)).toBe(2);
    expect(used(table, shadow, 0)).toBe(2);
  });

  test("a request that an exhausted token budget denies consumes no request unit", () => {
    const set = limiter(requestsLimit({ amount: 2 }), tokensLimit({ amount: 1 }));
    spend(set, 1, 0);
    expect(countAllowed(set, 50, 1)).toBe(0);
    expect(countAllowed(set, 50, minute)).toBe(2);
  });
});

describe("the contract: requests", () => {
  test("10 a minute with burst 5 admits 15 at once, then 10 a minute", () => {
    const set = limiter(requestsLimit({ amount: 10, burst: 5 }));
    expect([0, 1, 2, 3].map((at) => countAllowed(set, 100, at * minute))).toEqual([15, 10, 10, 10]);
  });

  test("the burst is back after the windows that it takes to fill up", () => {
    const set = limiter(requestsLimit({ amount: 10, burst: 25 }));
    expect(countAllowed(set, 100, 0)).toBe(35);
    expect(countAllowed(set, 100, 3 * minute)).toBe(30);
    expect(countAllowed(set, 100, 7 * minute)).toBe(35);
  });

  test("a window opens with the first request counted while full, not with the clock's minute", () => {
    const set = limiter(requestsLimit({ amount: 1 }));
    allowed(set.decide(request, 59_000));
    expect(denied(set.decide(request, 61_000)).state.resetSeconds).toBe(58);
    allowed(set.decide(request, 119_000));
  });

  test("with no entry at all everything passes", () => {
    const set = limiter();
    expect(set.isEmpty).toBe(true);
    expect(set.countsTokens).toBe(false);
    expect(allowed(set.decide(request, 0)).state).toBeUndefined();
  });

  test("an identity that comes twice counts once, and enforced wins", () => {
    const limit = requestsLimit({ amount: 4 });
    expect(countAllowed(limiter(limit, { ...limit }), 9, 0)).toBe(4);
    expect(countAllowed(limiter({ ...limit, mode: "Shadow" }, limit), 9, 0)).toBe(4);
    expect(countAllowed(limiter(limit, { ...limit, mode: "Shadow" }), 9, 0)).toBe(4);
  });
});

describe("the contract: tokens", () => {
  test.each([NaN, -1, -1e9, 0, 1.5, Infinity, Number.MAX_SAFE_INTEGER + 1])("a charge of %d is ignored", (tokens) => {
    const set = limiter(tokensLimit({ amount: 1000 }));
    spend(set, 400, 0);
    spend(set, tokens, 1);
    expect(allowed(set.decide(request, 2)).state?.remaining).toBe(600);
  });

  test("the largest charges neither overflow nor outlast the window", () => {
    const set = limiter(tokensLimit({ amount: 1000 }));
    const reservations = [1, 2, 3].map(() => allowed(set.decide(request, 0)).reservation);
    for (const reservation of reservations) reservation.charge(Number.MAX_SAFE_INTEGER, 0);
    expect(denied(set.decide(request, 1)).state).toEqual({ limit: 1000, remaining: 0, resetSeconds: 60 });
    expect(allowed(set.decide(request, minute)).state?.remaining).toBe(1000);
  });

  test("an allowed request takes nothing before its charge, and a charge takes no request unit", () => {
    const set = limiter(requestsLimit({ amount: 100 }), tokensLimit({ amount: 1000 }));
    const { reservation, state } = allowed(set.decide(request, 0));
    expect(state).toEqual({ limit: 100, remaining: 99, resetSeconds: 60 });
    reservation.charge(500, 0);
    expect(allowed(set.decide(request, 1)).state).toEqual({ limit: 1000, remaining: 500, resetSeconds: 60 });
  });
});

describe("the contract: refunds", () => {
  test("a refund returns the request's unit to every requests entry, and only once", () => {
    const table = freshTable();
    const [narrow, wide] = [requestsLimit({ amount: 3 }), requestsLimit({ amount: 50 })];
    const set = compileLimits([narrow, wide], table);
    const { reservation } = allowed(set.decide(request, 0));
    countAllowed(set, 2, 0);
    reservation.refund(1);
    reservation.refund(2);
    expect([used(table, narrow, 2), used(table, wide, 2)]).toEqual([2, 2]);
    expect(countAllowed(set, 9, 3)).toBe(1);
  });

  test("a refund after its window does nothing: the window's end has restored the unit already", () => {
    const set = limiter(requestsLimit({ amount: 3 }));
    const { reservation } = allowed(set.decide(request, 0));
    expect(countAllowed(set, 9, minute)).toBe(3);
    reservation.refund(minute + 1);
    expect(countAllowed(set, 9, minute + 2)).toBe(0);
  });

  test("a refund that makes the counter full closes its window", () => {
    const set = limiter(requestsLimit({ amount: 3 }));
    allowed(set.decide(request, 0)).reservation.refund(10 * second);
    expect(allowed(set.decide(request, 30 * second)).state).toEqual({ limit: 3, remaining: 2, resetSeconds: 60 });
  });

  test("a refund leaves tokens that were charged as they are", () => {
    const set = limiter(requestsLimit({ amount: 100 }), tokensLimit({ amount: 1000 }));
    const { reservation } = allowed(set.decide(request, 0));
    reservation.charge(999, 1);
    reservation.refund(2);
    expect(allowed(set.decide(request, 3)).state).toEqual({ limit: 1000, remaining: 1, resetSeconds: 60 });
  });
});

describe("the contract: which entry shows", () => {
  test("of an allowed request the one nearest to exhaustion, by remaining ÷ limit", () => {
    const set = limiter(requestsLimit({ amount: 1000 }), requestsLimit({ amount: 5 }), requestsLimit({ amount: 50 }));
    expect(allowed(set.decide(request, 0)).state?.limit).toBe(5);
  });

  test("of equally near ones the requests entry", () => {
    const set = limiter(tokensLimit({ amount: 100 }), requestsLimit({ amount: 10 }));
    for (let at = 0; at < 4; at++) spend(set, 10, 0);
    const { reservation, state } = allowed(set.decide(request, 0));
    expect(state?.limit).toBe(10);
    reservation.charge(20, 0); // Now 60 of 100 tokens and, with the next request, 6 of 10 requests.
    expect(allowed(set.decide(request, 0)).state).toEqual({ limit: 10, remaining: 4, resetSeconds: 60 });
  });

  test("of several that deny the one with the longest reset, and retry-after says so", () => {
    const set = limiter(
      requestsLimit({ amount: 1, unit: "Seconds" }),
      requestsLimit({ amount: 1, unit: "Hours" }),
      requestsLimit({ amount: 1, unit: "Minutes" }),
    );
    allowed(set.decide(request, 0));
    const decision = set.decide(request, 0.5);
    expect(denied(decision).limit.unit).toBe("Hours");
    expect(outcomes(decision)).toEqual(["denied", "denied", "denied"]);
    expect(denialResponse(denied(decision), 0.5).rawHeaders).toEqual([
      ...limitHeaders({ limit: 1, remaining: 0, resetSeconds: 3600 }),
      "retry-after",
      "3600",
      "content-type",
      "text/plain",
    ]);
  });

  test("retry-after is at least 1 and never too early", () => {
    const set = limiter(requestsLimit({ amount: 1, unit: "Seconds" }));
    allowed(set.decide(request, 0));
    expect(denied(set.decide(request, 999.99)).retryAfterSeconds).toBe(1);
    const at = 123.4;
    const { retryAfterSeconds } = denied(set.decide(request, at));
    allowed(set.decide(request, at + retryAfterSeconds * second));
  });
});

describe("the contract: key", () => {
  const limit = requestsLimit({ amount: 2, key: 'request.headers["x-api-key"]' });

  test("each distinct value has its own counter", () => {
    const set = limiter(limit);
    for (const client of ["ann", "ben", ""]) {
      const passed = Array.from({ length: 5 }, () => set.decide(requestOf(client), 0).kind);
      expect(passed.filter((kind) => kind === "allowed")).toHaveLength(2);
    }
    expect(denied(set.decide(requestOf("ann"), 0)).key).toBe("ann");
  });

  test("requests without a value share one counter", () => {
    const set = limiter(limit);
    expect(countAllowed(set, 5, 0)).toBe(2);
    expect(denied(set.decide(request, 0)).key).toBeUndefined();
    allowed(set.decide(requestOf("ann"), 0));
  });

  test("an unkeyed entry beside it still bounds all together", () => {
    const set = limiter(limit, requestsLimit({ amount: 3 }));
    const passed = ["a", "b", "c", "d", "e"].map((client) => set.decide(requestOf(client), 0).kind);
    expect(passed).toEqual(["allowed", "allowed", "allowed", "denied", "denied"]);
  });

  test("token charges and refunds reach the counter of the request's own value", () => {
    const set = limiter(limit, tokensLimit({ amount: 100, key: 'request.headers["x-api-key"]' }));
    const ann = allowed(set.decide(requestOf("ann"), 0)).reservation;
    ann.charge(100, 0);
    ann.refund(0);
    expect(denied(set.decide(requestOf("ann"), 1)).limit.counts).toBe("tokens");
    expect(allowed(set.decide(requestOf("ben"), 1)).state?.remaining).toBe(1);
  });

  test("a counter that denies all the time keeps its slot among others that come and go", () => {
    // All counters are in one bucket of 16.
    const table = freshTable(16);
    const set = compileLimits(
      [requestsLimit({ amount: 2, unit: "Hours", key: 'request.headers["x-api-key"]' })],
      table,
    );
    const ask = (client: string, nowMs: number): string => set.decide(requestOf(client), nowMs).kind;
    expect([ask("greedy", 0), ask("greedy", 0), ask("greedy", 0)]).toEqual(["allowed", "allowed", "denied"]);
    for (let at = 1; at <= 100; at++) {
      expect(ask(`other ${at}`, at)).toBe("allowed");
      expect(ask("greedy", at)).toBe("denied");
    }
    expect(table.evictions).toBe(85);
    // The next window.
    expect(ask("greedy", hour)).toBe("allowed");
  });

  test("no counter is evicted while its window is open and there are fewer than the bound", () => {
    const table = freshTable(16);
    const set = compileLimits(
      [requestsLimit({ amount: 1, unit: "Hours", key: 'request.headers["x-api-key"]' })],
      table,
    );
    for (let client = 0; client < 16; client++) allowed(set.decide(requestOf(`${client}`), client));
    for (let client = 0; client < 16; client++) denied(set.decide(requestOf(`${client}`), hour - 1));
    expect(table.evictions).toBe(0);
    // Others take the places of those whose windows have ended.
    for (let client = 16; client < 24; client++) allowed(set.decide(requestOf(`${client}`), hour + 7));
    for (let client = 8; client < 16; client++) denied(set.decide(requestOf(`${client}`), hour + 7));
    expect(table.evictions).toBe(0);
  });

  test("many values never evict the counter of an entry without key", () => {
    const table = freshTable(16);
    const ceiling = requestsLimit({ amount: 1000 });
    const set = compileLimits([ceiling, limit], table);
    for (let at = 0; at < 500; at++) set.decide(requestOf(`client ${at}`), at);
    expect(used(table, ceiling, 500)).toBe(500);
    expect(table.evictions).toBe(485);
  });

  test("values that were only denied take no slot", () => {
    const table = freshTable();
    const set = compileLimits([requestsLimit({ amount: 1 }), limit], table);
    for (let at = 0; at < 500; at++) set.decide(requestOf(`client ${at}`), at);
    expect([...table.entries(500)]).toHaveLength(2);
  });

  test("a key that does not parse is rejected when compiling", () => {
    expect(() => limiter(requestsLimit({ key: "user" }))).toThrow(/limit key user: .*unknown variable/);
  });
});

describe("the contract: mode Shadow", () => {
  const shadow = requestsLimit({ amount: 2, mode: "Shadow" });

  test("never denies, reports what it would have denied, and does not show in headers", () => {
    const set = limiter(shadow);
    const seen = Array.from({ length: 4 }, () => allowed(set.decide(request, 0)));
    expect(seen.map(outcomes)).toEqual([["allowed"], ["allowed"], ["shadowDenied"], ["shadowDenied"]]);
    expect(seen.map(({ state }) => state)).toEqual([undefined, undefined, undefined, undefined]);
  });

  test("counts what it would have allowed, so that its windows are those of an enforced entry", () => {
    const set = limiter(shadow);
    const passedPerMinute = [0, 1, 2].map((at) => {
      const seen = Array.from({ length: 10 }, () => outcomes(set.decide(request, at * minute)));
      return seen.filter(([outcome]) => outcome === "allowed").length;
    });
    expect(passedPerMinute).toEqual([2, 2, 2]);
  });

  test("headers are those of the enforced entry beside it", () => {
    const set = limiter(shadow, requestsLimit({ amount: 50 }));
    countAllowed(set, 9, 0);
    expect(allowed(set.decide(request, 0)).state).toEqual({ limit: 50, remaining: 40, resetSeconds: 60 });
  });

  test("charges and refunds of a request that it would have denied leave its counter alone", () => {
    const table = freshTable();
    const tokens = tokensLimit({ amount: 100, mode: "Shadow" });
    const set = compileLimits([shadow, tokens], table);
    const reservations = [1, 2, 3].map(() => allowed(set.decide(request, 0)).reservation);
    reservations[2]?.refund(1);
    expect(used(table, shadow, 2)).toBe(2);
    reservations[0]?.charge(100, 2);
    const deniedByTokens = allowed(set.decide(request, 3));
    expect(outcomes(deniedByTokens)).toEqual(["shadowDenied", "shadowDenied"]);
    deniedByTokens.reservation.charge(100, 4);
    expect(used(table, tokens, 4)).toBe(100);
  });
});

describe("the contract: configuration edits", () => {
  test("an edit elsewhere keeps the counters", () => {
    const table = freshTable();
    const limit = requestsLimit({ amount: 3 });
    expect(countAllowed(compileLimits([limit], table), 2, 0)).toBe(2);
    const edited = compileLimits([requestsLimit({ amount: 77 }), structuredClone(limit), tokensLimit()], table);
    expect(countAllowed(edited, 9, 1)).toBe(1);
  });

  test("a request that began before the edit charges and refunds the same counters", () => {
    const table = freshTable();
    const [requests, tokens] = [requestsLimit({ amount: 1 }), tokensLimit({ amount: 10 })];
    const { reservation } = allowed(compileLimits([requests, tokens], table).decide(request, 0));
    const edited = compileLimits([tokens, requests], table);
    reservation.charge(4, 1);
    reservation.refund(2);
    expect(allowed(edited.decide(request, 3)).state).toEqual({ limit: 1, remaining: 0, resetSeconds: 60 });
    expect(used(table, tokens, 3)).toBe(4);
  });

  test("changing an entry's mode alone keeps its counter", () => {
    const table = freshTable();
    const limit = requestsLimit({ amount: 3 });
    countAllowed(compileLimits([{ ...limit, mode: "Shadow" }], table), 9, 0);
    expect(countAllowed(compileLimits([limit], table), 9, 1)).toBe(0);
  });
});

describe("decisions", () => {
  test("name each entry, and are one shared array while all allow", () => {
    const limits = [requestsLimit({ amount: 2 }), tokensLimit()];
    const set = limiter(...limits);
    const first = set.decide(request, 0).report.decisions;
    expect(first.map((decision) => decision.limit)).toEqual(limits);
    expect(set.decide(request, 0).report.decisions).toBe(first);
    expect(outcomes(set.decide(request, 0))).toEqual(["denied", "allowed"]);
  });
});
