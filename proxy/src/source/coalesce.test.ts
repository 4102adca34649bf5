import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { describe, expect, test } from "vitest";
import { coalesce } from "./coalesce.ts";

function setup() {
  const clock = new FakeClock();
  const finish: (() => void)[] = [];
  let runs = 0;
  const coalescer = coalesce({
    clock,
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
    coalescer.poke();
    clock.advance(40);
    coalescer.poke();
    clock.advance(49);
    expect(runs()).toBe(0);
    clock.advance(1);
    expect(runs()).toBe(1);
    clock.advance(1_000);
    expect(runs()).toBe(1);
  });

  test("acts in the middle of a burst that does not end", () => {
    const { clock, coalescer, runs } = setup();
    for (let elapsedMs = 0; elapsedMs < 200; elapsedMs += 40) {
      coalescer.poke();
      expect(runs()).toBe(0);
      clock.advance(40);
    }
    expect(runs()).toBe(1);
  });

  test("acts again after an action during which events came", async () => {
    const { clock, coalescer, finishAction, runs } = setup();
    coalescer.poke();
    clock.advance(50);
    coalescer.poke();
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
    coalescer.poke();
    await coalescer.close();
    coalescer.poke();
    clock.advance(1_000);
    expect(runs()).toBe(0);
    expect(clock.pendingTimers).toBe(0);
  });

  test("close waits for the running action", async () => {
    const { clock, coalescer, finishAction } = setup();
    coalescer.poke();
    clock.advance(50);
    coalescer.poke();
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
});
