/**
 * Compares member names in a JSON text like the most tolerant server does: Go's `encoding/json` ignores case, some
 * parsers compare in upper case, and parsers in C stop at a NUL.
 *
 * A client chooses the names and their number, so a comparison takes constant work per byte for any name.
 */

/** The folded name in comparison. Longer than any name to find. */
const folded = new Uint8Array(64);

/** The maximum length to which one character folds. */
const maxPiece = 3;

/** Characters beyond ASCII whose upper case is ASCII, with the lower case of that. */
export const asciiFolds: ReadonlyMap<number, string> = new Map([
  [0xdf, "ss"],
  [0x131, "i"],
  [0x17f, "s"],
  [0x212a, "k"],
  [0xfb00, "ff"],
  [0xfb01, "fi"],
  [0xfb02, "fl"],
  [0xfb03, "ffi"],
  [0xfb04, "ffl"],
  [0xfb05, "st"],
  [0xfb06, "st"],
]);

const backslash = 0x5c;
const lowerU = 0x75;

/** The lower case of a byte; 0 for a backslash and for bytes of characters beyond ASCII. */
const lowerCase = Uint8Array.from({ length: 256 }, (_, byte) => {
  if (byte === backslash || byte >= 0x80) return 0;
  return byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte;
});

/** The value of a hexadecimal digit plus 1; 0 for other bytes. */
export const hexDigits: Uint8Array = Uint8Array.from({ length: 256 }, (_, byte) =>
  /[\da-f]/i.test(String.fromCharCode(byte)) ? Number.parseInt(String.fromCharCode(byte), 16) + 1 : 0,
);

interface Part {
  readonly name: string;
  readonly codes: readonly number[];
}

/** Finds names of a list. */
export class NameMatcher {
  readonly #shortest: number;
  /** Whole names, by their length and their first character. */
  readonly #whole: (Part[] | undefined)[] = [];
  /** Names of the form `*part*`, by the first character of the part. */
  readonly #parts: (Part[] | undefined)[] = [];

  /** @param names in lower case; `*part*` matches each name that contains `part` and is not in the list itself. */
  constructor(names: Iterable<string>) {
    let shortest = Infinity;
    for (const name of names) {
      const isPart = name.startsWith("*");
      const codes = Array.from(Buffer.from(isPart ? name.slice(1, -1) : name));
      shortest = Math.min(shortest, codes.length);
      const [table, index] = isPart
        ? [this.#parts, codes[0] ?? 0]
        : [this.#whole, indexOf(codes.length, codes[0] ?? 0)];
      (table[index] ??= []).push({ name, codes });
    }
    this.#shortest = shortest;
  }

  /** Returns the listed name that some server could read from `start` to `end`. */
  find(text: Buffer, start: number, end: number): string | undefined {
    // No spelling is shorter than the name.
    if (end - start < this.#shortest) return undefined;
    const length = fold(text, start, end);
    if (length < this.#shortest) return undefined;
    const candidates = this.#whole[indexOf(length, folded[0] ?? 0)];
    if (candidates !== undefined) for (const { name, codes } of candidates) if (isAt(codes, 0)) return name;
    for (let at = 0; at < length; at++) {
      const parts = this.#parts[folded[at] ?? 0];
      if (parts === undefined) continue;
      for (const { name, codes } of parts) if (at + codes.length <= length && isAt(codes, at)) return name;
    }
    return undefined;
  }
}

function indexOf(length: number, first: number): number {
  return length * 128 + first;
}

function isAt(codes: readonly number[], from: number): boolean {
  for (let i = codes.length - 1; i >= 0; i--) if (folded[from + i] !== codes[i]) return false;
  return true;
}

/** Writes a name to `folded`. @returns its length; 0 if it matches no listed name. */
function fold(text: Buffer, start: number, end: number): number {
  if (end - start > folded.length - maxPiece) return foldWithEscapes(text, start, end);
  for (let at = start; at < end; at++) {
    const code = lowerCase[text[at] ?? 0] ?? 0;
    if (code === 0) return foldWithEscapes(text, start, end);
    folded[at - start] = code;
  }
  return end - start;
}

function foldWithEscapes(text: Buffer, start: number, end: number): number {
  let length = 0;
  for (let at = start; at < end; at += lengthAt(text, at)) {
    const code = codeAt(text, at);
    if (code === 0) return length;
    const piece = code < 0x80 ? undefined : asciiFolds.get(code);
    if ((code >= 0x80 && piece === undefined) || length + maxPiece > folded.length) return 0;
    if (piece === undefined) folded[length++] = lowerCase[code] ?? 0;
    else for (let i = 0; i < piece.length; i++) folded[length++] = piece.charCodeAt(i);
  }
  return length;
}

/** Whether the name from `start` to `end` equals `name` after decoding escapes. */
export function isExactly(text: Buffer, start: number, end: number, name: string): boolean {
  let at = start;
  for (let i = 0; i < name.length; i++) {
    if (at >= end || codeAt(text, at) !== name.charCodeAt(i)) return false;
    at += lengthAt(text, at);
  }
  return at === end;
}

/** Replaces characters that no listed name contains. */
const otherCharacter = 0xffff;

/** The UTF-16 code of the character or escape that begins at `at` in a valid string. */
function codeAt(text: Buffer, at: number): number {
  const byte = text[at] ?? 0;
  if (byte === backslash) return text[at + 1] === lowerU ? hexAt(text, at + 2) : otherCharacter;
  if (byte < 0x80) return byte;
  const second = (text[at + 1] ?? 0) & 0x3f;
  if (byte < 0xe0) return ((byte & 0x1f) << 6) | second;
  return byte < 0xf0 ? ((byte & 0x0f) << 12) | (second << 6) | ((text[at + 2] ?? 0) & 0x3f) : otherCharacter;
}

function hexAt(text: Buffer, from: number): number {
  let code = 0;
  for (let at = from; at < from + 4; at++) code = code * 16 + (hexDigits[text[at] ?? 0] ?? 0) - 1;
  return code;
}

/** The length in bytes of the character or escape that begins at `at`. */
function lengthAt(text: Buffer, at: number): number {
  const byte = text[at] ?? 0;
  if (byte === backslash) return text[at + 1] === lowerU ? 6 : 2;
  if (byte < 0x80) return 1;
  if (byte < 0xe0) return 2;
  return byte < 0xf0 ? 3 : 4;
}
