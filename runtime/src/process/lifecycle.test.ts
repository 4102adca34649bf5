import { EventEmitter } from "node:events";
import { describe, expect, test } from "vitest";
import { handleSignals, Readiness, shutDown, type ShutdownStep } from "./lifecycle.ts";
import { FakeClock } from "../testing/fake-clock.ts";

describe("Readiness", () => {
  test("is ready once every condition is met, and says which are not", () => {
    const readiness = new Readiness(["configuration", "workers"]);
    expect(readiness.describe()).toBe("not ready: pending configuration, workers");
    readiness.meet("configuration");
    expect([readiness.isReady, readiness.describe()]).toEqual([false, "not ready: pending workers"]);
    readiness.meet("workers");
    expect([readiness.isReady, readiness.describe()]).toEqual([true, "ready"]);
  });

  test("stays not ready once it is withdrawn, whatever is met later", () => {
    const readiness = new Readiness(["workers"]);
    readiness.withdraw("shutting down");
    readiness.meet("workers");
    expect([readiness.isReady, readiness.describe()]).toEqual([false, "not ready: shutting down"]);
  });
});

describe("shutDown", () => {
  const clock = new FakeClock();
  const events: string[] = [];
  const quick = (name: string): ShutdownStep => ({ name, run: () => void events.push(name) });
  /** Ends only when its signal aborts. */
  const draining = (name: string): ShutdownStep => ({
    name,
    run: (signal) =>
      new Promise((resolve) => {
        if (signal.aborted) resolve();
        signal.addEventListener("abort", () => {
          events.push(`${name} dropped`);
          resolve();
        });
      }),
  });
  const stuck: ShutdownStep = { name: "stuck", run: () => new Promise(() => undefined) };

  function start(...steps: readonly ShutdownStep[]) {
    events.length = 0;
    const onError = (step: string, error: unknown) => void events.push(`${step}: ${String(error)}`);
    return shutDown({ steps, deadlineMs: 30_000, clock, onError });
  }

  /** Advances the time in small steps and lets promises settle in between. */
  async function advance(ms: number) {
    for (let passed = 0; passed < ms; passed += 500) {
      clock.advance(500);
      await new Promise(setImmediate);
    }
  }

  test("runs the steps in their order and leaves no timer behind", async () => {
    expect(await start(quick("readiness"), quick("listeners"), quick("log"))).toEqual({ kind: "completed" });
    expect(events).toEqual(["readiness", "listeners", "log"]);
    expect(clock.pendingTimers).toBe(0);
  });

  test("reports a step that fails and continues", async () => {
    const failing: ShutdownStep = { name: "admin", run: () => Promise.reject(new Error("port gone")) };
    expect(await start(failing, quick("log"))).toEqual({ kind: "completed" });
    expect(events).toEqual(["admin: Error: port gone", "log"]);
  });

  test("aborts a step at the deadline, then runs the rest", async () => {
    const outcome = start(draining("connections"), quick("log"));
    await advance(29_500);
    expect(events).toEqual([]);
    await advance(500);
    expect(await outcome).toEqual({ kind: "deadlineExceeded", steps: ["connections", "log"] });
    expect(events).toEqual(["connections dropped", "log"]);
  });

  test("does not wait for a step that ignores its signal", async () => {
    const outcome = start(stuck, stuck, quick("log"));
    await advance(32_000);
    expect(await outcome).toEqual({ kind: "deadlineExceeded", steps: ["stuck", "stuck", "log"] });
  });
});

describe("handleSignals", () => {
  test("shuts down at the first signal and exits at every later one", () => {
    const source = new EventEmitter();
    const calls: string[] = [];
    const stop = handleSignals(source, {
      shutDown: (signal) => calls.push(`shut down ${signal}`),
      force: (signal) => calls.push(`force ${signal}`),
    });
    source.emit("SIGTERM");
    source.emit("SIGINT");
    stop();
    expect(calls).toEqual(["shut down SIGTERM", "force SIGINT"]);
    expect(source.emit("SIGTERM")).toBe(false);
  });
});
