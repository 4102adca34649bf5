/**
 * Finds a few named members near the top level of a JSON object, or of the objects of an array, in a byte stream.
 *
 * A usage may be anywhere in a body of any size, so parsing the whole body would be too late and too expensive. This
 * scan follows brackets and strings only, keeps only the values of the named members, and accepts bytes in chunks of
 * any size. For valid texts it follows RFC 8259. For invalid ones it guarantees only that it does not throw and that
 * its memory is bounded.
 */

/** The members to report, by path: `usage`, or `response.usage` for one inside the object `response`. */
export interface MemberPaths {
  readonly reported: ReadonlySet<string>;
  /** Members of the top level whose values are searched. */
  readonly parents: ReadonlySet<string>;
  /** Members of the top level whose presence is recorded. */
  readonly tracked: ReadonlySet<string>;
}

const noNames: ReadonlySet<string> = new Set();

/** Creates a set of paths. Each path has one or two parts. */
export function memberPaths(...paths: readonly string[]): MemberPaths {
  const parents = paths.filter((path) => path.includes(".")).map((path) => path.slice(0, path.indexOf(".")));
  return { reported: new Set(paths), parents: new Set(parents), tracked: noNames };
}

/** One of the named members. Offsets count bytes from the start of the text, over all chunks. */
export interface Member {
  /** The path, with escapes decoded. */
  readonly path: string;
  /**
   * The JSON text of the value, with surrounding white space. A view that the next push may overwrite. Undefined if
   * the value is spread over several chunks and longer than `maxKeptBytes`.
   */
  readonly value: Buffer | undefined;
  /** The offset of the `{` or `,` before the member. */
  readonly before: number;
  /** The offset of the first byte after the colon. */
  readonly valueStart: number;
  /** The offset of the `,` or `}` after the value. */
  readonly after: number;
  /** The number of its object in the array, from 1; 0 if the text is an object. */
  readonly element: number;
}

/** The maximum size of a value that is kept over several chunks. A usage object has about 300 bytes. */
export const maxKeptBytes = 16 * 1024;

const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

const digit = 0;
const structural = 1;
const space = 2;
const other = 3;
/** The kind of each byte outside strings. */
const kinds = new Uint8Array(256).fill(other);
for (const byte of [quote, comma, colon, openBracket, closeBracket, openBrace, closeBrace]) kinds[byte] = structural;
for (const byte of Buffer.from("0123456789")) kinds[byte] = digit;
for (const byte of Buffer.from(" \t\n\r")) kinds[byte] = space;

/** The weight of a token id: that of four bytes of text. */
const bytesPerId = 4;

/** Scans one JSON text. Reports members in the order in which they end. A repeated name is reported each time. */
export class JsonMembers {
  readonly #paths: MemberPaths;
  readonly #report: (member: Member) => void;
  /** The offset of the first byte of the current chunk. */
  #base = 0;
  #depth = 0;
  /** The depth inside the scanned objects: 1, or 2 if the text is an array of them. */
  #top = 1;
  #element = 0;
  /**
   * The state of the text.
   * - `start`: only white space has arrived. `{` or `[` moves it to `inside`, any other byte to `other`.
   * - `inside`: an object or an array is open. Its last bracket moves it to `over`.
   * - `over`: the object or array has ended.
   * - `other`: the text is neither an object nor an array, and is not scanned.
   */
  #state: "start" | "inside" | "over" | "other" = "start";
  #inString = false;
  /** The chunk ended on a backslash inside a string. */
  #escaped = false;
  /** The name of the open member of the top level if its value is searched. */
  #parent: string | undefined;
  /** Whether the next string at a watched depth is a name. */
  #expectsName = false;
  #path = "";
  #before = 0;
  #valueStart = 0;
  /** The part of the text that is kept, between its first byte and its end: the name of a member, or its value. */
  #capturing: "nothing" | "name" | "value" = "nothing";
  /** Where the captured part begins in this chunk. Its parts in earlier chunks are in `#kept`. */
  #captureFrom = 0;
  #kept: Buffer[] = [];
  #keptBytes = 0;
  #textBytes = 0;
  #markBytes = 0;
  /** The last bytes began an array element and were digits only; `#hasDigits` is set if there were any. */
  #mayBeId = false;
  #hasDigits = false;
  #hasTracked = false;
  #end: number | undefined;

