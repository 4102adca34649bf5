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
import { hexDigits, isExactly, NameMatcher } from "./json-names.ts";

/** Deepest nesting that is accepted. Readers limit it themselves: Python at about 1,000, .NET at 64. */
export const maxJsonDepth = 512;

/** How often one name that the proxy reads may come, in all its spellings. */
export const maxRepeats = 8;

/** Longest number that is accepted, far beyond what a double can tell apart. */
const maxNumberLength = 1024;

/**
 * Names to report, in lower case, each with the names to report of its value: of an object, or of the objects of an array.
 * `*model*` stands for all names that have `model` in them and are not asked for otherwise.
 *
 * Under `**`: names to report in any object inside a value, but not inside the values of the names under `!**`, at
 * whatever depth these come. `input[]` stands for `input` where its value is an array.
 */
export type WantedNames = Readonly<Record<string, readonly string[]>>;

/** The most members that are reported from inside values. */
const maxEverywhere = 4096;

/** `WantedNames`, compiled. */
interface Matchers {
  readonly names: NameMatcher;
  readonly isWanted: ReadonlySet<string>;
  /** By the name of the member in whose value they are looked for. */
  readonly inside: ReadonlyMap<string, NameMatcher>;
  /** What is looked for in any value; undefined: nothing. */
  readonly everywhere: NameMatcher | undefined;
  /** Names of members whose values are not looked into, and those of which only arrays are not. */
  readonly closed: ReadonlySet<string>;
  readonly closedArrays: ReadonlySet<string>;
}

const compiled = new WeakMap<WantedNames, Matchers>();

function matchersOf(wanted: WantedNames): Matchers {
  const known = compiled.get(wanted);
  if (known !== undefined) return known;
  const { "**": anywhere, "!**": notIn = [], ...own } = wanted;
  const closed = notIn.filter((name) => !name.endsWith("[]"));
  const closedArrays = notIn.filter((name) => name.endsWith("[]")).map((name) => name.slice(0, -2));
  const isWanted = new Set(Object.keys(own));
  const inside = Object.entries(own).filter(([, names]) => names.length > 0);
  const made: Matchers = {
    names: new NameMatcher(new Set([...isWanted, ...closed, ...closedArrays])),
    isWanted,
    inside: new Map(inside.map(([name, names]) => [name, new NameMatcher(names)])),
    everywhere: anywhere && new NameMatcher([...anywhere, ...closed, ...closedArrays]),
    closed: new Set(closed),
    closedArrays: new Set(closedArrays),
  };
  compiled.set(wanted, made);
  return made;
}

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

/** A member that was looked for inside values. */
export interface Found {
  /** As it was asked for. */
  readonly name: string;
  /** Of the value, without the white space around it. */
  readonly start: number;
  /** Behind the value. */
  readonly end: number;
}

/** What became of the reading of a body. */
export type JsonReading =
  | {
      readonly kind: "object";
      readonly body: Buffer;
      readonly object: JsonObject;
      /** What was looked for inside values, where something was. */
      readonly everywhere?: readonly Found[];
    }
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
function tableOf(test: (byte: number) => boolean): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => (test(byte) ? 1 : 0));
}

const literals = new Map([
  ...["true", "false", "null"].map((text) => [text.charCodeAt(0), Buffer.from(text)] as const),
]);

/** What the grammar takes next; `restOf…` of a string that a slice has cut. Numbers, as they are compared for every token. */
const nextValue = 0;
const nextValueOrEnd = 1;
const nextName = 2;
const nextNameOrEnd = 3;
const nextColon = 4;
const nextSeparator = 5;
const nextRestOfName = 6;
const nextRestOfString = 7;
const nextNothing = 8;

/** Index of a byte that cannot be read. */
const invalid = -1;

/** An object whose members are reported, while it is read. */
interface OpenObject {
  readonly names: NameMatcher;
  members: JsonMember[];
  isEmpty: boolean;
  /** The member whose value is being read, where it was asked for. */
  open: OpenMember | undefined;
  /** In the place of an object: an array, of whose objects members are reported. */
  readonly isArray: boolean;
  elements: JsonObject[];
}

interface OpenMember {
  readonly name: string;
  readonly isExact: boolean;
  start: number;
  object: JsonObject | undefined;
  elements: readonly JsonObject[];
}

