import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, test } from "vitest";
import { ConnectionCounts } from "./connection-counts.ts";
import { LaneWatch } from "./lane-watch.ts";
import type { RedisLink } from "./redis-link.ts";

/** A link with two lanes, `a` and `b`, named by the first letter of a key; its pings answer as told. */
function fakeLink() {
  const state = { isReady: true, resets: 0, pings: 0, answers: { a: true, b: true } };
  const lane = (name: "a" | "b") => ({
    name,
    ping: () => {
      state.pings++;
      return state.answers[name] ? Promise.resolve("PONG") : new Promise(() => undefined);
    },
  });
  const link: RedisLink = {
    connections: new ConnectionCounts(),
    open: () => Promise.resolve(),
    isReady: () => state.isReady,
    send: () => Promise.reject(new Error("nothing is sent")),
    laneOf: (key) => key.charAt(0),
    lanes: () => [lane("a"), lane("b")],
    reset: () => {
      state.resets++;
    },
    close: () => Promise.resolve(),
  };
  return { link, state };
}

function start(timeoutMs = 100) {
  const clock = new FakeClock();
  const { link, state } = fakeLink();
  let forgotten = 0;
  const watch = new LaneWatch({ link, timeoutMs, clock, onReset: () => forgotten++, onError: () => undefined });
  /** Moves on in small steps, and lets what was promised happen in between. */
  async function pass(ms: number): Promise<void> {
    for (let at = 0; at < ms; at += 50) {
      clock.advance(50);
      for (let turn = 0; turn < 10; turn++) await Promise.resolve();
    }
  }
  return { clock, watch, state, pass, forgotten: () => forgotten };
}

test("a lane that missed an answer is stalled until it is heard again, the other is not", () => {
  const { watch } = start();
  watch.missed("a1");
  expect([watch.isStalled("a2"), watch.isStalled("b1"), watch.isHealthy()]).toEqual([true, false, true]);
  watch.missed("b1");
  expect(watch.isHealthy()).toBe(false);
  watch.heard("a3");
  expect([watch.isStalled("a2"), watch.isHealthy()]).toEqual([false, true]);
});

test("silent lanes are asked, busy ones are not", async () => {
  const { watch, state, pass } = start();
  watch.heard("a1");
  await pass(1_000);
  expect(state.pings).toBe(0);
  await pass(1_000);
  expect(state.pings).toBe(2);
});

test("a stalled lane is asked until it answers", async () => {
  const { watch, state, pass } = start(1_000);
  state.answers.a = false;
  watch.missed("a1");
  await pass(2_500);
  expect(watch.isStalled("a1")).toBe(true);
  state.answers.a = true;
  await pass(1_500);
  expect([watch.isStalled("a1"), state.resets]).toEqual([false, 0]);
});

test("lanes that stay silent are connected anew, and what was known of them is forgotten", async () => {
  const { watch, state, pass, forgotten } = start();
  state.answers.b = false;
  watch.missed("b1");
  await pass(1_200);
  expect([state.resets, forgotten()]).toEqual([1, 1]);
  expect(watch.isStalled("b1")).toBe(false);
});

test("nothing is asked of a link that is not connected, nor after the end", async () => {
  const { clock, watch, state, pass } = start();
  state.isReady = false;
  await pass(3_000);
  expect(state.pings).toBe(0);
  expect(watch.isHealthy()).toBe(false);
  watch.close();
  expect(clock.pendingTimers).toBe(0);
});
