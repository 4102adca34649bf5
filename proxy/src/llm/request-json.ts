/**
 * Reads the JSON body of a request: checks that all JSON parsers read the same object from it, and finds the members
 * that the proxy reads or edits.
 *
 * Lenient parsers accept more than RFC 8259: comments, trailing commas, single quotes, other encodings. A body that
 * only some of them accept could have different meanings for the gateway and the provider. So only the grammar of RFC
 * 8259 is accepted, in UTF-8, with or without a byte order mark, with a nesting of at most `maxJsonDepth`.
 *
 * Names are compared like the most tolerant server does: Go's `encoding/json` ignores case, and parsers in C stop at a
 * NUL. The grammar permits repeated names, and servers differ in which one they use, so each is reported. More than
 * `maxRepeats` of one name are rejected.
 *
 * The body is read in one pass, in slices, since the largest body would block the event loop for too long. Only the
 * named members are allocated.
 */
import { isUtf8 } from "node:buffer";
import { hexDigits, isExactly, NameMatcher } from "./json-names.ts";

/** The maximum nesting. Parsers have limits of their own: Python about 1,000, .NET 64. */
export const maxJsonDepth = 512;

/** The maximum number of occurrences of one name that the proxy reads, in all its spellings. */
export const maxRepeats = 8;

/** The maximum length of a number, far beyond the precision of a double. */
const maxNumberLength = 1024;

/**
 * Names to report, in lower case, each with the names to report in its value: in an object, or in the objects of an
 * array. `*model*` matches all names that contain `model` and are not listed otherwise.
 *
 * Under `**`: names to report in any object inside a value, except inside the values of the names under `!**` at any
 * depth. `input[]` is `input` with an array as its value.
 */
export type MemberNames = Readonly<Record<string, readonly string[]>>;

/** The maximum number of nested members that are reported. */
const maxNestedMembers = 4096;

/** The compiled form of `MemberNames`. */
interface Matchers {
  readonly names: NameMatcher;
  readonly reported: ReadonlySet<string>;
  /** The names to report in the value of a member, by the name of that member. */
  readonly byParent: ReadonlyMap<string, NameMatcher>;
  /** The names to report in any value; undefined: none. */
  readonly nested: NameMatcher | undefined;
  /** Names of members whose values are not searched, and of members whose arrays are not searched. */
  readonly opaque: ReadonlySet<string>;
  readonly opaqueArrays: ReadonlySet<string>;
}

const compiled = new WeakMap<MemberNames, Matchers>();

function matchersOf(memberNames: MemberNames): Matchers {
  const cached = compiled.get(memberNames);
  if (cached !== undefined) return cached;
  const { "**": anywhere, "!**": excluded = [], ...listed } = memberNames;
  const opaque = excluded.filter((name) => !name.endsWith("[]"));
  const opaqueArrays = excluded.filter((name) => name.endsWith("[]")).map((name) => name.slice(0, -2));
  const reported = new Set(Object.keys(listed));
  const withInnerNames = Object.entries(listed).filter(([, names]) => names.length > 0);
  const matchers: Matchers = {
    names: new NameMatcher(new Set([...reported, ...opaque, ...opaqueArrays])),
    reported,
    byParent: new Map(withInnerNames.map(([name, names]) => [name, new NameMatcher(names)])),
    nested: anywhere && new NameMatcher([...anywhere, ...opaque, ...opaqueArrays]),
    opaque: new Set(opaque),
    opaqueArrays: new Set(opaqueArrays),
  };
  compiled.set(memberNames, matchers);
  return matchers;
}

/** An object of the body. Offsets are those of the body. */
export interface JsonObject {
  /** The named members in their order. */
  readonly members: readonly JsonMember[];
  /** The offset of its `}`. */
  readonly end: number;
  readonly isEmpty: boolean;
}

/** One of the named members. */
export interface JsonMember {
  /** The name as listed. */
  readonly name: string;
  /** Whether its spelling equals `name` after decoding escapes. */
  readonly isExact: boolean;
  /** The start of the value, without surrounding white space. */
  readonly start: number;
  /** The offset after the value. */
  readonly end: number;
  /** The value, if it is an object and names inside it are to be reported. */
  readonly object: JsonObject | undefined;
  /** The objects with reported members, if the value is an array and names inside it are to be reported. */
  readonly elements: readonly JsonObject[];
}

/** A member that was found inside a value. */
export interface NestedMember {
  /** The name as listed. */
  readonly name: string;
  /** The start of the value, without surrounding white space. */
  readonly start: number;
  /** The offset after the value. */
  readonly end: number;
}

