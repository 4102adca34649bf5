/** Standard output and standard error as commands have them: the one place where text is written to a terminal. */
import type { Writable } from "node:stream";
import { terminalText } from "../output/controls.ts";

/** The stream of the process. */
export type OutputStream = Writable & {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
};

/** Writes text without the controls that it holds, whether or not the reader is a terminal: it may show it on one. */
export class TerminalOutput {
  readonly #stream: OutputStream;

  constructor(stream: OutputStream) {
    this.#stream = stream;
  }

  get isTTY(): boolean {
    return this.#stream.isTTY === true;
  }

  /** Undefined where it is no terminal, or one of unknown width. */
  get columns(): number | undefined {
    return this.#stream.columns;
  }

  get rows(): number | undefined {
    return this.#stream.rows;
  }

  /** Newlines, tabs and the sequences of `ownSequence` stay; every other control is shown as an escape. */
  write(text: string): void {
    this.#stream.write(terminalText(text));
  }

  /** Writes a file that is not text. Throws where it would go to a terminal. */
  writeFile(bytes: Buffer): void {
    if (this.isTTY) throw new TypeError("a file that is not text is written to a terminal");
    this.#stream.write(bytes);
  }

  /** Calls back when the terminal gets another size, until the returned function is called. */
  onResize(listener: () => void): () => void {
    this.#stream.on("resize", listener);
    return () => void this.#stream.off("resize", listener);
  }
}
