import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, test } from "vitest";
import { FloodLimit } from "./flood-limit.ts";
import { ConnectionError, ErrorCode } from "./frame.ts";

/** Returns how many of `tries` pass. */
function allowed(guard: FloodLimit, tries: number): number {
  for (let done = 0; done < tries; done++) {
    try {
      guard.count();
    } catch (error) {
      expect(error).toEqual(new ConnectionError(ErrorCode.EnhanceYourCalm, "too many pings"));
      return done;
    }
  }
  return tries;
}

test("allows a burst up to its capacity, then the rate", () => {
  const clock = new FakeClock();
  const guard = new FloodLimit("pings", clock, 10, 2);

  expect(allowed(guard, 50)).toBe(10);
  clock.advance(1_500);
  expect(allowed(guard, 50)).toBe(3);
});

test("never holds more tokens than its capacity", () => {
  const clock = new FakeClock();
  const guard = new FloodLimit("pings", clock, 10, 2);
  allowed(guard, 10);
  clock.advance(3_600_000);

  expect(allowed(guard, 50)).toBe(10);
});

test("useful frames refill it as time does", () => {
  const guard = new FloodLimit("pings", new FakeClock(), 10, 2);
  allowed(guard, 10);
  guard.replenish(4);

  expect(allowed(guard, 50)).toBe(4);
});
