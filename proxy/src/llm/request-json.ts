/**
 * Reads the JSON body of a request: whether every JSON reader takes it for the same object, and where the members are that
 * the proxy reads or edits.
 *
 * Lenient readers accept more than RFC 8259: comments, trailing commas, single quotes, other encodings. A body that only
 * some of them accept could mean one thing to the gateway and another to the provider. So only the grammar of RFC 8259 is
 * accepted, in UTF-8, with or without a byte order mark, and nested at most `maxJsonDepth` deep.
 *
 * Names are compared as the most tolerant server would: Go's `encoding/json` ignores case, and readers in C stop at a NUL.
 * A name may come more than once within the grammar, and servers differ in which one they take, so each is reported; a
 * name that comes more than `maxRepeats` times is refused.
 *
 * One pass, in slices, as the largest body would block the event loop for too long. Apart from the few members that were
 * asked for, nothing is allocated.
 */
import { isUtf8 } from "node:buffer";

/** Deepest nesting that is accepted. Readers limit it themselves: Python at about 1,000, .NET at 64. */
export const maxJsonDepth = 512;

/** How often one name that the proxy reads may come, in all its spellings. */
export const maxRepeats = 8;

/** Longest number that is accepted, far beyond what a double can tell apart. */
const maxNumberLength = 1024;

/**
 * Names to report, in lower case, each with the names to report of its value: of an object, or of the objects of an array.
 * `*model*` stands for all names that have `model` in them and are not asked for otherwise.
 */
export type WantedNames = Readonly<Record<string, readonly string[]>>;

/** An object of the body. Offsets are those of the body. */
export interface JsonObject {
  /** Those that were asked for, in the order in which they come. */
  readonly members: readonly JsonMember[];
  /** Of its `}`. */
  readonly end: number;
  readonly isEmpty: boolean;
}

/** A member that was asked for. */
export interface JsonMember {
  /** As it was asked for. */
  readonly name: string;
  /** Whether it is spelled like that, escapes aside. */
  readonly isExact: boolean;
  /** Of the value, without the white space around it. */
  readonly start: number;
  /** Behind the value. */
  readonly end: number;
  /** The value, where names inside it were asked for and it is an object. */
  readonly object: JsonObject | undefined;
  /** Where names inside it were asked for and it is an array: its objects that have one. */
  readonly elements: readonly JsonObject[];
}

/** What became of the reading of a body. */
export type JsonReading =
  | { readonly kind: "object"; readonly body: Buffer; readonly object: JsonObject }
  /** It is not one JSON object in UTF-8. */
  | { readonly kind: "notObject" }
  /** A name comes more than `maxRepeats` times. */
  | { readonly kind: "repeated"; readonly name: string };

/** Reads `body` at once. Never throws. */
export function readJson(body: Buffer, wanted: WantedNames): JsonReading {
  return new RequestJsonReader(body, wanted).read(Infinity) ?? { kind: "notObject" };
}

const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const backslash = 0x5c;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const lowerU = 0x75;
const lowerE = 0x65;
const minus = 0x2d;
const plus = 0x2b;
const dot = 0x2e;
const zero = 0x30;

/** What bytes mean: in strings, in numbers and behind a backslash. Behind the last byte there is `undefined`, which is 0. */
const isPlain = tableOf((byte) => byte >= 0x20 && byte !== quote && byte !== backslash);
const isBlank = tableOf((byte) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09);
const isDigit = tableOf((byte) => byte >= zero && byte <= 0x39);
const isEscaped = tableOf((byte) => '"\\/bfnrt'.includes(String.fromCharCode(byte)));
/** The value of a hexadecimal digit plus 1. */
const hexDigits = Uint8Array.from({ length: 256 }, (_, byte) =>
  /[\da-f]/i.test(String.fromCharCode(byte)) ? Number.parseInt(String.fromCharCode(byte), 16) + 1 : 0,
);

function tableOf(test: (byte: number) => boolean): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => (test(byte) ? 1 : 0));
}

const literals = new Map([
  ...["true", "false", "null"].map((text) => [text.charCodeAt(0), Buffer.from(text)] as const),
]);

/** What the grammar takes next; `rest…` of a string that a slice has cut. */
type Next =
  | "value"
  | "valueOrEnd"
  | "name"
  | "nameOrEnd"
  | "colon"
  | "separator"
  | "restOfName"
  | "restOfString"
  | "nothing";

