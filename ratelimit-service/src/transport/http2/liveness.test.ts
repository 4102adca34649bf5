import { expect, test } from "vitest";
import { Liveness } from "./liveness.ts";

const limits = { greetingTimeoutMs: 10, keepaliveTimeMs: 100, keepaliveTimeoutMs: 20 };

test("a peer that does not greet is dead after the greeting timeout", () => {
  const liveness = new Liveness(limits, 0);
  liveness.sawInput = true;

  expect(liveness.check(9, false)).toBe("alive");
  expect(liveness.check(10, false)).toBe("dead");
});

test("a silent peer is asked once, and dead when it does not answer in time", () => {
  const liveness = new Liveness(limits, 0);

  expect([99, 100, 119, 120].map((nowMs) => liveness.check(nowMs, true))).toEqual(["alive", "ask", "alive", "dead"]);
});

test("whatever a peer says counts as an answer, and silence is measured from then", () => {
  const liveness = new Liveness(limits, 0);
  expect(liveness.check(100, true)).toBe("ask");
  liveness.sawInput = true;

  expect([110, 150, 210].map((nowMs) => liveness.check(nowMs, true))).toEqual(["alive", "alive", "ask"]);
});
