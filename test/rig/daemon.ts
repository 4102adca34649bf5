/**
 * One program of the rig as a child process with its output in a file. Children end with the process that started them.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export interface DaemonOptions {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** The folder of its output, in `NAME.log`. */
  readonly logFolder: string;
  readonly env?: NodeJS.ProcessEnv;
}

export class Daemon {
  readonly logFile: string;
  readonly #child: ChildProcess;
  readonly #name: string;
  readonly #killAtExit = () => void this.#child.kill("SIGKILL");

  constructor({ name, command, args, logFolder, env }: DaemonOptions) {
    this.#name = name;
    this.logFile = join(logFolder, `${name}.log`);
    const output = openSync(this.logFile, "a");
    this.#child = spawn(command, args, { stdio: ["ignore", output, output], ...(env && { env }) });
    this.#child.on("error", () => undefined); // `isRunning` reports it
    closeSync(output);
    process.on("exit", this.#killAtExit);
  }

  get isRunning(): boolean {
    return this.#child.pid !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /**
   * Resolves when `isReady` resolves with true, polled ten times a second; rejects with the end of the log after the
   * timeout.
   */
  async waitUntil(isReady: () => Promise<boolean>, timeoutMs = 60_000): Promise<void> {
    for (let waited = 0; waited < timeoutMs; waited += 100) {
      if (!this.isRunning) throw new Error(`${this.#name} ended:\n${this.#logEnd()}`);
      if (await isReady().catch(() => false)) return;
      await sleep(100);
    }
    throw new Error(`${this.#name} was not ready within ${timeoutMs} ms:\n${this.#logEnd()}`);
  }

  /** Sends TERM, and KILL after the grace period. */
  async stop(graceMs = 2_000): Promise<void> {
    process.off("exit", this.#killAtExit);
    if (!this.isRunning) return;
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGTERM");
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), graceMs);
    await ended;
    clearTimeout(timer);
  }

  #logEnd(): string {
    return readFileSync(this.logFile, "utf8").split("\n").slice(-12).join("\n");
  }
}

/** Runs a command to its end; resolves with its standard output. Rejects with its standard error if it fails. */
export async function run(command: string, args: readonly string[], input?: string): Promise<string> {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "pipe"] });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  child.stdin.on("error", () => undefined); // a command that fails early reads no input
  child.stdin.end(input);
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`${command} ${args.join(" ")} failed: ${stderr || stdout}`);
  return stdout;
}