/** Index of a byte that cannot be read. */
const invalid = -1;

/** An object whose members are reported, while it is read. */
interface OpenObject {
  readonly names: readonly string[];
  readonly members: JsonMember[];
  isEmpty: boolean;
  /** The member whose value is being read, where it was asked for. */
  open: OpenMember | undefined;
  /** In the place of an object: an array, with the names to report of its objects. */
  readonly elementNames?: readonly string[];
  readonly elements: JsonObject[];
}

interface OpenMember {
  readonly name: string;
  readonly isExact: boolean;
  start: number;
  object: JsonObject | undefined;
  elements: readonly JsonObject[];
}

const noElements: readonly JsonObject[] = [];

/** Reads one body in slices. */
export class RequestJsonReader {
  readonly #body: Buffer;
  readonly #wanted: WantedNames;
  readonly #names: readonly string[];
  #at = 0;
  #next: Next = "value";
  #depth = 0;
  /** The closing bracket of each open array and object. */
  readonly #closers = new Uint8Array(maxJsonDepth);
  /** Of the string that a slice has cut: behind its quote. */
  #stringStart = 0;
  /** The body's object, and one inside it whose members are reported. The last is watched while it is the innermost. */
  readonly #objects: OpenObject[] = [];
  #root: JsonObject | undefined;
  readonly #repeats = new Map<string, number>();
  #repeated: string | undefined;

  constructor(body: Buffer, wanted: WantedNames) {
    this.#body = body;
    this.#wanted = wanted;
    this.#names = Object.keys(wanted);
  }

