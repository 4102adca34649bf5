import { expect, test } from "vitest";
import { runToEnd, runInSlices, type Steps } from "./steps.ts";

function* countTo(end: number, seen: number[] = []): Steps<number> {
  for (let at = 1; at <= end; at++) {
    seen.push(at);
    yield;
  }
  return end;
}

/** A clock that advances by this much at each reading. */
function clockOf(stepMs: number) {
  let ms = 0;
  return { nowMs: () => (ms += stepMs) };
}

test("has the same result at once and in slices", async () => {
  expect(runToEnd(countTo(5))).toBe(5);
  expect(await runInSlices(countTo(5))).toBe(5);
});

test("gives the event loop a turn after each slice", async () => {
  const seen: number[] = [];
  const running = runInSlices(countTo(6, seen), clockOf(2));
  const bySlice: number[] = [];
  for (let isOver = false; !isOver; ) {
    bySlice.push(seen.length);
    await new Promise<void>((resolve) => setImmediate(resolve));
    isOver = bySlice.at(-1) === seen.length;
  }
  expect(bySlice).toEqual([3, 6]);
  expect(await running).toBe(6);
});

test("rejects with what the computation throws, also after a turn", async () => {
  function* failing(): Steps<never> {
    yield;
    throw new Error("broken");
  }
  expect(() => runToEnd(failing())).toThrow("broken");
  await expect(runInSlices(failing(), clockOf(10))).rejects.toThrow("broken");
});
