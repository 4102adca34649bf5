import { spawn } from "node:child_process";
import { once } from "node:events";
import { Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { BatchedDestination } from "./log-destination.ts";
import { FakeClock } from "../testing/fake-clock.ts";

/** An output that accepts a batch only when the test says so. */
function createOutput() {
  const taken: string[] = [];
  let takeNext: (() => void) | undefined;
  const output = new Writable({
    decodeStrings: false,
    highWaterMark: 1,
    write(chunk: string, _, done) {
      taken.push(chunk);
      takeNext = done;
    },
  });
  return { output, taken, take: () => takeNext?.() };
}

function createDestination() {
  const clock = new FakeClock();
  const { output, taken, take } = createOutput();
  const state = { dropped: 0 };
  const destination = new BatchedDestination({ output, clock, onDrop: () => state.dropped++ });
  return { clock, taken, take, state, destination };
}

const line = `${"x".repeat(1_023)}\n`;

describe("BatchedDestination", () => {
  test("writes lines together, at most 100 ms late", () => {
    const { clock, taken, destination } = createDestination();
    destination.write("a\n");
    clock.advance(60);
    destination.write("b\n");
    expect(taken).toEqual([]);
    clock.advance(40);
    expect(taken).toEqual(["a\nb\n"]);
    expect(clock.pendingTimers).toBe(0);
  });

  test("does not wait once a batch is full", () => {
    const { taken, destination } = createDestination();
    for (let n = 0; n < 65; n++) destination.write(line);
    expect(taken.map((batch) => batch.length)).toEqual([64 * 1_024]);
  });

  test("keeps lines while the output is busy and writes them when it is ready again", async () => {
    const { clock, taken, take, destination } = createDestination();
    destination.write("a\n");
    clock.advance(100);
    destination.write("b\n");
    clock.advance(500);
    expect(taken).toEqual(["a\n"]);
    take();
    await new Promise(setImmediate);
    clock.advance(100);
    expect(taken).toEqual(["a\n", "b\n"]);
  });

  test("drops lines and reports them when the output accepts no more, so that the memory stays bounded", () => {
    const { clock, taken, state, destination } = createDestination();
    destination.write("a\n");
    clock.advance(100);
    for (let n = 0; n < 8 * 1_024; n++) destination.write(line);
    expect(state.dropped).toBe(0);
    for (let n = 0; n < 10; n++) destination.write(line);
    expect([state.dropped, taken.length]).toEqual([10, 1]);
  });

  test("has written everything when a flush returns", async () => {
    const { taken, take, destination } = createDestination();
    destination.write("a\n");
    const flushed = destination.flush();
    take();
    await flushed;
    expect(taken).toEqual(["a\n"]);
  });
});

describe("the standard output of a process", () => {
  const program = fileURLToPath(new URL("../testing/write-log-lines.ts", import.meta.url));

  test.each([1, 3])("has all lines of %i threads, each in one piece, when its reader is slow", async (threads) => {
    const child = spawn("node", [program, String(threads), "2000"], { stdio: ["ignore", "pipe", "inherit"] });
    const closed = once(child, "close");
    let output = "";
    for await (const chunk of child.stdout.setEncoding("utf8")) {
      output += String(chunk);
      // Lines of several threads would be split when the pipe is full, so let it fill.
      if (output.length < 500_000) await delay(5);
    }
    expect(await closed).toEqual([0, null]);
    const lines = output.trimEnd().split("\n");
    expect(lines).toHaveLength(threads * 2_000);
    expect(() => lines.map((text) => JSON.parse(text) as unknown)).not.toThrow();
  });

  test("does not stop the process when its reader closes", async () => {
    const child = spawn("node", [program, "3", "2000"], { stdio: ["ignore", "pipe", "inherit"] });
    child.stdout.destroy();
    expect(await once(child, "close")).toEqual([0, null]);
  });
});
