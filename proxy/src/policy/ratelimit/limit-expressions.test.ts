/** Entries with the expressions `when`, `limit` and `cost`. */
import { describe, expect, test } from "vitest";
import type { RequestView } from "../../cel/request-view.ts";
import { maxAllowanceUnits, RequestWork } from "../../cel/request-work.ts";
import type { LocalLimit } from "../../ir/limit.ts";
import type { TokenUsage } from "../../ir/usage.ts";
import { type LocalDecision, compileLimits, type LimitSet } from "./local-limiter.ts";
import { allowed, denied, freshTable, request, requestsLimit, tokens, tokensLimit } from "./testing/local-limits.ts";

const minute = 60_000;

function limiter(...limits: readonly LocalLimit[]): LimitSet {
  return compileLimits(limits, freshTable());
}

function withHeaders(headers: Readonly<Record<string, string>>): RequestView {
  return { ...request, rawHeaders: Object.entries(headers).flat() };
}

function outcomes({ report }: LocalDecision): readonly string[] {
  return report.decisions.map(({ outcome }) => outcome);
}

function countAllowed(set: LimitSet, view: RequestView, requests: number): number {
  let passed = 0;
  for (let at = 0; at < requests; at++) if (set.decide(view, 0).kind === "allowed") passed++;
  return passed;
}

/** Costs more than one evaluation may, for a request with a long header. */
const costly = 'size(request.headers["x-long"].split("").map(x, x + "1").join(",")) > 0';
const longHeader = { "x-long": "a".repeat(60_000) };

describe("when", () => {
  const exempt = 'request.headers["x-tier"] != "internal"';

  test("exempts the requests for which it is false: they are neither counted nor denied", () => {
    const set = limiter(requestsLimit({ amount: 1, when: exempt }));
    const internal = withHeaders({ "x-tier": "internal" });
    expect(countAllowed(set, internal, 5)).toBe(5);
    expect(outcomes(set.decide(internal, 0))).toEqual(["notApplied"]);
    expect(countAllowed(set, withHeaders({ "x-tier": "gold" }), 5)).toBe(1);
    expect(countAllowed(set, internal, 5)).toBe(5);
  });

  test("leaves the other entries as they are, and the headers show those that apply", () => {
    const set = limiter(requestsLimit({ amount: 5 }), requestsLimit({ amount: 1, unit: "Hours", when: exempt }));
    const { state, decisions } = allowed(set.decide(withHeaders({ "x-tier": "internal" }), 0));
    expect(state).toEqual({ limit: 5, remaining: 4, resetSeconds: 60 });
    expect(decisions.map(({ outcome }) => outcome)).toEqual(["allowed", "notApplied"]);
    expect(allowed(set.decide(withHeaders({}), 0)).state?.limit).toBe(1);
  });

  test("applies to a request for which it has no value, fails or costs too much", () => {
    const sources = [exempt, 'int(request.headers["x-tier"]) == 0', costly];
    const views = [withHeaders({}), withHeaders({ "x-tier": "none" }), withHeaders(longHeader)];
    for (const [at, when] of sources.entries()) {
      const set = limiter(requestsLimit({ amount: 2, when }));
      expect(countAllowed(set, views[at] ?? request, 9)).toBe(2);
    }
  });

  test("of a denied request, the denial names the entries that do not apply", () => {
    const set = limiter(requestsLimit({ amount: 1 }), requestsLimit({ amount: 2, entry: 1, when: exempt }));
    const internal = withHeaders({ "x-tier": "internal" });
    allowed(set.decide(internal, 0));
    expect(denied(set.decide(internal, 0)).notApplied).toMatchObject([{ entry: 1, when: exempt }]);
  });

  test("an entry that does not apply is not charged by the response, and refunds nothing", () => {
    const table = freshTable();
    const limit = tokensLimit({ amount: 100, when: exempt });
    const set = compileLimits([limit], table);
    const { reservation } = allowed(set.decide(withHeaders({ "x-tier": "internal" }), 0));
    reservation.charge(500, 1);
    reservation.refund(2);
    expect([...table.entries(3)]).toEqual([]);
  });
});

