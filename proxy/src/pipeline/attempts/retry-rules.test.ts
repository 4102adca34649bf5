import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { describe, expect, test } from "vitest";
import type { RetryPolicy } from "../../ir/snapshot.ts";
import type { EndpointPool } from "../../upstream/endpoint-pool.ts";
import type { UpstreamFailure } from "../../upstream/failure.ts";
import { RetryBudget } from "../../upstream/retry-budget.ts";
import { noReadyEndpoint, upstreamFailed } from "../local-replies.ts";
import { AttemptHistory } from "./attempt-history.ts";
import { RequestDeadline } from "./request-deadline.ts";
import { RetryRules } from "./retry-rules.ts";

const failure = (kind: UpstreamFailure["kind"]): UpstreamFailure => ({ kind, message: "" });
/** An endpoint; the rules only count how many were tried. */
const pool = (): EndpointPool => ({}) as unknown as EndpointPool;

interface Shape {
  readonly method?: string;
  readonly policy?: RetryPolicy;
  readonly isReplayable?: boolean;
  readonly isForModel?: boolean;
  /** Of the request, in milliseconds from now. */
  readonly timeoutMs?: number;
}

/** The rules of a request, after `attempts` attempts. */
function rulesAfter(attempts: number, shape: Shape = {}) {
  const { method = "GET", policy, isReplayable, isForModel = false, timeoutMs } = shape;
  const clock = new FakeClock();
  const history = new AttemptHistory();
  for (let made = 0; made < attempts; made++) history.add(pool());
  const body = isReplayable === undefined ? undefined : ({ isReplayable } as never);
  const rules = new RetryRules({
    clock,
    random: () => 0,
    policy,
    budget: new RetryBudget(),
    request: { method, path: "/", headers: [], body, upgrade: undefined },
    isForModel,
    history,
    hasProviders: false,
    deadline: timeoutMs === undefined ? undefined : new RequestDeadline(clock, clock.monotonicMs() + timeoutMs, noop),
  });
  return { rules, history };
}

function noop(): void {
  // The test reads the time that is left.
}

describe("without a policy", () => {
  test.each([
    ["connect", "POST", "retry"],
    ["unprocessed", "POST", "retry"],
    ["reset", "GET", "retry"],
    ["reset", "POST", "stop"],
    ["timeout", "GET", "stop"],
    ["overloaded", "GET", "stop"],
    ["forbidden", "GET", "stop"],
    ["aborted", "GET", "stop"],
    ["unsendable", "GET", "stop"],
  ] as const)("after the failure %s of a %s: %s", (kind, method, expected) => {
    expect(rulesAfter(1, { method }).rules.afterFailure(failure(kind)).kind).toBe(expected);
  });

  test("an attempt is repeated once, and once more if an endpoint has not processed one", () => {
    expect(rulesAfter(2).rules.afterFailure(failure("reset")).kind).toBe("stop");
    const { rules, history } = rulesAfter(1);
    expect(rules.afterFailure(failure("unprocessed")).kind).toBe("retry");
    history.add(pool());
    expect(rules.afterFailure(failure("connect")).kind).toBe("retry");
    history.add(pool());
    expect(rules.afterFailure(failure("connect")).kind).toBe("stop");
  });

  test("a body that is not kept is not sent again", () => {
    expect(rulesAfter(1, { isReplayable: false }).rules.afterFailure(failure("connect")).kind).toBe("stop");
  });
});

describe("with a policy", () => {
  const policy = { codes: [503], attempts: 2, backoffMs: 100 };

  test("the backoff doubles with each attempt", () => {
    expect(rulesAfter(1, { policy }).rules.afterFailure(failure("reset"))).toEqual({ kind: "retry", waitMs: 100 });
    expect(rulesAfter(2, { policy }).rules.afterFailure(failure("reset"))).toEqual({ kind: "retry", waitMs: 200 });
  });

  test.each([
    [3, {}, "retry.attempts is used up"],
    [1, { isReplayable: false }, "the request body is not kept any more"],
    [1, { timeoutMs: 100 }, "timeouts.request ends before"],
  ])("after %i attempts with %j: stops, since %s", (attempts, shape, why) => {
    expect(rulesAfter(attempts, { policy, ...shape }).rules.byPolicy()).toEqual({ kind: "stop", why });
  });

  test.each([
    ["reset", "GET", "retry"],
    ["timeout", "HEAD", "retry"],
    ["reset", "PUT", "retry"],
    ["timeout", "DELETE", "retry"],
    ["connect", "POST", "retry"],
    ["unprocessed", "PATCH", "retry"],
    ["reset", "POST", "stop"],
    ["timeout", "POST", "stop"],
    ["reset", "PATCH", "stop"],
  ] as const)("after the failure %s of a %s: %s", (kind, method, expected) => {
    expect(rulesAfter(1, { policy, method }).rules.afterFailure(failure(kind)).kind).toBe(expected);
  });

  test("the log says why a request is not repeated that an endpoint may have processed", () => {
    expect(rulesAfter(1, { policy, method: "POST" }).rules.afterFailure(failure("reset"))).toEqual({
      kind: "stop",
      why: "the endpoint may have processed the request",
    });
  });

  test("a request to a model is repeated whatever its method", () => {
    const { rules } = rulesAfter(1, { policy, method: "POST", isForModel: true });
    expect(rules.afterFailure(failure("reset")).kind).toBe("retry");
  });

  test("no attempts disable retries, also those that are made without a policy", () => {
    const { rules } = rulesAfter(1, { policy: { codes: [503], attempts: 0, backoffMs: 100 } });
    for (const kind of ["connect", "unprocessed", "reset"] as const) {
      expect(rules.afterFailure(failure(kind)).kind).toBe("stop");
    }
    expect(rules.byPolicy().kind).toBe("stop");
  });

  test.each([
    ["POST", [], undefined, true],
    ["POST", [503], undefined, false],
    ["POST", [], "h2", false],
    ["PUT", [], undefined, false],
  ] as const)(
    "whether no attempt follows a complete %s with the codes %j over %s: %s",
    (method, codes, protocol, isLast) => {
      const { rules } = rulesAfter(1, { method, policy: { codes, attempts: 1, backoffMs: 1 } });
      expect(rules.isLast(protocol)).toBe(isLast);
    },
  );

  test("a failure that another attempt cannot change stops", () => {
    for (const kind of ["overloaded", "forbidden"] as const) {
      expect(rulesAfter(1, { policy }).rules.afterFailure(failure(kind)).kind).toBe("stop");
    }
  });

  test("only its codes are retried", () => {
    const { rules } = rulesAfter(1, { policy });
    expect([rules.retries(503), rules.retries(500)]).toEqual([true, false]);
  });
});

test("an attempt that reached an endpoint decides about the refund, and not a later one that did not", () => {
  const history = new AttemptHistory();
  expect(history.refundCause(noReadyEndpoint)).toBe("ConnectFailure");
  history.addFailure(failure("connect"));
  expect(history.refundCause(noReadyEndpoint)).toBe("ConnectFailure");
  history.addFailure(failure("reset"));
  expect(history.refundCause(noReadyEndpoint)).toBe(upstreamFailed(failure("reset")).refund);
  history.addRetriedStatus();
  expect(history.refundCause(noReadyEndpoint)).toBe("BackendError");
  history.addFailure(failure("aborted"));
  expect(history.refundCause(noReadyEndpoint)).toBeUndefined();
});