/** A member inside a value whose own value is being read, which ends at this depth. */
interface OpenFound {
  readonly name: string;
  readonly depth: number;
  start: number;
}

const noMembers: JsonMember[] = [];
const noElements: JsonObject[] = [];

/** Reads one body in slices. */
export class RequestJsonReader {
  readonly #body: Buffer;
  readonly #matchers: Matchers;
  #at = 0;
  #next: number = nextValue;
  #depth = 0;
  /** The closing bracket of each open array and object. */
  readonly #closers = new Uint8Array(maxJsonDepth);
  /** Of the string that a slice has cut: behind its quote. */
  #stringStart = 0;
  /** The body's object, and one inside it whose members are reported. The last is watched while it is the innermost. */
  readonly #objects: OpenObject[] = [];
  #root: JsonObject | undefined;
  readonly #everywhere: Found[] = [];
  /** Members inside values that were looked for, of which the last is innermost. */
  readonly #found: OpenFound[] = [];
  /** Of the last of them. */
  #foundDepth = -1;
  /** The value that begins next is not looked into: whatever it is, or where it is an array. */
  #closes: "none" | "any" | "array" = "none";
  /** Nothing is looked for from this depth on. */
  #closedDepth = Infinity;
  readonly #repeats = new Map<string, number>();
  #repeated: string | undefined;