describe("limit", () => {
  const amountFrom = 'int(request.headers["x-limit"])';

  test.each([
    ["a whole number", "3", 3],
    ["0, which allows nothing", "0", 0],
    ["a negative number: the constant applies", "-1", 2],
    ["no number: the constant applies", "many", 2],
  ])("may give %s", (_, value, expected) => {
    const set = limiter(requestsLimit({ amount: 2, amountFrom }));
    expect(countAllowed(set, withHeaders({ "x-limit": value }), 9)).toBe(expected);
  });

  test("without a value, or where it costs too much, the constant applies", () => {
    expect(countAllowed(limiter(requestsLimit({ amount: 2, amountFrom })), withHeaders({}), 9)).toBe(2);
    const set = limiter(requestsLimit({ amount: 2, amountFrom: `${costly} ? 100 : 50` }));
    expect(countAllowed(set, withHeaders(longHeader), 9)).toBe(2);
  });

  test("is rounded down, and at most the largest amount of a field", () => {
    const byDouble = 'double(request.headers["x-limit"])';
    const set = limiter(requestsLimit({ amount: 1, amountFrom: byDouble }));
    expect(allowed(set.decide(withHeaders({ "x-limit": "7.9" }), 0)).state?.limit).toBe(7);
    expect(allowed(set.decide(withHeaders({ "x-limit": "1e300" }), 0)).state?.limit).toBe(2 ** 31 - 1);
  });

  test("requests with different limits count in one counter, and its end restores it whole", () => {
    const set = limiter(requestsLimit({ amount: 2, amountFrom }));
    expect(countAllowed(set, withHeaders({ "x-limit": "6" }), 9)).toBe(6);
    const { state } = denied(set.decide(withHeaders({ "x-limit": "3" }), 1));
    expect(state).toEqual({ limit: 3, remaining: 0, resetSeconds: 60 });
    expect(allowed(set.decide(withHeaders({ "x-limit": "3" }), minute)).state?.remaining).toBe(2);
  });

  test("an exhausted limit of 0 has the headers of a limit, and a whole window to wait", () => {
    const set = limiter(requestsLimit({ amount: 2, amountFrom }));
    const by = denied(set.decide(withHeaders({ "x-limit": "0" }), 0));
    expect([by.state, by.retryAfterSeconds]).toEqual([{ limit: 0, remaining: 0, resetSeconds: 60 }, 60]);
  });
});

