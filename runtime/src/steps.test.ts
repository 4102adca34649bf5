import { expect, test } from "vitest";
import { atOnce, inTurns, type Steps } from "./steps.ts";

function* countTo(end: number, seen: number[] = []): Steps<number> {
  for (let at = 1; at <= end; at++) {
    seen.push(at);
    yield;
  }
  return end;
}

/** A clock by which each look takes so long. */
function clockOf(stepMs: number) {
  let ms = 0;
  return { nowMs: () => (ms += stepMs) };
}

test("runs at once, or in turns, to the same end", async () => {
  expect(atOnce(countTo(5))).toBe(5);
  expect(await inTurns(countTo(5))).toBe(5);
});

test("lets the event loop have its turn after each slice", async () => {
  const seen: number[] = [];
  const running = inTurns(countTo(6, seen), clockOf(2));
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
  expect(() => atOnce(failing())).toThrow("broken");
  await expect(inTurns(failing(), clockOf(10))).rejects.toThrow("broken");
});
