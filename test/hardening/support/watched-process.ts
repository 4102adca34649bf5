/**
 * A program as a process whose event loops and heaps are recorded (`thread-watch.ts`); it is stopped when the test
 * ends.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { onTestFinished } from "vitest";
import { freePort } from "../../support/free-port.ts";
import type { ThreadNote } from "./thread-watch.ts";

export interface WatchedProcess {
  /** `http://127.0.0.1:PORT` of the readiness page. */
  readonly readiness: string;
  /** The output so far. */
  readonly output: () => string;
  readonly hasEnded: () => boolean;
  /**
   * The longest time, as in `StepTimes`, for which one of its threads has blocked its event loop since the last call; 0
   * below 40 ms.
   */
  readonly longestHeldMs: () => Promise<number>;
  /** The heap of all threads together, after a garbage collection. */
  readonly heapBytes: () => Promise<number>;
}

const watcher = pathToFileURL(join(import.meta.dirname, "thread-watch.ts")).href;

export interface WatchedOptions {
  readonly main: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly threads: number;
}

export async function startWatched({ main, args, env, threads }: WatchedOptions): Promise<WatchedProcess> {
  const folder = await mkdtemp(join(tmpdir(), "watched-"));
  const file = join(folder, "notes");
  const [stats, readiness] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
  const pages = ["--stats-address", stats, "--readiness-address", readiness];
  const child = spawn(process.execPath, ["--import", watcher, main, ...pages, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env, THREAD_WATCH: file },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-20_000);
    });
  }
  const exited = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await exited;
    await rm(folder, { recursive: true });
  });
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
  let seen = 0;
  const notes = async (): Promise<readonly ThreadNote[]> => {
    const text = await readFile(file, "utf8").catch(() => "");
    return text
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as ThreadNote);
  };
  return {
    readiness: `http://${readiness}`,
    output: () => output,
    hasEnded,
    async longestHeldMs() {
      const all = await notes();
      const held = all.slice(seen).map((note) => (note.kind === "held" ? note.ms : 0));
      seen = all.length;
      return Math.max(0, ...held);
    },
    async heapBytes() {
      const heaps = (all: readonly ThreadNote[]) => all.flatMap((note) => (note.kind === "heap" ? [note.bytes] : []));
      const before = heaps(await notes()).length;
      child.kill("SIGUSR2");
      for (;;) {
        const fresh = heaps(await notes()).slice(before);
        if (fresh.length >= threads) return fresh.reduce((sum, bytes) => sum + bytes, 0);
        if (hasEnded()) throw new Error(`the process ended:\n${output}`);
        await sleep(5);
      }
    },
  };
}