describe("cost", () => {
  const cost = 'double(request.headers["x-cost"])';

  test.each([
    ["a whole number", "3", 3],
    ["a fraction, rounded up", "2.1", 3],
    ["0, which counts nothing", "0", 0],
    ["a negative number: it costs 1", "-5", 1],
    ["no number: it costs 1", "much", 1],
  ])("of a request may be %s", (_, value, expected) => {
    const set = limiter(requestsLimit({ amount: 10, cost }));
    expect(allowed(set.decide(withHeaders({ "x-cost": value }), 0)).state?.remaining).toBe(10 - expected);
  });

  test.each(["", " ", "\u00a0"])("of a blank text is 1, and a limit of it the constant (%j)", (blank) => {
    const text = '"x-cost" in request.headers ? request.headers["x-cost"] : 5';
    const set = limiter(requestsLimit({ amount: 10, cost: text, amountFrom: text }));
    expect(allowed(set.decide(withHeaders({ "x-cost": blank }), 0)).state).toMatchObject({ limit: 10, remaining: 9 });
  });

  test("a request that costs more than remains is denied, and cheaper ones pass", () => {
    const set = limiter(requestsLimit({ amount: 10, cost }));
    allowed(set.decide(withHeaders({ "x-cost": "7" }), 0));
    denied(set.decide(withHeaders({ "x-cost": "4" }), 0));
    allowed(set.decide(withHeaders({ "x-cost": "3" }), 0));
  });

  test("a refund restores what the request has cost", () => {
    const set = limiter(requestsLimit({ amount: 10, cost }));
    allowed(set.decide(withHeaders({ "x-cost": "7" }), 0)).reservation.refund(1);
    expect(allowed(set.decide(withHeaders({ "x-cost": "2" }), 1)).state?.remaining).toBe(8);
  });

  test("a request whose cost takes too much work to compute is not allowed, unless the entry is in shadow mode", () => {
    const limit = requestsLimit({ amount: 10, cost: `${costly} ? 1 : 2` });
    const decision = limiter(limit).decide(withHeaders(longHeader), 0);
    expect(decision).toMatchObject({ kind: "unavailable", policy: "default/chat", cause: "costTooCostly" });
    allowed(limiter({ ...limit, mode: "Shadow" }).decide(withHeaders(longHeader), 0));
  });

  test("of a response counts its parts", () => {
    const weighted = "llm.inputTokens + 4 * llm.outputTokens - llm.cachedInputTokens";
    const set = limiter(tokensLimit({ amount: 1000, cost: weighted }));
    const usage: TokenUsage = { input: 100, output: 50, total: 150, cachedInputTokens: 80, estimated: false };
    const decision = set.decide(request, 0);
    if (decision.kind !== "allowed") return expect.unreachable();
    decision.reservation.charge(usage, 1);
    expect(allowed(set.decide(request, 2)).state?.remaining).toBe(1000 - 220);
  });

  test("of a response without a part counts 0 for it, and all tokens where the cost has no value", () => {
    const set = limiter(tokensLimit({ amount: 1000, cost: "llm.totalTokens + llm.reasoningTokens" }));
    allowed(set.decide(request, 0)).reservation.charge(40, 0);
    expect(allowed(set.decide(request, 0)).state?.remaining).toBe(960);
    const byInput = limiter(tokensLimit({ amount: 1000, cost: "llm.inputTokens" }));
    allowed(byInput.decide(request, 0)).reservation.charge(40, 0);
    expect(allowed(byInput.decide(request, 0)).state?.remaining).toBe(960);
  });

  test("of a response that is 0 or malformed charges nothing", () => {
    const set = limiter(tokensLimit({ amount: 1000, cost: "llm.totalTokens - 40" }));
    const { reservation } = allowed(set.decide(request, 0));
    for (const total of [40, 0, -1, 0.5, Number.NaN, Infinity]) reservation.charge(total, 0);
    expect(allowed(set.decide(request, 0)).state?.remaining).toBe(1000);
  });
});

test("the expressions of a rule share the allowance of the request", () => {
  const work = new RequestWork();
  const set = limiter(
    requestsLimit({ amount: 9, when: `${costly} && true`, amountFrom: `${costly} ? 1 : 2` }),
    requestsLimit({ amount: 9, unit: "Hours", when: `${costly} || true`, amountFrom: `${costly} ? 3 : 4` }),
  );
  allowed(set.decide({ ...withHeaders(longHeader), work }, 0));
  expect(work.allowanceOf("HTTPRoute/default/chat").left).toBeGreaterThanOrEqual(0);
  expect(work.allowanceOf("HTTPRoute/default/chat").left).toBeLessThan(maxAllowanceUnits);
});

test.each(["when", "amountFrom", "cost"] as const)("%s that does not parse is rejected when compiling", (field) => {
  expect(() => limiter(requestsLimit({ [field]: "user" }))).toThrow(/unknown variable/);
});

test("entries without expressions decide without looking at the request", () => {
  const untouchable = new Proxy(request, {
    get: (_, property) => expect.unreachable(`read ${String(property)}`),
  });
  const set = limiter(requestsLimit(), tokensLimit());
  expect(set.needsBody).toBe(false);
  const decision = set.decide(untouchable, 0);
  if (decision.kind !== "allowed") return expect.unreachable();
  decision.reservation.charge(tokens(5), 0);
});

test.each([
  ["key", { key: "llm.requestModel" }, true],
  ["when", { when: "llm.stream" }, true],
  ["limit", { amountFrom: 'llm.requestModel == "a" ? 1 : 2' }, true],
  ["cost of a response", { cost: 'llm.requestModel == "a" ? 1 : llm.totalTokens' }, true],
  ["cost of a response that reads nothing of the request", { cost: "llm.outputTokens" }, false],
] as const)("the body is needed for a %s that reads it", (_, fields, expected) => {
  expect(limiter(tokensLimit(fields)).needsBody).toBe(expected);
});
