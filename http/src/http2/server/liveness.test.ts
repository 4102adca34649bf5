import { expect, test } from "vitest";
import { Liveness } from "./liveness.ts";

const limits = { prefaceTimeoutMs: 10, keepaliveTimeMs: 100, keepaliveTimeoutMs: 20 };

test("a peer without a preface times out", () => {
  const liveness = new Liveness(limits, 0);
  liveness.sawInput = true;

  expect(liveness.check(9, false)).toBe("alive");
  expect(liveness.check(10, false)).toBe("timedOut");
});

test("a silent peer is asked once, and dead when it does not respond in time", () => {
  const liveness = new Liveness(limits, 0);

  expect([99, 100, 119, 120].map((nowMs) => liveness.check(nowMs, true))).toEqual([
    "alive",
    "ping",
    "alive",
    "timedOut",
  ]);
});

test("whatever a peer says counts as a response, and silence is measured from then", () => {
  const liveness = new Liveness(limits, 0);
  expect(liveness.check(100, true)).toBe("ping");
  liveness.sawInput = true;

  expect([110, 150, 210].map((nowMs) => liveness.check(nowMs, true))).toEqual(["alive", "alive", "ping"]);
});
