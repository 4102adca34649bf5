import { once } from "node:events";
import { runInThisContext } from "node:vm";
import { Worker } from "node:worker_threads";
import { afterEach, describe, expect, test } from "vitest";
import { systemClock } from "../timing/clock.ts";
import { Profiler } from "./profiler.ts";
import { readProfile } from "../testing/read-profile.ts";

const never = new AbortController().signal;
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/**
 * The source of a timer's callback that spends its time in the function `name`. It is entered from the vm, since a
 * function that is hot and small enough is compiled into its caller, and a profile then names the caller.
 */
function spinning(name: string, ms: number): string {
  const body = `const end = Date.now() + ${ms}; while (Date.now() < end) Math.random();`;
  return `(function ${name}() { ${body} })()`;
}

/** A thread that is busy in `spinInWorker` most of the time and handles messages in between. */
async function startBusyWorker(): Promise<Worker> {
  const code = JSON.stringify(spinning("spinInWorker", 5));
  const worker = new Worker(`setInterval(() => require("node:vm").runInThisContext(${code}), 6);`, { eval: true });
  closers.push(() => worker.terminate());
  await once(worker, "online");
  return worker;
}

describe("Profiler", () => {
  test("names the functions that took the time, in every thread, and leaves out idle time", async () => {
    const worker = await startBusyWorker();
    const timer = setInterval(() => void runInThisContext(spinning("spinInMain", 50)), 60);
    closers.push(() => clearInterval(timer));
    const outcome = await new Profiler(systemClock, () => [worker]).take(500, never);
    if (outcome.kind !== "profile") throw new Error("busy");
    const { types, samples } = readProfile(outcome.bytes);
    const timeIn = (thread: string, name: string) =>
      samples
        .filter((sample) => sample.thread === thread && sample.stack.includes(name))
        .reduce((sum, { values }) => sum + (values[1] ?? 0), 0);

    expect(types).toEqual(["samples/count", "cpu/nanoseconds"]);
    expect(timeIn("main", "spinInMain")).toBeGreaterThan(50e6);
    expect(timeIn("worker 1", "spinInWorker")).toBeGreaterThan(50e6);
    expect(samples.flatMap(({ stack }) => stack)).not.toContain("(idle)");
  });

  test("takes one profile at a time, and ends when its signal aborts", async () => {
    const profiler = new Profiler(systemClock, () => []);
    const gone = new AbortController();
    const first = profiler.take(60_000, gone.signal);

    expect(await profiler.take(10, never)).toEqual({ kind: "busy" });

    gone.abort();
    expect((await first).kind).toBe("profile");
    expect((await profiler.take(10, never)).kind).toBe("profile");
  });

  test("returns the other threads when one ends meanwhile", async () => {
    const worker = await startBusyWorker();
    const late = new AbortController();
    const taking = new Profiler(systemClock, () => [worker]).take(60_000, late.signal);
    await worker.terminate();
    late.abort();
    const outcome = await taking;

    expect(outcome.kind).toBe("profile");
    const afterwards = await new Profiler(systemClock, () => [worker]).take(10, never);
    expect(afterwards.kind).toBe("profile");
  });
});
