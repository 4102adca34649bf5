/**
 * `npm run demo:failover` as a new user runs it: the conversation goes on, the limit stays exact, and Ctrl-C ends it.
 */
import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { isFree } from "../../scripts/demo/ports.ts";

/** An offset at which the ports of the demo are free, and below those that the kernel assigns to connections. */
async function freeOffset(): Promise<number> {
  const offset = randomInt(5_000, 16_000);
  const ports = [8_080, 8_089, 8_090, 15_000, 15_020, 15_021].map((port) => port + offset);
  const free = await Promise.all(ports.map((port) => isFree(port)));
  return free.every(Boolean) ? offset : freeOffset();
}

test("demo:failover shows a conversation that survives, charged once for each turn", async () => {
  const offset = await freeOffset();
  const args = ["run", "demo:failover", "--", "--port-offset", String(offset)];
  const demo = spawn("npm", args, { stdio: ["ignore", "pipe", "pipe"], detached: true });
  const signal = (name: NodeJS.Signals): void => {
    if (demo.pid !== undefined && demo.exitCode === null && demo.signalCode === null) process.kill(-demo.pid, name);
  };
  onTestFinished(() => signal("SIGKILL"));
  let output = "";
  for (const stream of [demo.stdout, demo.stderr]) stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const ended = once(demo, "close");
  await expect.poll(() => output, { timeout: 90_000 }).toContain("Ctrl-C ends the demo");

  const rows = [...output.matchAll(/^\d +(.*?) {2,}(primary|spare) +(\d) +(\d+) +(\d+)$/gm)];
  expect(rows.map(([, state, responded, attempts]) => [state, responded, Number(attempts)])).toEqual([
    ["responds", "primary", 1],
    ["429, retry-after 3", "spare", 2],
    ["is left alone until its reset", "spare", 1],
    ["responds again after its reset", "primary", 1],
    ["sends nothing for 2 s", "spare", 2],
    ["cuts the stream at once", "spare", 2],
    ["has ended", "spare", 2],
  ]);
  let remaining = 10_000;
  for (const [, , , , tokens, left] of rows) {
    remaining -= Number(tokens);
    expect(Number(left)).toBe(remaining);
  }
  expect(output).toContain(
    `The responses cost ${10_000 - remaining} tokens, and the limit was charged ${10_000 - remaining}.`,
  );

  signal("SIGINT");
  await ended;
  expect(output).toContain("The demo has ended.");
  for (const port of [8_080, 8_090]) expect(await isFree(port + offset)).toBe(true);
}, 150_000);
