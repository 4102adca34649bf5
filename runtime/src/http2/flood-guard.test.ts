import { FakeClock } from "../testing/fake-clock.ts";
import { expect, test } from "vitest";
import { FloodGuard } from "./flood-guard.ts";
import { ConnectionError, ErrorCode } from "./frame.ts";

/** How many of so many tries pass. */
function allowed(guard: FloodGuard, tries: number): number {
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

test("allows a burst up to its capacity, then what the rate gives", () => {
  const clock = new FakeClock();
  const guard = new FloodGuard("pings", clock, 10, 2);

  expect(allowed(guard, 50)).toBe(10);
  clock.advance(1_500);
  expect(allowed(guard, 50)).toBe(3);
});

test("never saves up more than its capacity", () => {
  const clock = new FakeClock();
  const guard = new FloodGuard("pings", clock, 10, 2);
  allowed(guard, 10);
  clock.advance(3_600_000);

  expect(allowed(guard, 50)).toBe(10);
});

test("what a peer earns counts like time", () => {
  const guard = new FloodGuard("pings", new FakeClock(), 10, 2);
  allowed(guard, 10);
  guard.earn(4);

  expect(allowed(guard, 50)).toBe(4);
});
