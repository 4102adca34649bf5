/**
 * A whole terminal for a while: the alternate screen, raw keys, redraws on resize. Whatever happens, the user's screen
 * comes back as it was: at `close`, and at the end of the process should nobody close.
 */
import type { Io } from "../io.ts";
import { ownSequence } from "../output/controls.ts";
import { type Key, parseKeys } from "./keys.ts";

export interface Size {
  readonly columns: number;
  readonly rows: number;
}

export interface Screen {
  readonly size: () => Size;
  /** Shows the lines from the top, at most as many as fit; they are not wider than the screen. */
  readonly draw: (lines: readonly string[]) => void;
  /** Gives the user's screen back; later calls do nothing. */
  readonly close: () => void;
}

export interface ScreenEvents {
  readonly onKey: (key: Exclude<Key, "interrupt">) => void;
  readonly onResize: () => void;
}

/** xterm's private modes 1049 (alternate screen) and 25 (cursor), and 7 (no wrapping at the margin). */
const enter = ownSequence("\u001b[?1049h") + ownSequence("\u001b[?25l") + ownSequence("\u001b[?7l");
const leave = ownSequence("\u001b[?7h") + ownSequence("\u001b[?25h") + ownSequence("\u001b[?1049l");
/** Cursor to the first character of the screen (CUP), to the next line; erased to the end of the line (EL), the screen (ED). */
const home = ownSequence("\u001b[H");
const nextLine = ownSequence("\r\n");
const eraseLine = ownSequence("\u001b[K");
const eraseBelow = ownSequence("\u001b[J");

/** Whether both ends are a terminal that can be taken over. */
export function isInteractive({ stdin, stdout, env }: Pick<Io, "stdin" | "stdout" | "env">): boolean {
  return stdin.isTTY === true && stdout.isTTY && env["TERM"] !== "dumb";
}

/** Takes the terminal over; the caller closes. */
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
      // Line by line rather than all at once, so that nothing flickers; and before its text, since behind a line that
      // fills the screen the cursor still stands on the last character.
      const shown = lines.slice(0, size().rows).map((line) => eraseLine + line.replaceAll("\n", " "));
      stdout.write(home + shown.join(nextLine) + (shown.length < size().rows ? nextLine + eraseBelow : ""));
    },
  };
}
