import { describe, expect, test } from "vitest";
import { BucketLocks } from "./bucket-locks.ts";

function sharedWords(length: number): Int32Array {
  return new Int32Array(new SharedArrayBuffer(length * 4));
}

// Contention is tested with real threads in local-limiter.workers.test.ts.
describe("locks in shared memory", () => {
  test("name their holder while held and are free afterwards", () => {
    const words = sharedWords(3);
    const locks = new BucketLocks(words, 7);
    locks.lock(1);
    expect([...words]).toEqual([0, 7, 0]);
    locks.unlock(1);
    expect([...words]).toEqual([0, 0, 0]);
  });

  test("of an owner that ended are released, and no others", () => {
    const words = sharedWords(4);
    const dead = new BucketLocks(words, 7);
    const living = new BucketLocks(words, 8);
    dead.lock(0);
    living.lock(1);
    dead.lock(3);
    expect(living.releaseAll(7)).toBe(2);
    expect([...words]).toEqual([0, 8, 0, 0]);
    expect(living.releaseAll(7)).toBe(0);
  });

  test("are released while a thread sleeps on them", () => {
    const words = sharedWords(1);
    words[0] = -7;
    expect(new BucketLocks(words, 8).releaseAll(7)).toBe(1);
    expect(words[0]).toBe(0);
  });

  test.each([0, -1, 1.5, 2 ** 31])("reject %d as an owner", (owner) => {
    expect(() => new BucketLocks(sharedWords(1), owner)).toThrow(/must be 1\.\.2147483647/);
  });
});
