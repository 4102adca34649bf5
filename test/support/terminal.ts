/** A terminal of a given size, in which a program runs: tmux keeps the screen, types keys and tells what is shown. */
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

export interface TestTerminal {
  /** What is on the screen, line by line, without spaces at the ends of lines. */
  readonly screen: () => readonly string[];
  /** Types keys by tmux's names: `Down`, `q`, `NPage`. */
  readonly press: (...keys: readonly string[]) => void;
  readonly resize: (columns: number, rows: number) => void;
}

/** Opens a shell in a terminal without colours and types `command` into it; closed when the test ends. */
export function openTerminal(
  tmux: string,
  command: string,
  { columns, rows }: { readonly columns: number; readonly rows: number },
): TestTerminal {
  const directory = mkdtempSync(join(tmpdir(), "terminal-"));
  const socket = join(directory, "tmux");
  const session = randomUUID();
  const run = (...args: readonly string[]): string => {
    return execFileSync(tmux, ["-S", socket, "-f", "/dev/null", ...args], { encoding: "utf8" });
  };
  const size = ["-x", String(columns), "-y", String(rows)];
  run("new-session", "-d", "-s", session, ...size, "env", "PS1=ready> ", "NO_COLOR=1", "bash", "--norc", "--noprofile");
  onTestFinished(() => {
    run("kill-server");
    rmSync(directory, { recursive: true, force: true });
  });
  run("send-keys", "-t", session, "-l", command);
  run("send-keys", "-t", session, "Enter");
  return {
    screen: () => run("capture-pane", "-p", "-t", session).split("\n").slice(0, -1),
    press: (...keys) => void run("send-keys", "-t", session, ...keys),
    resize: (width, height) => void run("resize-window", "-t", session, "-x", String(width), "-y", String(height)),
  };
}
