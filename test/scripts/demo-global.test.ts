/** `npm run demo:global` as a newcomer meets it: what it prints is typed, and Ctrl-C ends it. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { isFree } from "../../scripts/demo/ports.ts";

const run = promisify(execFile);

/** So many ports above the usual ones those of the demo are free, and below those that connections take. */
async function freeOffset(): Promise<number> {
  const offset = randomInt(5_000, 16_000);
  const ports = [8_080, 8_081, 8_089, 15_000, 15_001, 15_020, 15_021].map((port) => port + offset);
  const free = await Promise.all(ports.flatMap((port) => [isFree(port), isFree(port, "127.0.0.2")]));
  return free.every(Boolean) ? offset : freeOffset();
}

interface Group {
  readonly process: ChildProcess;
  /** Everything that it has printed. */
  readonly output: () => string;
  /** As a terminal does it: every process of the group is told. */
  readonly interrupt: () => void;
}

function startGroup(command: string, args: readonly string[]): Group {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], detached: true });
  const signal = (name: NodeJS.Signals): void => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) process.kill(-child.pid, name);
  };
  onTestFinished(() => signal("SIGKILL"));
  let text = "";
  child.stdout.on("data", (chunk: Buffer) => (text += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (text += chunk.toString()));
  return { process: child, output: () => text, interrupt: () => signal("SIGINT") };
}

/** The status of each answer that the printed loop gets, with a mark on those that the service refused. */
async function typeLoop(text: string, user: string): Promise<readonly string[]> {
  const [loop = ""] = /^ +for address in [^]*?^ +done$/m.exec(text) ?? [];
  const { stdout } = await run("sh", ["-c", loop.replace("x-user: ann", `x-user: ${user}`)]);
  return stdout
    .split(/^HTTP\/1\.1 /m)
    .slice(1)
    .map((response) => response.slice(0, 3) + (/^x-envoy-ratelimited: true/m.test(response) ? " by the service" : ""));
}

test("what demo:global prints happens: two proxies share a limit, with and without their service", async () => {
  const offset = await freeOffset();
  const demo = startGroup("npm", ["run", "demo:global", "--", "--port-offset", String(offset)]);
  // The end of its output: npm goes at once, and the script when all that it started has gone.
  const ended = once(demo.process, "close");
  await expect.poll(demo.output, { timeout: 40_000 }).toContain("Ctrl-C ends the demo");

  // The demo is at its own pace; a busy machine must not be taken for a service that is away.
  const [, copy = ""] = /(\S+)\/manifests\/limits\.yaml/.exec(demo.output()) ?? [];
  const limits = await readFile(join(copy, "manifests/limits.yaml"), "utf8");
  await writeFile(join(copy, "manifests/limits.yaml"), limits.replace("domain:", "timeout: 10s\n        domain:"));
  const edited = () => demo.output().match(/"generation":2,.*"configuration in force"/g)?.length;
  await expect.poll(edited, { timeout: 20_000 }).toBe(2);

  const passed = new Array<string>(6).fill("200");
  expect(await typeLoop(demo.output(), "ann")).toEqual([...passed, "429 by the service"]);

  const [, kill = ""] = /^ +(kill \d+)$/m.exec(demo.output()) ?? [];
  await run("sh", ["-c", kill]);
  await expect.poll(() => isFree(8_081 + offset), { timeout: 20_000 }).toBe(true);
  // Four of the seven are asked of the first proxy, which admits three by its fallback.
  expect(await typeLoop(demo.output(), "bob")).toEqual([...passed, "429"]);

  const [, again = ""] = /^ +(GRPC_HOST=.*)$/m.exec(demo.output()) ?? [];
  const service = startGroup("sh", ["-c", again]);
  await expect.poll(() => isFree(8_081 + offset), { timeout: 20_000 }).toBe(false);
  const users = ["cal", "dot", "eve", "fay"].values();
  await expect
    .poll(() => typeLoop(demo.output(), users.next().value ?? ""), { interval: 700, timeout: 20_000 })
    .toEqual([...passed, "429 by the service"]);
  service.interrupt();

  demo.interrupt();
  await ended;
  expect(demo.output()).toContain("The demo has ended.");
  expect(demo.output()).not.toMatch(/"level":"(?:warn|error)"[^]*second signal/);
  for (const port of [8_080, 8_089]) expect(await isFree(port + offset)).toBe(true);
  expect(await isFree(8_080 + offset, "127.0.0.2")).toBe(true);
  expect([copy, existsSync(copy)]).toEqual([expect.stringContaining("gateway-proxy-demo-"), false]);
}, 150_000);

test("an offset that is no number is refused, and says what is accepted", async () => {
  const asked = run("npm", ["run", "demo:global", "--", "--port-offset", "high"]);
  await expect(asked).rejects.toThrow("accepted are --port-offset N, a whole number from 0 to 40000");
});