  constructor(paths: MemberPaths, report: (member: Member) => void) {
    this.#paths = paths;
    this.#report = report;
  }

  /** The offset of the `}` that ends the text; undefined until it has been read, and if the text is not an object. */
  get end(): number | undefined {
    return this.#top === 1 ? this.#end : undefined;
  }

  /** The offset of the bracket that ends the object or array; undefined until it has been read. */
  get endOfObjectOrArray(): number | undefined {
    return this.#end;
  }

  /**
   * The approximate length of the text so far: bytes inside strings, including names, and four for each whole number
   * in an array, which may be a token id.
   */
  get textBytes(): number {
    return this.#textBytes;
  }

  /** The number of brackets, braces, commas, colons and quotes so far. */
  get markBytes(): number {
    return this.#markBytes;
  }

  /** Whether the text has begun and is neither an object nor an array. */
  get isOther(): boolean {
    return this.#state === "other";
  }

  /** Whether an object or an array has begun and not ended. */
  get isOpen(): boolean {
    return this.#state === "inside";
  }

  /** Whether an object or an array has ended. */
  get isComplete(): boolean {
    return this.#state === "over";
  }

  /** Whether one of the tracked members has begun. */
  get hasTracked(): boolean {
    return this.#hasTracked;
  }

  /** Reads the next bytes. Keeps no reference to `chunk`. */
  push(chunk: Buffer): void {
    this.#captureFrom = 0;
    let at = this.#state === "start" ? this.#readStart(chunk) : 0;
    while (at < chunk.length && this.#state === "inside") {
      at = this.#inString ? this.#readString(chunk, at) : this.#readStructure(chunk, at);
    }
    if (this.#capturing !== "nothing") this.#keep(chunk.subarray(this.#captureFrom));
    this.#base += chunk.length;
  }

  /**
   * Reads up to the `{` or `[`. Any other text has no members. A byte order mark is skipped, as by many parsers (RFC
   * 8259 §8.1). Returns the index after the bytes read.
   */
  #readStart(chunk: Buffer): number {
    const at = chunk.findIndex((byte) => !isSpace(byte) && !isOfByteOrderMark(byte));
    if (at === -1) return chunk.length;
    const byte = chunk[at];
    if (byte === openBrace || byte === openBracket) {
      this.#state = "inside";
      this.#top = byte === openBrace ? 1 : 2;
      this.#endElement(byte);
      this.#open(byte, at);
      this.#markBytes++;
    } else {
      this.#state = "other";
    }
    return at + 1;
  }

