/** Pages with commands: their blocks of commands, and a shell that runs them as a reader would. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const repository = join(import.meta.dirname, "../../..");

/** Commands that run until they are stopped; alone on their line. */
const lasting =
  /^(?:npm ci && )?npm run (?:--silent )?(?:demo|demo:failover|demo:global|mock-llm|proxy|ratelimit-service)(?![:\w-])/;

/** The line that each of them prints when it serves. */
const ready = /\bready\b|\blistens on\b/;

const readyWithinMs = 60_000;
const endWithinMs = 20_000;

export interface Block {
  readonly commands: string;
  /** Lines that the output must have in this order; `…` stands for any text. Empty: the commands must succeed. */
  readonly shown: readonly string[];
}

function textOf(page: string): string {
  return readFileSync(join(repository, page), "utf8");
}

/** The blocks of commands of a page in order, each with the block of text right below it. */
export function blocksOf(page: string): readonly Block[] {
  const found = [...textOf(page).matchAll(/^```sh\n([^]*?)^```\n(?:\n```text\n([^]*?)^```$)?/gm)];
  return found.map(([, commands = "", shown = ""]) => ({
    commands: commands.trim(),
    shown: shown.split("\n").filter((line) => line !== ""),
  }));
}

/** Blocks without a language; each by its first line. */
export function unnamedBlocksOf(page: string): readonly string[] {
  const fences = [...textOf(page).matchAll(/^```(.*)\n(.*)\n/gm)];
  return fences.filter(([, language], index) => index % 2 === 0 && language === "").map(([, , line = ""]) => line);
}

/** A clone of the repository with its uncommitted files and its dependencies; removed by `dispose`. */
export function cloneRepository(): Disposable & { readonly folder: string } {
  const folder = mkdtempSync(join(tmpdir(), "gateway-proxy-pages-"));
  const copy =
    'git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from - | tar --extract -C "$0"';
  execFileSync("bash", ["-o", "pipefail", "-c", copy, folder], { cwd: repository });
  // The dependencies, as `npm ci` would install them, by hard links where possible, since the files are many.
  const link = 'cp --archive --link node_modules "$0" 2>/dev/null || cp --archive node_modules "$0"';
  execFileSync("bash", ["-c", link, folder], { cwd: repository });
  return {
    folder,
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Runs commands in a folder; one that lasts keeps running during the next ones, until another such command starts. */
export class Shell implements AsyncDisposable {
  readonly #folder: string;
  #running: readonly ChildProcess[] = [];

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Resolves with the standard output of all commands that end by themselves; rejects if one fails. */
  async run(commands: string): Promise<string> {
    const lines = commands.split("\n");
    if (lines.some((line) => lasting.test(line))) await this.#endAll();
    let [output, script] = ["", ""];
    for (const line of lines) {
      if (!lasting.test(line)) {
        script += `${line}\n`;
        continue;
      }
      output += await this.#runToEnd(script);
      script = "";
      // The dependencies are installed.
      await this.#start(line.replace(/^npm ci && /, ""));
    }
    return output + (await this.#runToEnd(script));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#endAll();
  }

  async #runToEnd(script: string): Promise<string> {
    if (script.trim() === "") return "";
    const child = this.#spawn(`set -euo pipefail\n${script}`);
    const output = { stdout: "", stderr: "" };
    child.stdout?.on("data", (chunk: Buffer) => (output.stdout += chunk.toString()));
    child.stderr?.on("data", (chunk: Buffer) => (output.stderr += chunk.toString()));
    const [code] = (await once(child, "close")) as [number | null];
    if (code !== 0) throw new Error(`status ${code}\n${output.stderr}\n${output.stdout}`);
    return output.stdout;
  }

  async #start(command: string): Promise<void> {
    const child = this.#spawn(command);
    this.#running = [...this.#running, child];
    let output = "";
    await new Promise<void>((resolve, reject) => {
      const fail = (how: string): void => reject(new Error(`${command} ${how}:\n${output}`));
      const timer = setTimeout(() => fail("is not ready in time"), readyWithinMs);
      const listen = (chunk: Buffer): void => {
        output += chunk.toString();
        if (!ready.test(output)) return;
        clearTimeout(timer);
        resolve();
      };
      child.stdout?.on("data", listen);
      child.stderr?.on("data", listen);
      child.once("exit", () => {
        clearTimeout(timer);
        fail("has ended");
      });
    });
  }

  /** In its own process group, so that a signal reaches the children of npm, as Ctrl-C does. */
  #spawn(script: string): ChildProcess {
    return spawn("bash", ["-c", script], { cwd: this.#folder, stdio: ["ignore", "pipe", "pipe"], detached: true });
  }

  async #endAll(): Promise<void> {
    const running = this.#running;
    this.#running = [];
    await Promise.all(running.map(end));
  }
}

async function end(child: ChildProcess): Promise<void> {
  const { pid, exitCode, signalCode } = child;
  if (pid === undefined || exitCode !== null || signalCode !== null) return;
  const closed = once(child, "close");
  process.kill(-pid, "SIGINT");
  const insist = setTimeout(() => process.kill(-pid, "SIGKILL"), endWithinMs);
  await closed;
  clearTimeout(insist);
}
