import { expect, test } from "vitest";
import { throttle } from "./throttle.ts";
import { FakeClock } from "../testing/fake-clock.ts";

/** Returns a computation of 1, 2, 3, each of which takes `tookMs`. */
function counting(clock: FakeClock, tookMs: number) {
  let made = 0;
  return () => {
    clock.advance(tookMs);
    return Promise.resolve(++made);
  };
}

/** Lets everything run that waits for no timer. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

test("all callers before a run get its result", async () => {
  const ask = throttle(counting(new FakeClock(), 10), new FakeClock());
  expect(await Promise.all([ask(), ask(), ask()])).toEqual([1, 1, 1]);
});

test("a run starts after the call", async () => {
  const begun = Promise.withResolvers<undefined>();
  const ended = Promise.withResolvers<undefined>();
  let made = 0;
  const ask = throttle(async () => {
    const result = ++made;
    begun.resolve(undefined);
    await ended.promise;
    return result;
  }, new FakeClock());
  const first = ask();
  await begun.promise;
  const second = ask();
  ended.resolve(undefined);
  expect(await Promise.all([first, second])).toEqual([1, 2]);
});

test.each([
  ["three times as long as the run took", 20, 60],
  ["at most a second", 5_000, 1_000],
])("the next run starts after a rest: %s", async (_, tookMs, restMs) => {
  const clock = new FakeClock();
  const ask = throttle(counting(clock, tookMs), clock);
  await ask();
  let second: number | undefined;
  void ask().then((result) => (second = result));
  await settle();
  clock.advance(restMs - 1);
  await settle();
  expect(second).toBeUndefined();
  clock.advance(1);
  await settle();
  expect(second).toBe(2);
});

test("a failed run rejects for all its callers, and not for later ones", async () => {
  const clock = new FakeClock();
  let made = 0;
  const ask = throttle(() => (++made === 1 ? Promise.reject(new Error("no")) : Promise.resolve(made)), clock);
  expect((await Promise.allSettled([ask(), ask()])).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(await ask()).toBe(2);
});