  /** Reads up to and including the next string's opening quote, or the end of the object. */
  #readStructure(chunk: Buffer, from: number): number {
    for (let at = from; at < chunk.length; at++) {
      const byte = chunk[at] ?? 0;
      // In a body of embeddings nearly all bytes outside strings are digits. The table finds them with one lookup.
      const kind = kinds[byte];
      if (kind === digit) {
        this.#hasDigits = true;
        continue;
      }
      if (kind !== structural) {
        if (kind === other) this.#mayBeId = false;
        continue;
      }
      this.#markBytes += byte === quote ? 2 : 1;
      this.#endElement(byte);
      if (byte === quote) {
        this.#openString(at);
        return at + 1;
      }
      if (byte === openBrace || byte === openBracket) this.#open(byte, at);
      else if (byte === closeBrace || byte === closeBracket) this.#close(chunk, at);
      else if (this.#isWatched()) this.#separate(chunk, at);
      if (this.#depth === 0) return at + 1;
    }
    return chunk.length;
  }

  /** Counts an array element that ends with a comma or bracket, if it is a whole number. */
  #endElement(byte: number): void {
    if (this.#mayBeId && this.#hasDigits && (byte === comma || byte === closeBracket)) this.#textBytes += bytesPerId;
    this.#mayBeId = byte === comma || byte === openBracket;
    this.#hasDigits = false;
  }

  #openString(at: number): void {
    this.#inString = true;
    if (!this.#expectsName || !this.#isWatched()) return;
    this.#capture("name", at + 1);
  }

  /** Reads to the end of the string, byte by byte: most strings are short, and every backslash must be found too. */
  #readString(chunk: Buffer, from: number): number {
    let at = this.#escaped ? from + 1 : from;
    while (at < chunk.length && chunk[at] !== quote) at += chunk[at] === backslash ? 2 : 1;
    this.#escaped = at > chunk.length;
    this.#textBytes += Math.min(at, chunk.length) - from;
    if (at >= chunk.length) return chunk.length;
    this.#inString = false;
    if (this.#capturing === "name") this.#endName(chunk, at);
    return at + 1;
  }

  #endName(chunk: Buffer, at: number): void {
    const name = unescapeName(this.#endCapture(chunk, at)?.toString() ?? "");
    this.#expectsName = false;
    this.#path = this.#depth === this.#top ? name : `${this.#parent ?? ""}.${name}`;
  }

  #startValue(at: number): void {
    this.#valueStart = this.#base + at + 1;
    const { reported, tracked } = this.#paths;
    if (this.#depth === this.#top && tracked.has(this.#path)) this.#hasTracked = true;
    if (reported.has(this.#path)) this.#capture("value", at + 1);
  }

  #open(bracket: number, at: number): void {
    this.#depth += 1;
    if (bracket !== openBrace) return;
    if (this.#depth === this.#top) {
      if (this.#top === 2) this.#element++;
      this.#startMember(at);
    } else if (this.#depth === this.#top + 1 && this.#paths.parents.has(this.#path)) {
      this.#parent = this.#path;
      this.#startMember(at);
    }
  }

  #close(chunk: Buffer, at: number): void {
    if (this.#isWatched()) this.#endMember(chunk, at);
    this.#depth -= 1;
    if (this.#depth === this.#top) this.#parent = undefined;
    if (this.#depth > 0) return;
    this.#state = "over";
    this.#end = this.#base + at;
  }

  /** Handles a comma or a colon at a watched depth. */
  #separate(chunk: Buffer, at: number): void {
    if (chunk[at] === comma) this.#endMember(chunk, at);
    else this.#startValue(at);
  }

  #startMember(at: number): void {
    this.#before = this.#base + at;
    this.#expectsName = true;
  }

  #endMember(chunk: Buffer, at: number): void {
    if (this.#capturing === "value") {
      const value = this.#endCapture(chunk, at);
      this.#report({
        path: this.#path,
        value,
        before: this.#before,
        valueStart: this.#valueStart,
        after: this.#base + at,
        element: this.#element,
      });
    }
    this.#path = "";
    this.#startMember(at);
  }

  #isWatched(): boolean {
    return this.#depth === this.#top || (this.#depth === this.#top + 1 && this.#parent !== undefined);
  }

  #capture(part: "name" | "value", from: number): void {
    this.#capturing = part;
    this.#captureFrom = from;
    this.#kept = [];
    this.#keptBytes = 0;
  }

  #keep(piece: Buffer): void {
    if (piece.length === 0) return;
    this.#keptBytes += piece.length;
    if (this.#keptBytes <= maxKeptBytes) this.#kept.push(Buffer.from(piece));
    else this.#kept = [];
  }

  /** Ends the capture at `at`. Returns undefined if it exceeds the bound. */
  #endCapture(chunk: Buffer, at: number): Buffer | undefined {
    this.#capturing = "nothing";
    const last = chunk.subarray(this.#captureFrom, at);
    if (this.#keptBytes === 0) return last;
    return this.#keptBytes <= maxKeptBytes ? Buffer.concat([...this.#kept, last]) : undefined;
  }
}

/** White space (RFC 8259 §2). A NUL is not white space: after a brace it indicates UTF-16. */
function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** The bytes of U+FEFF in UTF-8. Nothing else that may precede an object has these bytes. */
function isOfByteOrderMark(byte: number): boolean {
  return byte === 0xef || byte === 0xbb || byte === 0xbf;
}

/** Decodes escapes in a name, so that `"us\u0061ge"` is `usage`. Names with escapes are rare, so they are parsed. */
function unescapeName(raw: string): string {
  if (!raw.includes("\\")) return raw;
  try {
    return String(JSON.parse(`"${raw}"`));
  } catch {
    return raw;
  }
}
