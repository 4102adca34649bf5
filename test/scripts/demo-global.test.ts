/** `npm run demo:global` as a new user runs it: the printed commands are run, and Ctrl-C ends it. */
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

/** An offset at which the ports of the demo are free, and below those that the kernel assigns to connections. */
async function freeOffset(): Promise<number> {
  const offset = randomInt(5_000, 16_000);
  const ports = [8_080, 8_081, 8_089, 15_000, 15_001, 15_020, 15_021].map((port) => port + offset);
  const free = await Promise.all(ports.flatMap((port) => [isFree(port), isFree(port, "127.0.0.2")]));
  return free.every(Boolean) ? offset : freeOffset();
}

interface Group {
  readonly process: ChildProcess;
  /** The output so far. */
  readonly output: () => string;
  /** Signals every process of the group, as a terminal does. */
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

/** The status of each response in the printed loop, with a mark on those that the service denied. */
async function runLoop(text: string, user: string): Promise<readonly string[]> {
  const [loop = ""] = /^ +for address in [^]*?^ +done$/m.exec(text) ?? [];
  const { stdout } = await run("sh", ["-c", loop.replace("x-user: ann", `x-user: ${user}`)]);
  return stdout
    .split(/^HTTP\/1\.1 /m)
    .slice(1)
    .map((response) => response.slice(0, 3) + (/^x-envoy-ratelimited: true/m.test(response) ? " by the service" : ""));
}

test("the commands that demo:global prints show a shared limit, with and without the service", async () => {
  const offset = await freeOffset();
  const demo = startGroup("npm", ["run", "demo:global", "--", "--port-offset", String(offset)]);
  // The end of its output: npm ends at once, and the script when all its programs have ended.
  const ended = once(demo.process, "close");
  await expect.poll(demo.output, { timeout: 40_000 }).toContain("Ctrl-C ends the demo");

  // The service must not count as unavailable on a slow machine.
  const [, copy = ""] = /(\S+)\/manifests\/limits\.yaml/.exec(demo.output()) ?? [];
  const limits = await readFile(join(copy, "manifests/limits.yaml"), "utf8");
  await writeFile(join(copy, "manifests/limits.yaml"), limits.replace("domain:", "timeout: 10s\n        domain:"));
  const edited = () => demo.output().match(/"generation":2,.*"configuration in force"/g)?.length;
  await expect.poll(edited, { timeout: 20_000 }).toBe(2);

  const passed = new Array<string>(6).fill("200");
  expect(await runLoop(demo.output(), "ann")).toEqual([...passed, "429 by the service"]);

  const [, kill = ""] = /^ +(kill \d+)$/m.exec(demo.output()) ?? [];
  await run("sh", ["-c", kill]);
  await expect.poll(() => isFree(8_081 + offset), { timeout: 20_000 }).toBe(true);
  // Four of the seven go to the first proxy, which allows three by its fallback.
  expect(await runLoop(demo.output(), "bob")).toEqual([...passed, "429"]);

  const [, again = ""] = /^ +(GRPC_HOST=.*)$/m.exec(demo.output()) ?? [];
  const service = startGroup("sh", ["-c", again]);
  await expect.poll(() => isFree(8_081 + offset), { timeout: 20_000 }).toBe(false);
  const users = ["cal", "dot", "eve", "fay"].values();
  await expect
    .poll(() => runLoop(demo.output(), users.next().value ?? ""), { interval: 700, timeout: 20_000 })
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

test("an offset that is no number is rejected, and the error says what is accepted", async () => {
  const result = run("npm", ["run", "demo:global", "--", "--port-offset", "high"]);
  await expect(result).rejects.toThrow("accepted are --port-offset N, a whole number from 0 to 40000");
});
