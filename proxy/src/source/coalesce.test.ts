import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { describe, expect, test } from "vitest";
import { coalesce } from "./coalesce.ts";

function setup() {
  const clock = new FakeClock();
  const finish: (() => void)[] = [];
  let runs = 0;
  const failed: unknown[] = [];
  const coalescer = coalesce({
    clock,
    onFailure: (error, retryMs) => failed.push([error, retryMs]),
    quietMs: 50,
    maxMs: 200,
    action: () => {
      runs++;
      return new Promise((resolve) => finish.push(resolve));
    },
  });
  /** Ends the running action and lets its followers run. */
  async function finishAction() {
    finish.shift()?.();
    await new Promise((resolve) => setImmediate(resolve));
  }
  return { clock, coalescer, finishAction, runs: () => runs };
}

describe("coalesce()", () => {
  test("acts once for a burst, when it has been quiet", () => {
    const { clock, coalescer, runs } = setup();
    coalescer.trigger();
    clock.advance(40);
    coalescer.trigger();
    clock.advance(49);
    expect(runs()).toBe(0);
    clock.advance(1);
    expect(runs()).toBe(1);
    clock.advance(1_000);
    expect(runs()).toBe(1);
  });

  test("acts sooner for an event with a shorter quiet time", () => {
    const { clock, coalescer, runs } = setup();
    coalescer.trigger(5);
    clock.advance(5);
    expect(runs()).toBe(1);
  });

  test("does not act for an event with a shorter quiet time while another one needs a longer one", () => {
    const { clock, coalescer, runs } = setup();
    coalescer.trigger();
    clock.advance(10);
    coalescer.trigger(5);
    clock.advance(39);
    expect(runs()).toBe(0);
    clock.advance(1);
    expect(runs()).toBe(1);
  });

  test("acts in the middle of a burst that does not end", () => {
    const { clock, coalescer, runs } = setup();
    for (let elapsedMs = 0; elapsedMs < 200; elapsedMs += 40) {
      coalescer.trigger();
      expect(runs()).toBe(0);
      clock.advance(40);
    }
    expect(runs()).toBe(1);
  });

  test("acts again after an action during which events came", async () => {
    const { clock, coalescer, finishAction, runs } = setup();
    coalescer.trigger();
    clock.advance(50);
    coalescer.trigger();
    clock.advance(1_000);
    expect(runs()).toBe(1);
    await finishAction();
    clock.advance(50);
    expect(runs()).toBe(2);
    await finishAction();
    clock.advance(1_000);
    expect(runs()).toBe(2);
  });

  test("does nothing once closed, and leaves no timer", async () => {
    const { clock, coalescer, runs } = setup();
    coalescer.trigger();
    await coalescer.close();
    coalescer.trigger();
    clock.advance(1_000);
    expect(runs()).toBe(0);
    expect(clock.pendingTimers).toBe(0);
  });

  test("close waits for the running action", async () => {
    const { clock, coalescer, finishAction } = setup();
    coalescer.trigger();
    clock.advance(50);
    coalescer.trigger();
    let isClosed = false;
    const closed = coalescer.close().then(() => {
      isClosed = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(isClosed).toBe(false);
    await finishAction();
    await closed;
    expect(clock.pendingTimers).toBe(0);
  });

  test.each([
    [
      "throws",
      () => {
        throw new Error("odd");
      },
    ],
    ["rejects", () => Promise.reject(new Error("odd"))],
  ])("runs an action that %s again, later each time, and at once when asked", async (_, fail) => {
    const clock = new FakeClock();
    const failures: number[] = [];
    let runs = 0;
    const action = () => {
      runs++;
      return fail();
    };
    const settled = () => new Promise((resolve) => setImmediate(resolve));
    const onFailure = (_error: unknown, retryMs: number) => failures.push(retryMs);
    const coalescer = coalesce({ clock, quietMs: 0, maxMs: 0, action, onFailure });
    coalescer.trigger();
    for (const ms of [0, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000]) {
      clock.advance(ms);
      await settled();
      clock.advance(0);
      await settled();
    }
    expect(failures).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    coalescer.trigger();
    clock.advance(0);
    await settled();
    expect(runs).toBe(8);
    await coalescer.close();
    clock.advance(100_000);
    await settled();
    expect(runs).toBe(8);
  });
});
