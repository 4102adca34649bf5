/** The programs of a demo, and the lines of their logs that it prints. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { dirname } from "node:path";
import { createInterface } from "node:readline";

const root = dirname(dirname(import.meta.dirname));

/** Longer than the drain timeout of the proxy. */
const stopWithinMs = 15_000;

/** A program that a demo has started. */
export interface Program {
  readonly name: string;
  readonly process: ChildProcess;
  /** Resolves when it has ended, with a description of its end. */
  readonly ended: Promise<string>;
  /** Resolves when a line of its log contains `text`; never rejects. */
  logged(text: string): Promise<void>;
  /** Prints each further line of its log after `label`, and the earlier warnings and errors. */
  follow(label?: string): void;
  /** Prints everything that has not been printed. */
  showAll(): void;
}

/** Starts a file of the repository and keeps its log for later; `env` adds to the environment. */
export function start(name: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): Program {
  const child = spawn(process.execPath, args, {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env },
    // A new process group, so that Ctrl-C in a terminal reaches only the demo, which ends its programs one by one.
    detached: true,
  });
  let retained: string[] = [];
  const waiting = new Map<string, () => void>();
  let print = (line: string): void => void retained.push(line);
  const take = (line: string): void => {
    print(line);
    for (const [text, resolve] of waiting) if (line.includes(text)) resolve();
  };
  for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on("line", take);
  return {
    name,
    process: child,
    ended: once(child, "close").then(([code, signal]) =>
      code === null ? `by ${String(signal)}` : `with status ${String(code)}`,
    ),
    logged: (text) =>
      retained.some((line) => line.includes(text))
        ? Promise.resolve()
        : new Promise((resolve) => void waiting.set(text, resolve)),
    follow(label = "") {
      print = (line) => console.log(`${label}${line}`);
      retained.filter((line) => !isRoutine(line)).forEach(print);
      retained = [];
    },
    showAll() {
      for (const line of retained) console.log(line);
      retained = [];
    },
  };
}

/** Whether a line is a log line without a warning or an error. Output other than log lines is shown. */
function isRoutine(line: string): boolean {
  return /"level":"(?:trace|debug|info)"/.test(line);
}

/** Resolves with a sentence when the program has exited. */
export async function untilEnd(program: Program): Promise<string> {
  return `${program.name} has ended ${await program.ended}`;
}

/** Resolves on a signal that ends the demo. */
export function untilInterrupted(): Promise<undefined> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => resolve(undefined));
  });
}

/** Stops the program with SIGTERM, and kills it after a while. */
export async function stop({ process: child, ended }: Program): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  const killTimer = setTimeout(() => child.kill("SIGKILL"), stopWithinMs);
  await ended;
  clearTimeout(killTimer);
}
