/**
 * Finds the first token in a stream of server-sent events or lines of JSON: the end of the first one with text of the
 * model. Earlier events have the model's name or an empty text, and may come long before.
 */
import { streamedText } from "./estimate.ts";

const lineFeed = 0x0a;
/** A longer line is not the event of a token; it repeats the request, for example. */
const maxLineBytes = 16 * 1024;
/** Events of the beginning that are read. In a stream of an unknown format there is no token in them. */
const maxReadBytes = 64 * 1024;
/** Describes the response, with labels that are text (Anthropic). */
const description = '"message_start"';

/** Reads the beginning of one stream. */
export class FirstToken {
  readonly #onFound: () => void;
  /** The line that has begun. */
  #line: Buffer = Buffer.alloc(0);
  /** The rest of the line is left out, since it is too long. */
  #skipsLine = false;
  #readBytes = 0;

  /** @param onFound called once, in the `push` that completes the event. */
  constructor(onFound: () => void) {
    this.#onFound = onFound;
  }

  /** Reads the next bytes, and keeps no reference to them. @returns whether to read on. */
  push(chunk: Buffer): boolean {
    const end = chunk.lastIndexOf(lineFeed) + 1;
    const isFound = end > 0 && this.#hasToken(chunk.subarray(0, end));
    if (isFound) this.#onFound();
    this.#begin(chunk.subarray(end));
    return !isFound && this.#readBytes < maxReadBytes;
  }

  /** @param lines the rest of the current line, and whole ones. */
  #hasToken(lines: Buffer): boolean {
    const from = this.#skipsLine ? lines.indexOf(lineFeed) + 1 : 0;
    const text = Buffer.concat([this.#line, lines.subarray(from)]);
    this.#line = Buffer.alloc(0);
    this.#skipsLine = false;
    this.#readBytes += text.length;
    return text
      .toString()
      .split("\n")
      .some((line) => !line.includes(description) && streamedText(Buffer.from(line)).ofModels > 0);
  }

  #begin(bytes: Buffer): void {
    if (this.#skipsLine || bytes.length === 0) return;
    this.#skipsLine = this.#line.length + bytes.length > maxLineBytes;
    this.#line = this.#skipsLine ? Buffer.alloc(0) : Buffer.concat([this.#line, bytes]);
  }
}
