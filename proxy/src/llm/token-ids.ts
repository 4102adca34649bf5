/**
 * Finds ids of tokens in a body while it passes: whole numbers between the brackets and commas of an array, as in `input_ids`
 * (SGLang), `token_ids` (vLLM) and a `prompt` of ids (OpenAI).
 *
 * An estimate takes four bytes for a token. An id of one or two digits has fewer, with its comma, so what it lacks is added up.
 * An id that is spelled in another way, such as `"1"` or `1.0`, has four bytes or more. The last id of an array needs none, as
 * the brackets around it count. Strings are not told apart: in a text, too, a digit between commas is a token at least.
 */

const separator = 1;
const digit = 2;
const blank = 3;
const kinds = new Uint8Array(256);
for (const byte of Buffer.from("[,")) kinds[byte] = separator;
for (const byte of Buffer.from("0123456789")) kinds[byte] = digit;
for (const byte of Buffer.from(" \t\r\n")) kinds[byte] = blank;

const comma = 0x2c;
/** Of a token. */
const bytesPerToken = 4;

export class TokenIds {
  #missingBytes = 0;
  /** Bytes since the last separator, where they are digits and blanks. */
  #length = bytesPerToken;
  #hasDigit = false;

  /** What the ids so far lack to be four bytes long, each with its comma. */
  get missingBytes(): number {
    return this.#missingBytes;
  }

  /** Reads on. Keeps no reference to `chunk`. */
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
      } else if (kind === blank) length++;
      else length = bytesPerToken;
    }
    this.#length = length;
    this.#hasDigit = hasDigit;
  }
}
