/**
 * Tries `npm run demo`: waits for the curl command that it prints, opens the page of the admin server, runs the command
 * until the token limit denies it, and stops the demo with Ctrl-C. The exit status is 1 unless all of it works within a
 * minute.
 *
 * usage: node scripts/try-demo.ts [COMMAND...]
 *   COMMAND starts the demo (`npm run demo`).
 */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";

const run = promisify(execFile);
const deadlineMs = 60_000;
/** An install without development dependencies cannot build the page of the admin server. */
const hasBundler = existsSync(join(import.meta.dirname, "../node_modules/vite"));

/** Returns the command in a text, from a line that starts with `curl` to the end of its continuation lines. */
export function curlCommandIn(text: string): string | undefined {
  return /^[ \t$]*(curl (?:[^\n]*\\\n)*[^\n]*)\n/m.exec(text)?.[1];
}

/** Requests the page of the admin server, whose address the demo prints. Throws unless the response is 200. */
async function openPage(output: string, signal: AbortSignal): Promise<void> {
  const [address] = /\bhttp:\S+\/ui\b/.exec(output) ?? [];
  if (address === undefined) throw new Error(`the demo printed no address of the admin page:\n${output}`);
  const { status } = await fetch(address, { signal });
  if (status !== 200) throw new Error(`expected 200 from ${address}, got ${status}`);
}

/** Repeats `command` until the first 429. Returns all status codes. */
async function sendUntilDenied(command: string, signal: AbortSignal): Promise<readonly string[]> {
  const statuses: string[] = [];
  while (statuses.at(-1) !== "429") {
    signal.throwIfAborted();
    const quiet = `${command} --silent --show-error --output /dev/null --write-out '%{http_code}'`;
    statuses.push((await run("sh", ["-c", quiet], { signal })).stdout);
  }
  return statuses;
}

async function tryDemo([program = "", ...args]: readonly string[]): Promise<string> {
  const began = performance.now();
  const seconds = (): string => ((performance.now() - began) / 1_000).toFixed(1);
  const signal = AbortSignal.timeout(deadlineMs);
  // A new process group, so that the signal reaches npm and its child processes, like Ctrl-C in a terminal.
  const demo = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"], detached: true });
  const exited = once(demo, "exit");
  let output = "";
  demo.stdout.on("data", (chunk: Buffer) => {
    output += chunk.toString();
  });
  try {
    let command = curlCommandIn(output);
    for (; command === undefined; command = curlCommandIn(output)) {
      if (signal.aborted || demo.exitCode !== null) throw new Error(`the demo printed no curl line:\n${output}`);
      await delay(50);
    }
    const ready = seconds();
    if (hasBundler) await openPage(output, signal);
    const statuses = await sendUntilDenied(command, signal);
    const allowed = statuses.slice(0, -1);
    if (allowed.length === 0 || allowed.some((status) => status !== "200")) {
      throw new Error(`expected status 200 and then 429, got ${statuses.join(" ")} from: ${command}`);
    }
    return `demo: ready after ${ready} s, ${allowed.length} responses with 200, then 429 after ${seconds()} s`;
  } finally {
    if (demo.pid !== undefined && demo.exitCode === null) process.kill(-demo.pid, "SIGINT");
    const killTimer = setTimeout(() => {
      if (demo.pid !== undefined) process.kill(-demo.pid, "SIGKILL");
    }, 10_000);
    await exited;
    clearTimeout(killTimer);
  }
}

if (import.meta.main) {
  const command = process.argv.slice(2);
  console.log(await tryDemo(command.length > 0 ? command : ["npm", "run", "demo"]));
}