/** The result of reading a body. */
export type JsonReading =
  | {
      readonly kind: "object";
      readonly body: Buffer;
      readonly object: JsonObject;
      /** The members found inside values, if such names are listed. */
      readonly nested?: readonly NestedMember[];
    }
  /** It is not one JSON object in UTF-8. */
  | { readonly kind: "notObject" }
  /** A name occurs more than `maxRepeats` times. */
  | { readonly kind: "repeated"; readonly name: string };

/** Reads the whole `body` synchronously. Never throws. */
export function readJson(body: Buffer, memberNames: MemberNames): JsonReading {
  return new RequestJsonReader(body, memberNames).read(Infinity) ?? { kind: "notObject" };
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

/**
 * Classes of bytes: in strings, in numbers and after a backslash. After the last byte the index is `undefined`, giving
 * 0.
 */
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

/**
 * The next expected token; `restOf…`: of a string that a slice has cut. Numbers, since they are compared for each
 * token.
 */
const nextValue = 0;
const nextValueOrEnd = 1;
const nextName = 2;
const nextNameOrEnd = 3;
const nextColon = 4;
const nextSeparator = 5;
const nextRestOfName = 6;
const nextRestOfString = 7;
const nextNothing = 8;

/** Returned instead of an index for invalid JSON. */
const invalid = -1;

/** An object being read whose members are reported. */
interface OpenObject {
  readonly names: NameMatcher;
  members: JsonMember[];
  isEmpty: boolean;
  /** The named member whose value is being read. */
  open: OpenMember | undefined;
  /** Whether this is an array whose objects have members to report. */
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

/** A nested member whose value is being read. The value ends at `depth`. */
interface OpenNestedMember {
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
  /** The start of the string that a slice has cut, after its quote. */
  #stringStart = 0;
  /** The open objects whose members are reported. The last one is watched while it is the innermost. */
  readonly #objects: OpenObject[] = [];
  #root: JsonObject | undefined;
  readonly #nestedMembers: NestedMember[] = [];
  /** The open nested members, of which the last is the innermost. */
  readonly #openNested: OpenNestedMember[] = [];
  /** The depth of the last of them. */
  #nestedDepth = -1;
  /** Whether the next value is not searched: of any type, or if it is an array. */
  #nextIsOpaque: "none" | "any" | "array" = "none";
  /** Values from this depth on are not searched. */
  #opaqueDepth = Infinity;
  readonly #repeats = new Map<string, number>();
  #repeated: string | undefined;

  constructor(body: Buffer, memberNames: MemberNames) {
    this.#body = body;
    this.#matchers = matchersOf(memberNames);
  }

  /**
   * Reads the next `bytes` or a few more. Never throws.
   *
   * @returns undefined if more bytes are left; else the result, after which `read` must not be called again.
   */
  read(bytes: number): JsonReading | undefined {
    if (this.#at === 0 && !this.#begin()) return notObject;
    const limit = Math.min(this.#body.length, this.#at + bytes);
    this.#at = this.#readUpTo(limit);
    if (this.#repeated !== undefined) return { kind: "repeated", name: this.#repeated };
    if (this.#at === invalid) return notObject;
    if (this.#at < this.#body.length) return undefined;
    if (this.#next !== nextNothing || this.#root === undefined) return notObject;
    const found = this.#matchers.nested === undefined ? undefined : { nested: this.#nestedMembers };
    return { kind: "object", body: this.#body, object: this.#root, ...found };
  }

  #begin(): boolean {
    const body = this.#body;
    const hasMark = body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf;
    this.#at = hasMark ? 3 : 0;
    return isUtf8(body);
  }

  /** @returns the next index, at `limit` or slightly after it, or `invalid`. */
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
          } else {
            at = this.#close(byte, at);
          }
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
    if (this.#nestedDepth === this.#depth) this.#startNested(at);
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
    if (this.#nextIsOpaque === "any" || (this.#nextIsOpaque === "array" && !isObject)) {
      this.#opaqueDepth = Math.min(this.#opaqueDepth, this.#depth);
    }
    this.#nextIsOpaque = "none";
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

  /** The names to report in the value that begins in `watched`, which is undefined for the body. */
  #namesIn(watched: OpenObject | undefined): NameMatcher | undefined {
    if (this.#depth === 1) return this.#matchers.names;
    if (watched === undefined) return undefined;
    if (watched.isArray) return watched.names;
    return this.#depth === 2 && watched.open !== undefined ? this.#matchers.byParent.get(watched.open.name) : undefined;
  }

  #close(byte: number, at: number): number {
    if (byte !== this.#closers[this.#depth - 1]) return invalid;
    const watched = this.#watched();
    if (this.#depth === this.#opaqueDepth) this.#opaqueDepth = Infinity;
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
    if (parent === undefined) {
      this.#root = object;
    } else if (parent.isArray) {
      if (parent.elements === noElements) parent.elements = [];
      parent.elements.push(object);
    } else if (parent.open !== undefined) {
      if (watched.isArray) parent.open.elements = watched.elements;
      else parent.open.object = object;
    }
  }

  /** @param end the index after the value. */
  #endValue(end: number): void {
    this.#next = this.#depth === 0 ? nextNothing : nextSeparator;
    this.#nextIsOpaque = "none";
    if (this.#nestedDepth === this.#depth) this.#endNested(end);
    const watched = this.#watched();
    if (watched?.open === undefined) return;
    if (watched.members === noMembers) watched.members = [];
    watched.members.push({ ...watched.open, end });
    watched.open = undefined;
  }

  /** Continues a string that began at `start`, after its quote. */
  #readString(token: number, start: number, from: number, limit: number): number {
    const end = skipString(this.#body, from, limit);
    if (end === invalid) return invalid;
    if (this.#body[end] !== quote) {
      this.#stringStart = start;
      this.#next = token;
      return end;
    }
    if (token === nextRestOfString) this.#endValue(end + 1);
    else if (!this.#endName(start, end)) return invalid;
    return end + 1;
  }

  /** @returns false if the name occurs too often. */
  #endName(start: number, end: number): boolean {
    this.#next = nextColon;
    const watched = this.#watched();
    if (watched === undefined) return this.#depth >= this.#opaqueDepth || this.#findNested(start, end);
    watched.isEmpty = false;
    const name = watched.names.find(this.#body, start, end);
    if (name === undefined) return true;
    if (this.#depth === 1) {
      this.#markOpaque(name);
      if (!this.#matchers.reported.has(name)) return true;
    }
    const repeats = (this.#repeats.get(name) ?? 0) + 1;
    this.#repeats.set(name, repeats);
    if (repeats > maxRepeats) this.#repeated = name;
    const isExact = isExactly(this.#body, start, end, name);
    watched.open = { name, isExact, start: 0, object: undefined, elements: noElements };
    return repeats <= maxRepeats;
  }

  #findNested(start: number, end: number): boolean {
    const { nested } = this.#matchers;
    const name = nested?.find(this.#body, start, end);
    if (name === undefined) return true;
    this.#markOpaque(name);
    if (this.#matchers.opaque.has(name) || this.#matchers.opaqueArrays.has(name)) return true;
    this.#nestedDepth = this.#depth;
    this.#openNested.push({ name, depth: this.#depth, start: 0 });
    if (this.#nestedMembers.length + this.#openNested.length > maxNestedMembers) this.#repeated = name;
    return this.#repeated === undefined;
  }

  #startNested(at: number): void {
    const found = this.#openNested.at(-1);
    if (found?.start === 0) found.start = at;
  }

  #endNested(end: number): void {
    const found = this.#openNested.pop();
    this.#nestedDepth = this.#openNested.at(-1)?.depth ?? -1;
    if (found !== undefined) this.#nestedMembers.push({ name: found.name, start: found.start, end });
  }

  /** @param name the name of the member whose value follows. */
  #markOpaque(name: string): void {
    if (this.#matchers.opaque.has(name)) this.#nextIsOpaque = "any";
    else if (this.#matchers.opaqueArrays.has(name)) this.#nextIsOpaque = "array";
  }

  /** The innermost open object if its members are reported. */
  #watched(): OpenObject | undefined {
    return this.#objects.length === this.#depth ? this.#objects[this.#depth - 1] : undefined;
  }
}

const notObject: JsonReading = { kind: "notObject" };

/** @returns the index of the closing quote, of another byte if `limit` is reached first, or `invalid`. */
function skipString(text: Buffer, from: number, limit: number): number {
  let at = from;
  while (at < limit) {
    const byte = text[at] ?? 0;
    if (isPlain[byte] === 1) {
      at++;
    } else if (byte === quote) {
      return at;
    } else if (byte !== backslash) {
      return invalid;
    } else {
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
  if (text[at] === zero) {
    at++;
  } else {
    const digits = at;
    at = skipDigits(text, at);
    if (at === digits) return invalid;
  }
  if (text[at] === dot) {
    const digits = at + 1;
    at = skipDigits(text, digits);
    if (at === digits) return invalid;
  }
  // `E` or `e`.
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
