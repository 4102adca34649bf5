/** The duration of a demo, by a clock that runs faster. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { describeWith } from "../support/describe-with.ts";
import { fastClock } from "../support/fast-clock.ts";

vi.setConfig({ testTimeout: 60_000 });

const speed = 15;
const demoFolder = new URL("../../scripts/demo/", import.meta.url);

/** A demo of one program, which reports that it is ready, or never does. */
function startDemo(isReady: boolean) {
  const folder = mkdtempSync(join(tmpdir(), "demo-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const program = `${isReady ? `console.log('{"level":"info","msg":"ready"}');` : ""} setInterval(() => {}, 1_000_000)`;
  const file = join(folder, "demo.mjs");
  writeFileSync(
    file,
    `import { runDemo } from ${JSON.stringify(new URL("run-demo.ts", demoFolder).href)};
import { start } from ${JSON.stringify(new URL("programs.ts", demoFolder).href)};
await runDemo({
  ...{ script: "demo", summary: "A demo.", folder: ${JSON.stringify(folder)}, ports: {}, places: () => [] },
  start: () => ({
    proxies: [start("proxy", ["--eval", ${JSON.stringify(program)}])],
    ...{ needed: [], optional: [], instructions: "Ask it something." },
  }),
});
`,
  );
  const child = spawn(process.execPath, [file], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...fastClock(speed) },
  });
  onTestFinished(() => void child.kill("SIGTERM"));
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (output += String(chunk)));
  return { child, exited: once(child, "exit"), output: () => output };
}

describeWith(["faketime"], "a demo", () => {
  test("runs until it is stopped", async () => {
    const { child, exited, output } = startDemo(true);
    await expect.poll(output).toContain("Ask it something.");
    // A minute by its clock.
    await sleep(60_000 / speed);
    expect(child.exitCode).toBeNull();
    child.kill("SIGINT");
    expect(await exited).toEqual([0, null]);
    expect(output()).toMatch(/The demo has ended\.\n$/);
  });

  test("ends when its programs are not ready in time", async () => {
    const { exited, output } = startDemo(false);
    expect(await exited).toEqual([1, null]);
    expect(output()).toContain("The demo has ended: not ready within 30 s.");
  });
});