  /**
   * Reads the next `bytes` or a few more. Never throws.
   *
   * @returns undefined where there is more to be read; else what came of it, and it must not be called again.
   */
  read(bytes: number): JsonReading | undefined {
    if (this.#at === 0 && !this.#begin()) return notObject;
    const limit = Math.min(this.#body.length, this.#at + bytes);
    this.#at = this.#readUpTo(limit);
    if (this.#repeated !== undefined) return { kind: "repeated", name: this.#repeated };
    if (this.#at === invalid) return notObject;
    if (this.#at < this.#body.length) return undefined;
    if (this.#next !== "nothing" || this.#root === undefined) return notObject;
    return { kind: "object", body: this.#body, object: this.#root };
  }

  #begin(): boolean {
    const body = this.#body;
    const hasMark = body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf;
    this.#at = hasMark ? 3 : 0;
    return isUtf8(body);
  }

  /** @returns where to go on, at `limit` or a little behind it, or `invalid`. */
  #readUpTo(limit: number): number {
    const body = this.#body;
    let at = this.#at;
    while (at < limit) {
      const byte = body[at] ?? 0;
      if (isBlank[byte] === 1 && this.#next !== "restOfName" && this.#next !== "restOfString") {
        at++;
        continue;
      }
      switch (this.#next) {
        case "separator":
          if (byte === comma) {
            this.#next = this.#closers[this.#depth - 1] === closeBrace ? "name" : "value";
            at++;
          } else at = this.#close(byte, at);
          break;
        case "valueOrEnd":
          at = byte === closeBracket ? this.#close(byte, at) : this.#readValue(byte, at, limit);
          break;
        case "value":
          if (this.#depth === 0 && byte !== openBrace) return invalid;
          at = this.#readValue(byte, at, limit);
          break;
        case "nameOrEnd":
        case "name":
          if (byte === quote) at = this.#readString("restOfName", at + 1, at + 1, limit);
          else at = this.#next === "nameOrEnd" ? this.#close(byte, at) : invalid;
          break;
        case "colon":
          this.#next = "value";
          at = byte === colon ? at + 1 : invalid;
          break;
        case "restOfName":
        case "restOfString":
          at = this.#readString(this.#next, this.#stringStart, at, limit);
          break;
        case "nothing":
          return invalid;
      }
      if (at === invalid) return invalid;
    }
    return at;
  }

  #readValue(byte: number, at: number, limit: number): number {
    const watched = this.#watched();
    if (watched?.open !== undefined) watched.open.start = at;
    if (byte === quote) return this.#readString("restOfString", at + 1, at + 1, limit);
    if (byte === openBrace || byte === openBracket) return this.#open(byte, at, watched);
    const end = isDigit[byte] === 1 || byte === minus ? skipNumber(this.#body, at) : skipLiteral(this.#body, at);
    if (end !== invalid) this.#endValue(end);
    return end;
  }

  #open(byte: number, at: number, watched: OpenObject | undefined): number {
    if (this.#depth === maxJsonDepth) return invalid;
    const isObject = byte === openBrace;
    this.#closers[this.#depth++] = isObject ? closeBrace : closeBracket;
    this.#next = isObject ? "nameOrEnd" : "valueOrEnd";
    const names = this.#namesIn(watched);
    if (names.length === 0) return at + 1;
    const opened = { members: [], isEmpty: true, open: undefined, elements: [] };
    if (isObject) this.#objects.push({ ...opened, names });
    else if (watched?.elementNames === undefined) this.#objects.push({ ...opened, names: [], elementNames: names });
    return at + 1;
  }

  /** What to report of the value that begins in `watched`, which is undefined for the body. */
  #namesIn(watched: OpenObject | undefined): readonly string[] {
    if (this.#depth === 1) return this.#names;
    if (watched?.elementNames !== undefined) return watched.elementNames;
    return (this.#depth === 2 && this.#wanted[watched?.open?.name ?? ""]) || [];
  }

  #close(byte: number, at: number): number {
    if (byte !== this.#closers[this.#depth - 1]) return invalid;
    const watched = this.#watched();
    this.#depth--;
    if (watched !== undefined) {
      this.#objects.pop();
      const parent = this.#objects.at(-1);
      const object = { members: watched.members, end: at, isEmpty: watched.isEmpty };
      if (parent === undefined) this.#root = object;
      else if (parent.elementNames !== undefined) {
        if (object.members.length > 0) parent.elements.push(object);
      } else if (parent.open !== undefined) {
        if (watched.elementNames === undefined) parent.open.object = object;
        else parent.open.elements = watched.elements;
      }
    }
    this.#endValue(at + 1);
    return at + 1;
  }

  /** @param end behind the value. */
  #endValue(end: number): void {
    this.#next = this.#depth === 0 ? "nothing" : "separator";
    const watched = this.#watched();
    if (watched?.open === undefined) return;
    watched.members.push({ ...watched.open, end });
    watched.open = undefined;
  }

  /** Reads on in a string that began at `start`, behind its quote. */
  #readString(what: "restOfName" | "restOfString", start: number, from: number, limit: number): number {
    const end = skipString(this.#body, from, limit);
    if (end === invalid) return invalid;
    if (this.#body[end] !== quote) {
      this.#stringStart = start;
      this.#next = what;
      return end;
    }
    if (what === "restOfString") this.#endValue(end + 1);
    else if (!this.#endName(start, end)) return invalid;
    return end + 1;
  }

  /** @returns false where the name comes too often. */
  #endName(start: number, end: number): boolean {
    this.#next = "colon";
    const watched = this.#watched();
    if (watched === undefined) return true;
    watched.isEmpty = false;
    const name = findName(this.#body, start, end, watched.names);
    if (name === undefined) return true;
    const repeats = (this.#repeats.get(name) ?? 0) + 1;
    this.#repeats.set(name, repeats);
    if (repeats > maxRepeats) this.#repeated = name;
    const isExact = isExactly(this.#body, start, end, name);
    watched.open = { name, isExact, start: 0, object: undefined, elements: noElements };
    return repeats <= maxRepeats;
  }

  /** The object whose members are reported, where it is the innermost that is open. */
  #watched(): OpenObject | undefined {
    return this.#objects.length === this.#depth ? this.#objects[this.#depth - 1] : undefined;
  }
}

const notObject: JsonReading = { kind: "notObject" };

/** @returns the index of the closing quote; of another byte where `limit` comes first; `invalid`. */
function skipString(text: Buffer, from: number, limit: number): number {
  let at = from;
  while (at < limit) {
    const byte = text[at] ?? 0;
    if (isPlain[byte] === 1) at++;
    else if (byte === quote) return at;
    else if (byte !== backslash) return invalid;
    else {
      at = skipEscape(text, at);
      if (at === invalid) return invalid;
    }
  }
  return at;
}

function skipEscape(text: Buffer, from: number): number {
  if (text[from + 1] !== lowerU) return isEscaped[text[from + 1] ?? 0] === 1 ? from + 2 : invalid;
  for (let at = from + 2; at < from + 6; at++) if (hexDigits[text[at] ?? 0] === 0) return invalid;
  return from + 6;
}

function skipNumber(text: Buffer, from: number): number {
  let at = text[from] === minus ? from + 1 : from;
  if (text[at] === zero) at++;
  else {
    const digits = at;
    at = skipDigits(text, at);
    if (at === digits) return invalid;
  }
  if (text[at] === dot) {
    const digits = at + 1;
    at = skipDigits(text, digits);
    if (at === digits) return invalid;
  }
  // `E` in either case.
  if (((text[at] ?? 0) | 0x20) === lowerE) {
    const sign = text[at + 1];
    const digits = at + (sign === plus || sign === minus ? 2 : 1);
    at = skipDigits(text, digits);
    if (at === digits) return invalid;
  }
  return at - from <= maxNumberLength ? at : invalid;
}

function skipDigits(text: Buffer, from: number): number {
  const limit = Math.min(text.length, from + maxNumberLength);
  let at = from;
  while (at < limit && isDigit[text[at] ?? 0] === 1) at++;
  return at;
}

function skipLiteral(text: Buffer, from: number): number {
  const literal = literals.get(text[from] ?? 0);
  if (literal === undefined) return invalid;
  const end = from + literal.length;
  return end <= text.length && literal.compare(text, from, end) === 0 ? end : invalid;
}

/** Folded names that are compared; longer than any that is documented for what is asked for. */
const folded = new Uint8Array(64);

/** What characters beyond ASCII come to in lower case, by way of upper case, where that is ASCII. */
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

/**
 * The one of `names` that the name from `start` to `end` is to some server: it differs in case only, which some compare by
 * way of upper case (`\u017ftream` is `STREAM`), or behind a NUL.
 */
function findName(text: Buffer, start: number, end: number, names: readonly string[]): string | undefined {
  // No spelling is shorter.
  if (end - start < shortestName) return undefined;
  const length = fold(text, start, end);
  if (length === undefined) return undefined;
  for (const name of names) if (name.length === length && isFoldedAt(name, 0)) return name;
  return names.find((name) => name.startsWith("*") && isInFolded(name.slice(1, -1), length));
}

function isInFolded(part: string, length: number): boolean {
  for (let at = 0; at + part.length <= length; at++) if (isFoldedAt(part, at)) return true;
  return false;
}

/** Of the names that anybody asks for. */
const shortestName = 5;

function isFoldedAt(name: string, from: number): boolean {
  for (let at = 0; at < name.length; at++) if (folded[from + at] !== name.charCodeAt(at)) return false;
  return true;
}

/** Writes a name to `folded`. @returns its length; undefined where it is none that could be asked for. */
function fold(text: Buffer, start: number, end: number): number | undefined {
  let length = 0;
  for (let at = start; at < end; at += lengthAt(text, at)) {
    const code = codeAt(text, at);
    if (code === 0) return length;
    const piece = code < 0x80 ? undefined : asciiFolds.get(code);
    if ((code >= 0x80 && piece === undefined) || length + 3 > folded.length) return undefined;
    if (piece === undefined) folded[length++] = code >= 0x41 && code <= 0x5a ? code + 0x20 : code;
    else for (let i = 0; i < piece.length; i++) folded[length++] = piece.charCodeAt(i);
  }
  return length;
}

function isExactly(text: Buffer, start: number, end: number, name: string): boolean {
  let at = start;
  for (let i = 0; i < name.length; i++) {
    if (at >= end || codeAt(text, at) !== name.charCodeAt(i)) return false;
    at += lengthAt(text, at);
  }
  return at === end;
}

/** In the place of characters that no name has which is asked for. */
const otherCharacter = 0xffff;

/** The UTF-16 code of the character, or of the escape, that begins at `at` in a sound string. */
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

/** Bytes of the character, or of the escape, that begins at `at`. */
function lengthAt(text: Buffer, at: number): number {
  const byte = text[at] ?? 0;
  if (byte === backslash) return text[at + 1] === lowerU ? 6 : 2;
  if (byte < 0x80) return 1;
  if (byte < 0xe0) return 2;
  return byte < 0xf0 ? 3 : 4;
}
