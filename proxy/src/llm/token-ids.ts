/**
 * Finds token ids in a body stream: whole numbers between the brackets and commas of an array, as in `input_ids`
 * (SGLang), `token_ids` (vLLM) and a `prompt` of ids (OpenAI).
 *
 * An estimate assumes four bytes per token. An id of one or two digits has fewer bytes with its comma, so the missing
 * bytes are counted. An id in another notation, such as `"1"` or `1.0`, has at least four bytes. The last id of an
 * array needs no correction, since the brackets count too. Strings are treated alike: a digit between commas is at
 * least a token there too.
 */

const separator = 1;
const digit = 2;
const blank = 3;
const kinds = new Uint8Array(256);
for (const byte of Buffer.from("[,")) kinds[byte] = separator;
for (const byte of Buffer.from("0123456789")) kinds[byte] = digit;
for (const byte of Buffer.from(" \t\r\n")) kinds[byte] = blank;

const comma = 0x2c;
/** The bytes per token that an estimate assumes. */
const bytesPerToken = 4;

export class TokenIds {
  #missingBytes = 0;
  /** The number of bytes since the last separator if all are digits or blanks. */
  #length = bytesPerToken;
  #hasDigit = false;

  /** The number of bytes that the ids so far lack to have four bytes each, including the comma. */
  get missingBytes(): number {
    return this.#missingBytes;
  }

  /** Reads the next bytes. Keeps no reference to `chunk`. */
  push(chunk: Buffer): void {
    let length = this.#length;
    let hasDigit = this.#hasDigit;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at] ?? 0;
      const kind = kinds[byte];
      if (kind === digit) {
        length++;
        hasDigit = true;
      } else if (kind === separator) {
        if (hasDigit && byte === comma && length < bytesPerToken - 1) this.#missingBytes += bytesPerToken - 1 - length;
        length = 0;
        hasDigit = false;
      } else if (kind === blank) {
        length++;
      } else {
        length = bytesPerToken;
      }
    }
    this.#length = length;
    this.#hasDigit = hasDigit;
  }
}
