import { expect, test } from "vitest";
import { ConcurrencyLimit } from "./concurrency-limit.ts";

/** Works that end by a call, and the order in which they have started. */
function startWorks(limit: ConcurrencyLimit, count: number) {
  const started: number[] = [];
  const works = Array.from({ length: count }, (_, number) => {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    const result = limit.run(() => {
      started.push(number);
      return promise;
    });
    return { result, succeed: () => resolve(number), fail: () => reject(new Error(`work ${number}`)) };
  });
  return { started, works };
}

test("up to the maximum run at the same time, in the order of the calls, and a failed one makes room, too", async () => {
  const limit = new ConcurrencyLimit(2);
  const { started, works } = startWorks(limit, 5);
  expect([started, limit.waiting, limit.isIdle]).toEqual([[0, 1], 3, false]);
  works[1]?.fail();
  await expect(works[1]?.result).rejects.toThrow("work 1");
  expect([started, limit.waiting]).toEqual([[0, 1, 2], 2]);
  works[0]?.succeed();
  expect(await works[0]?.result).toBe(0);
  expect([started, limit.waiting]).toEqual([[0, 1, 2, 3], 1]);
  for (const { succeed } of works.slice(2)) succeed();
  expect(await Promise.all(works.slice(2).map(({ result }) => result))).toEqual([2, 3, 4]);
  expect([started, limit.waiting, limit.isIdle]).toEqual([[0, 1, 2, 3, 4], 0, true]);
});
