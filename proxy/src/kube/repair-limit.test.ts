import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, test } from "vitest";
import { RepairLimit } from "./repair-limit.ts";

test("a thing is corrected five times a minute, independently of others", () => {
  const clock = new FakeClock();
  const limit = new RepairLimit(clock);
  const take = (times: number, key = "a") => Array.from({ length: times }, () => limit.take(key));
  expect(take(7)).toEqual([true, true, true, true, true, false, false]);
  expect(take(1, "b")).toEqual([true]);
  clock.advance(60_001);
  expect(take(6)).toEqual([true, true, true, true, true, false]);
});