  constructor(body: Buffer, wanted: WantedNames) {
    this.#body = body;
    this.#matchers = matchersOf(wanted);
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
    if (this.#next !== nextNothing || this.#root === undefined) return notObject;
    const found = this.#matchers.everywhere === undefined ? undefined : { everywhere: this.#everywhere };
    return { kind: "object", body: this.#body, object: this.#root, ...found };
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
      if (isBlank[byte] === 1 && this.#next !== nextRestOfName && this.#next !== nextRestOfString) {
        at++;
        continue;
      }
      switch (this.#next) {
        case nextSeparator:
          if (byte === comma) {
            this.#next = this.#closers[this.#depth - 1] === closeBrace ? nextName : nextValue;
            at++;
          } else at = this.#close(byte, at);
          break;
        case nextValueOrEnd:
          at = byte === closeBracket ? this.#close(byte, at) : this.#readValue(byte, at, limit);
          break;
        case nextValue:
          if (this.#depth === 0 && byte !== openBrace) return invalid;
          at = this.#readValue(byte, at, limit);
          break;
        case nextNameOrEnd:
        case nextName:
          if (byte === quote) at = this.#readString(nextRestOfName, at + 1, at + 1, limit);
          else at = this.#next === nextNameOrEnd ? this.#close(byte, at) : invalid;
          break;
        case nextColon:
          this.#next = nextValue;
          at = byte === colon ? at + 1 : invalid;
          break;
        case nextRestOfName:
        case nextRestOfString:
          at = this.#readString(this.#next, this.#stringStart, at, limit);
          break;
        case nextNothing:
          return invalid;
      }
      if (at === invalid) return invalid;
    }
    return at;
  }

  #readValue(byte: number, at: number, limit: number): number {
    const watched = this.#watched();
    if (watched?.open !== undefined) watched.open.start = at;
    if (this.#foundDepth === this.#depth) this.#startFound(at);
    if (byte === quote) return this.#readString(nextRestOfString, at + 1, at + 1, limit);
    if (byte === openBrace || byte === openBracket) return this.#open(byte, at, watched);
    const end = isDigit[byte] === 1 || byte === minus ? skipNumber(this.#body, at) : skipLiteral(this.#body, at);
    if (end !== invalid) this.#endValue(end);
    return end;
  }

  #open(byte: number, at: number, watched: OpenObject | undefined): number {
    if (this.#depth === maxJsonDepth) return invalid;
    const isObject = byte === openBrace;
    this.#closers[this.#depth++] = isObject ? closeBrace : closeBracket;
    this.#next = isObject ? nextNameOrEnd : nextValueOrEnd;
    if (this.#closes === "any" || (this.#closes === "array" && !isObject)) {
      this.#closedDepth = Math.min(this.#closedDepth, this.#depth);
    }
    this.#closes = "none";
    const names = this.#namesIn(watched);
    if (names === undefined || (!isObject && watched?.isArray === true)) return at + 1;
    this.#objects.push({
      names,
      members: noMembers,
      isEmpty: true,
      open: undefined,
      isArray: !isObject,
      elements: noElements,
    });
    return at + 1;
  }

  /** What to report of the value that begins in `watched`, which is undefined for the body. */
  #namesIn(watched: OpenObject | undefined): NameMatcher | undefined {
    if (this.#depth === 1) return this.#matchers.names;
    if (watched === undefined) return undefined;
    if (watched.isArray) return watched.names;
    return this.#depth === 2 && watched.open !== undefined ? this.#matchers.inside.get(watched.open.name) : undefined;
  }

  #close(byte: number, at: number): number {
    if (byte !== this.#closers[this.#depth - 1]) return invalid;
    const watched = this.#watched();
    if (this.#depth === this.#closedDepth) this.#closedDepth = Infinity;
    this.#depth--;
    if (watched !== undefined) this.#closeWatched(watched, at);
    this.#endValue(at + 1);
    return at + 1;
  }

  #closeWatched(watched: OpenObject, at: number): void {
    this.#objects.pop();
    const parent = this.#objects.at(-1);
    if (parent?.isArray === true && watched.members.length === 0) return;
    const object = { members: watched.members, end: at, isEmpty: watched.isEmpty };
    if (parent === undefined) this.#root = object;
    else if (parent.isArray) {
      if (parent.elements === noElements) parent.elements = [];
      parent.elements.push(object);
    } else if (parent.open !== undefined) {
      if (watched.isArray) parent.open.elements = watched.elements;
      else parent.open.object = object;
    }
  }

  /** @param end behind the value. */
  #endValue(end: number): void {
    this.#next = this.#depth === 0 ? nextNothing : nextSeparator;
    this.#closes = "none";
    if (this.#foundDepth === this.#depth) this.#endFound(end);
    const watched = this.#watched();
    if (watched?.open === undefined) return;
    if (watched.members === noMembers) watched.members = [];
    watched.members.push({ ...watched.open, end });
    watched.open = undefined;
  }

  /** Reads on in a string that began at `start`, behind its quote. */
  #readString(what: number, start: number, from: number, limit: number): number {
    const end = skipString(this.#body, from, limit);
    if (end === invalid) return invalid;
    if (this.#body[end] !== quote) {
      this.#stringStart = start;
      this.#next = what;
      return end;
    }
    if (what === nextRestOfString) this.#endValue(end + 1);
    else if (!this.#endName(start, end)) return invalid;
    return end + 1;
  }

  /** @returns false where the name comes too often. */
  #endName(start: number, end: number): boolean {
    this.#next = nextColon;
    const watched = this.#watched();
    if (watched === undefined) return this.#depth >= this.#closedDepth || this.#findEverywhere(start, end);
    watched.isEmpty = false;
    const name = watched.names.find(this.#body, start, end);
    if (name === undefined) return true;
    if (this.#depth === 1) {
      this.#setClosed(name);
      if (!this.#matchers.isWanted.has(name)) return true;
    }
    const repeats = (this.#repeats.get(name) ?? 0) + 1;
    this.#repeats.set(name, repeats);
    if (repeats > maxRepeats) this.#repeated = name;
    const isExact = isExactly(this.#body, start, end, name);
    watched.open = { name, isExact, start: 0, object: undefined, elements: noElements };
    return repeats <= maxRepeats;
  }

  #findEverywhere(start: number, end: number): boolean {
    const { everywhere } = this.#matchers;
    const name = everywhere?.find(this.#body, start, end);
    if (name === undefined) return true;
    this.#setClosed(name);
    if (this.#matchers.closed.has(name) || this.#matchers.closedArrays.has(name)) return true;
    this.#foundDepth = this.#depth;
    this.#found.push({ name, depth: this.#depth, start: 0 });
    if (this.#everywhere.length + this.#found.length > maxEverywhere) this.#repeated = name;
    return this.#repeated === undefined;
  }

  #startFound(at: number): void {
    const found = this.#found.at(-1);
    if (found?.start === 0) found.start = at;
  }

  #endFound(end: number): void {
    const found = this.#found.pop();
    this.#foundDepth = this.#found.at(-1)?.depth ?? -1;
    if (found !== undefined) this.#everywhere.push({ name: found.name, start: found.start, end });
  }

  /** @param name of the member whose value follows. */
  #setClosed(name: string): void {
    if (this.#matchers.closed.has(name)) this.#closes = "any";
    else if (this.#matchers.closedArrays.has(name)) this.#closes = "array";
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
