import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, test } from "vitest";
import { ConnectionCounts } from "./connection-counts.ts";
import { ConnectionHealth } from "./connection-health.ts";
import type { RedisLink } from "./redis-link.ts";

/**
 * A link with two connections, `a` and `b`, named by the first letter of a key; the test controls the replies to its
 * pings.
 */
function fakeLink() {
  const state = { isReady: true, resets: 0, pings: 0, responses: { a: true, b: true } };
  const connection = (name: "a" | "b") => ({
    name,
    ping: () => {
      state.pings++;
      return state.responses[name] ? Promise.resolve("PONG") : new Promise(() => undefined);
    },
  });
  const link: RedisLink = {
    connections: new ConnectionCounts(),
    open: () => Promise.resolve(),
    isReady: () => state.isReady,
    send: () => Promise.reject(new Error("nothing is sent")),
    connectionOf: (key) => key.charAt(0),
    activeConnections: () => [connection("a"), connection("b")],
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
  const watch = new ConnectionHealth({ link, timeoutMs, clock, onReset: () => forgotten++, onError: () => undefined });
  /** Moves on in small steps, and lets what was promised happen in between. */
  async function pass(ms: number): Promise<void> {
    for (let at = 0; at < ms; at += 50) {
      clock.advance(50);
      for (let turn = 0; turn < 10; turn++) await Promise.resolve();
    }
  }
  return { clock, watch, state, pass, forgotten: () => forgotten };
}

test("a connection that missed a response is stalled until it replies again, the other is not", () => {
  const { watch } = start();
  watch.recordTimeout("a1");
  expect([watch.isStalled("a2"), watch.isStalled("b1"), watch.isHealthy()]).toEqual([true, false, true]);
  watch.recordTimeout("b1");
  expect(watch.isHealthy()).toBe(false);
  watch.recordReply("a3");
  expect([watch.isStalled("a2"), watch.isHealthy()]).toEqual([false, true]);
});

test("silent connections are asked, busy ones are not", async () => {
  const { watch, state, pass } = start();
  watch.recordReply("a1");
  await pass(1_000);
  expect(state.pings).toBe(0);
  await pass(1_000);
  expect(state.pings).toBe(2);
});

test("a stalled lane is probed until it replies", async () => {
  const { watch, state, pass } = start(1_000);
  state.responses.a = false;
  watch.recordTimeout("a1");
  await pass(2_500);
  expect(watch.isStalled("a1")).toBe(true);
  state.responses.a = true;
  await pass(1_500);
  expect([watch.isStalled("a1"), state.resets]).toEqual([false, 0]);
});

test("connections that stay silent are reconnected, and what was known of them is forgotten", async () => {
  const { watch, state, pass, forgotten } = start();
  state.responses.b = false;
  watch.recordTimeout("b1");
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
