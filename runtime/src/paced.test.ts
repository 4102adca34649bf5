import { expect, test } from "vitest";
import { paced } from "./paced.ts";
import { FakeClock } from "./testing/fake-clock.ts";

/** Answers 1, 2, 3, each after `tookMs`. */
function counting(clock: FakeClock, tookMs: number) {
  let made = 0;
  return () => {
    clock.advance(tookMs);
    return Promise.resolve(++made);
  };
}

/** Lets everything run that waits for no timer. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

test("all who ask before an answer is begun get that one", async () => {
  const ask = paced(counting(new FakeClock(), 10), new FakeClock());
  expect(await Promise.all([ask(), ask(), ask()])).toEqual([1, 1, 1]);
});

test("an answer is begun after the question", async () => {
  const begun = Promise.withResolvers<undefined>();
  const ended = Promise.withResolvers<undefined>();
  let made = 0;
  const ask = paced(async () => {
    const answer = ++made;
    begun.resolve(undefined);
    await ended.promise;
    return answer;
  }, new FakeClock());
  const first = ask();
  await begun.promise;
  const second = ask();
  ended.resolve(undefined);
  expect(await Promise.all([first, second])).toEqual([1, 2]);
});

test.each([
  ["three times as long as the answer took", 20, 60],
  ["at most a second", 5_000, 1_000],
])("the next answer is begun after a rest: %s", async (_, tookMs, restMs) => {
  const clock = new FakeClock();
  const ask = paced(counting(clock, tookMs), clock);
  await ask();
  let second: number | undefined;
  void ask().then((answer) => (second = answer));
  await settle();
  clock.advance(restMs - 1);
  await settle();
  expect(second).toBeUndefined();
  clock.advance(1);
  await settle();
  expect(second).toBe(2);
});

test("a failure is that of all who wait, and not of those who ask later", async () => {
  const clock = new FakeClock();
  let made = 0;
  const ask = paced(() => (++made === 1 ? Promise.reject(new Error("no")) : Promise.resolve(made)), clock);
  expect((await Promise.allSettled([ask(), ask()])).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(await ask()).toBe(2);
});
