/** Standard output and standard error of commands: the only module that writes text to a terminal. */
import type { Writable } from "node:stream";
import { terminalText } from "../output/controls.ts";

/** The stream of the process. */
export type OutputStream = Writable & {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
};

/** Writes text with escaped control characters, also if the reader is not a terminal: it may show the text on one. */
export class TerminalOutput {
  readonly #stream: OutputStream;

  constructor(stream: OutputStream) {
    this.#stream = stream;
  }

  get isTTY(): boolean {
    return this.#stream.isTTY === true;
  }

  /** The width; undefined if it is not a terminal or its width is unknown. */
  get columns(): number | undefined {
    return this.#stream.columns;
  }

  get rows(): number | undefined {
    return this.#stream.rows;
  }

  /** Writes text. Newlines, tabs and the sequences of `ownSequence` stay; other control characters are escaped. */
  write(text: string): void {
    this.#stream.write(terminalText(text));
  }

  /** Writes binary data. Throws for a terminal. */
  writeFile(bytes: Buffer): void {
    if (this.isTTY) throw new TypeError("a file that is not text is written to a terminal");
    this.#stream.write(bytes);
  }

  /** Calls `listener` when the terminal changes its size, until the returned function is called. */
  onResize(listener: () => void): () => void {
    this.#stream.on("resize", listener);
    return () => void this.#stream.off("resize", listener);
  }
}
