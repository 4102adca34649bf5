/** A terminal of a given size, in which a program runs: tmux keeps the screen, types keys and reports the screen. */
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

export interface TestTerminal {
  /** The screen, line by line, without spaces at the ends of lines. */
  readonly screen: () => readonly string[];
  /** Types keys by tmux's names: `Down`, `q`, `NPage`. */
  readonly press: (...keys: readonly string[]) => void;
  readonly resize: (columns: number, rows: number) => void;
}

/**
 * Runs a shell's `command` in a terminal without colours, and then a shell with the prompt `ready> `; closed when the
 * test ends. The command is not typed: the echo of keys that are typed before the shell reads them would stay on the
 * screen.
 */
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
  const environment = ["env", "NO_COLOR=1", `COMMAND=${command}`];
  const script = 'eval "$COMMAND"; exec env PS1="ready> " bash --norc --noprofile';
  run("new-session", "-d", "-s", session, ...size, ...environment, "bash", "-c", script);
  onTestFinished(() => {
    run("kill-server");
    rmSync(directory, { recursive: true, force: true });
  });
  return {
    screen: () => run("capture-pane", "-p", "-t", session).split("\n").slice(0, -1),
    press: (...keys) => void run("send-keys", "-t", session, ...keys),
    resize: (width, height) => void run("resize-window", "-t", session, "-x", String(width), "-y", String(height)),
  };
}
