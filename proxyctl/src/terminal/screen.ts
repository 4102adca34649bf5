/**
 * Full-screen mode of a terminal: the alternate screen, raw keys, redraws on resize. The user's screen is restored by
 * `close`, or at the end of the process.
 */
import type { Io } from "../io.ts";
import { ownSequence } from "../output/controls.ts";
import { type Key, parseKeys } from "./keys.ts";

/** The size of a terminal in characters. */
export interface Size {
  readonly columns: number;
  readonly rows: number;
}

/** A terminal in full-screen mode. */
export interface Screen {
  readonly size: () => Size;
  /** Draws the lines from the top, as many as fit. They must not be wider than the screen. */
  readonly draw: (lines: readonly string[]) => void;
  /** Restores the user's screen; later calls have no effect. */
  readonly close: () => void;
}

/** Handlers of terminal events. */
export interface ScreenEvents {
  readonly onKey: (key: Exclude<Key, "interrupt">) => void;
  readonly onResize: () => void;
}

/** xterm's private modes 1049 (alternate screen) and 25 (cursor), and 7 (no wrapping at the margin). */
const enter = ownSequence("\u001b[?1049h") + ownSequence("\u001b[?25l") + ownSequence("\u001b[?7l");
const leave = ownSequence("\u001b[?7h") + ownSequence("\u001b[?25h") + ownSequence("\u001b[?1049l");
/**
 * Cursor to the first character of the screen (CUP), to the next line; erased to the end of the line (EL), the screen
 * (ED).
 */
const home = ownSequence("\u001b[H");
const nextLine = ownSequence("\r\n");
const eraseLine = ownSequence("\u001b[K");
const eraseBelow = ownSequence("\u001b[J");

/** Whether both standard input and standard output are a terminal with cursor control. */
export function isInteractive({ stdin, stdout, env }: Pick<Io, "stdin" | "stdout" | "env">): boolean {
  return stdin.isTTY === true && stdout.isTTY && env["TERM"] !== "dumb";
}

/** Enters full-screen mode; the caller closes it. */
export function openScreen({ stdin, stdout }: Pick<Io, "stdin" | "stdout">, events: ScreenEvents): Screen {
  let isOpen = true;
  const onData = (chunk: Buffer | string): void => {
    for (const key of parseKeys(chunk.toString())) {
      // A terminal in raw mode sends no signal.
      if (key === "interrupt") process.emit("SIGINT");
      else events.onKey(key);
    }
  };
  function close(): void {
    if (!isOpen) return;
    isOpen = false;
    stdout.write(leave);
    stdin.setRawMode?.(false);
    stdin.off("data", onData);
    stdin.pause();
    stopResize();
    process.off("exit", close);
  }
  process.once("exit", close);
  stdin.setRawMode?.(true);
  stdin.on("data", onData);
  stdin.resume();
  const stopResize = stdout.onResize(events.onResize);
  stdout.write(enter);
  const size = (): Size => ({ columns: stdout.columns ?? 80, rows: stdout.rows ?? 24 });
  return {
    size,
    close,
    draw(lines) {
      if (!isOpen) return;
      // Each line is erased right before its text: erasing all at once would flicker, and after a line that fills the
      // screen the cursor would still be on its last character.
      const shown = lines.slice(0, size().rows).map((line) => eraseLine + line.replaceAll("\n", " "));
      stdout.write(home + shown.join(nextLine) + (shown.length < size().rows ? nextLine + eraseBelow : ""));
    },
  };
}
