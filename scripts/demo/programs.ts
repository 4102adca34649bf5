/** The programs that a demo runs, and what it shows of their logs. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { dirname } from "node:path";
import { createInterface } from "node:readline";

const root = dirname(dirname(import.meta.dirname));

/** Longer than a proxy gives running requests to finish before it closes them. */
const stopWithinMs = 15_000;

/** A program that a demo has started. */
export interface Program {
  readonly name: string;
  readonly process: ChildProcess;
  /** Resolves when it has ended, with how it did. */
  readonly ended: Promise<string>;
  /** Resolves when a line of its log contains `text`; never rejects. */
  logged(text: string): Promise<void>;
  /** Prints each line of its log from now on, behind `label`, and the warnings and errors that came before. */
  follow(label?: string): void;
  /** Prints everything that has not been printed. */
  showAll(): void;
}

/** Starts a file of the repository and holds back its log; `env` adds to the environment. */
export function start(name: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): Program {
  const child = spawn(process.execPath, args, {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env },
    // A process group of its own: Ctrl-C in a terminal is for the demo, which then ends its programs one by one.
    detached: true,
  });
  let held: string[] = [];
  const awaited = new Map<string, () => void>();
  let print = (line: string): void => void held.push(line);
  const take = (line: string): void => {
    print(line);
    for (const [text, resolve] of awaited) if (line.includes(text)) resolve();
  };
  for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on("line", take);
  return {
    name,
    process: child,
    ended: once(child, "close").then(([code, signal]) =>
      code === null ? `by ${String(signal)}` : `with status ${String(code)}`,
    ),
    logged: (text) =>
      held.some((line) => line.includes(text))
        ? Promise.resolve()
        : new Promise((resolve) => void awaited.set(text, resolve)),
    follow(label = "") {
      print = (line) => console.log(`${label}${line}`);
      held.filter((line) => !isRoutine(line)).forEach(print);
      held = [];
    },
    showAll() {
      for (const line of held) console.log(line);
      held = [];
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
  const insist = setTimeout(() => child.kill("SIGKILL"), stopWithinMs);
  await ended;
  clearTimeout(insist);
}
