import { describe, expect, test } from "vitest";
import type { RequestView } from "../../cel/request-view.ts";
import type { GlobalLimitsDecision, GlobalLimitSet } from "../../policy/ratelimit/global/global-limiter.ts";
import { compileLimits } from "../../policy/ratelimit/local-limiter.ts";
import { freshTable, requestsLimit } from "../../policy/ratelimit/testing/local-limits.ts";
import { RecordingRequest } from "../testing/recording-request.ts";
import { globalLimits } from "./global-limits.ts";
import { localLimits } from "./local-limits.ts";
import { requestModel } from "./request-model.ts";

/** A rule with one local entry of one request a minute. */
function onceAMinute() {
  return { limits: compileLimits([requestsLimit({ amount: 1 })], freshTable()) };
}

describe("local limits", () => {
  test("an allowed request holds its unit", () => {
    const request = new RecordingRequest({ rule: onceAMinute() });
    expect(request.run(localLimits)).toBe("continue");
    expect(request.record.decisions).toMatchObject([{ outcome: "allowed" }]);
    const headers: string[] = [];
    request.reservation?.setHeaders(headers);
    expect(headers).toContain("x-ratelimit-remaining");
  });

  test("a denied request is reported, and gets a 429", () => {
    const rule = onceAMinute();
    new RecordingRequest({ rule }).run(localLimits);
    const request = new RecordingRequest({ rule });
    expect(request.run(localLimits)).toBe("responded");
    expect(request.calls).toEqual(["denied", "respond 429 with CORS"]);
    expect(request.record.reason).toBe("RateLimited");
    expect(request.reservation).toBeUndefined();
  });
});

/** The part of global limits that the stage uses. */
function globalLimitsOf(limits: Pick<GlobalLimitSet, "decide">): GlobalLimitSet {
  return limits as unknown as GlobalLimitSet;
}

/** Global limits that decide when the test says so. */
function pendingLimits() {
  const views: RequestView[] = [];
  let refunds = 0;
  const limits = globalLimitsOf({
    decide(view: RequestView) {
      views.push(view);
    },
  });
  const allowed = {
    kind: "allowed",
    report: { decisions: [] },
    reservation: { refund: () => (refunds += 1), view: undefined, backendHeaders: [] },
  } as unknown as GlobalLimitsDecision;
  return { limits, views, allowed, refunds: () => refunds };
}

describe("global limits", () => {
  test("a request waits for the service, and continues when it is allowed", () => {
    const { limits, allowed } = pendingLimits();
    const request = new RecordingRequest({ rule: { globalLimits: limits } });
    expect(request.run(globalLimits)).toBe("waiting");
    expect(request.proceed(allowed)).toBe("continue");
    expect(request.reservation).toBeDefined();
  });

  test("a request that ends while it waits gets its local units back, and those of a late response", () => {
    const { limits, allowed, refunds } = pendingLimits();
    const rule = { ...onceAMinute(), globalLimits: limits };
    const request = new RecordingRequest({ rule });
    request.run(localLimits);
    request.run(globalLimits);
    request.abandon();
    expect(request.proceed(allowed)).toBe("late");
    expect(refunds()).toBe(1);
    expect(new RecordingRequest({ rule }).run(localLimits)).toBe("continue");
  });

  test("a denied request gets its local units back, then a 429", () => {
    const { limits } = pendingLimits();
    const rule = { ...onceAMinute(), globalLimits: limits };
    const request = new RecordingRequest({ rule });
    request.run(localLimits);
    request.run(globalLimits);
    const denying = new RecordingRequest({ rule: onceAMinute() });
    denying.run(localLimits);
    const by = denying.rule.limits.decide(denying.view, denying.clock.monotonicMs(), false);
    expect(request.proceed({ ...by, report: { decisions: [] } })).toBe("responded");
    expect(request.calls).toEqual(["denied", "respond 429 with CORS"]);
    expect(new RecordingRequest({ rule }).run(localLimits)).toBe("continue");
  });

  test.each([
    [{ kind: "unavailable" }, ["denied", "reply RateLimitServiceFailure"]],
    ["valueTooLong", ["reply LimitValueTooLong"]],
    ["costTooCostly", ["reply BadRequest"]],
  ])("a limit that cannot decide, because of %j, lets nothing pass", (cause, calls) => {
    const { limits } = pendingLimits();
    const request = new RecordingRequest({ rule: { globalLimits: limits } });
    request.run(globalLimits);
    expect(request.proceed({ kind: "unavailable", cause, report: { decisions: [] } })).toBe("responded");
    expect(request.calls).toEqual(calls);
  });

  test("the service is asked about the model that was read", () => {
    const { limits, views } = pendingLimits();
    const request = new RecordingRequest({ rule: { globalLimits: limits } });
    request.llm = { requestModel: "small" };
    request.run(globalLimits);
    expect(views).toMatchObject([{ llm: { requestModel: "small" } }]);
  });
});

describe("request model", () => {
  test("a request without a body has no model", () => {
    const request = new RecordingRequest();
    expect(request.run(requestModel)).toBe("continue");
    expect(request.llm).toEqual({});
  });

  test("a body that was read for the choice of the rule is not read again", () => {
    const request = new RecordingRequest();
    request.llm = { requestModel: "small" };
    expect(request.run(requestModel)).toBe("continue");
    expect([request.llm, request.calls]).toEqual([{ requestModel: "small" }, []]);
  });
});
