/**
 * Decodes the body of an HTTP/1 message: with a length, in chunks (RFC 9112 §7.1), or until the connection closes.
 * Decoders process bytes as they are received, and return the position at which the body ends.
 */
import { tokenCharacters, valueCharacters } from "./characters.ts";
import { parseFieldLines, type SectionLimits } from "./field-section.ts";
import { MessageError } from "./message-error.ts";

/** Receives a body. */
export interface BodySink {
  /**
   * Called at most once for each `decode`.
   *
   * @param bytes a part of the body; never empty. They are a view of the received bytes.
   */
  onData(bytes: Buffer): void;
  /** Called once, after the last part. @param trailers names and values alternate; empty if there are none. */
  onEnd(trailers: readonly string[]): void;
}

/** Decodes one body. */
export interface BodyDecoder {
  /**
   * Decodes received bytes. It may overwrite those of the body.
   *
   * @returns the position after the end of the body in `bytes`; -1 if the body continues after them.
   * @throws `MessageError` for malformed chunks or trailers. The decoder must not be used again.
   */
  decode(bytes: Buffer, start: number, sink: BodySink): number;
}

/** Decodes a body with a length of at least 1. */
export class LengthDecoder implements BodyDecoder {
  #remaining: number;

  constructor(length: number) {
    this.#remaining = length;
  }

  /** Bytes of the body that are still to be received. */
  get remaining(): number {
    return this.#remaining;
  }

  decode(bytes: Buffer, start: number, sink: BodySink): number {
    const end = Math.min(bytes.length, start + this.#remaining);
    if (end > start) {
      this.#remaining -= end - start;
      sink.onData(start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end));
    }
    if (this.#remaining > 0) return -1;
    sink.onEnd([]);
    return end;
  }
}

/** Bounds of a body in chunks. */
export interface ChunkLimits extends SectionLimits {
  /** Maximum length of the trailer section in bytes. */
  readonly trailerBytes: number;
}

/** Maximum length of the extensions of a chunk in bytes. They have no meaning for the proxy and are dropped. */
const maxExtensionBytes = 256;
/** Maximum number of hexadecimal digits of a chunk size. It is thus below 2^52. */
const maxSizeDigits = 13;

/**
 * The part that is expected next: a chunk size (`size`), its extensions (`extension`), the LF of its line (`sizeLf`),
 * bytes of the chunk (`data`), the CR and LF after them (`dataCr`, `dataLf`), or the trailer section after the last
 * chunk (`trailers`).
 */
type ChunkState = "size" | "extension" | "sizeLf" | "data" | "dataCr" | "dataLf" | "trailers" | "done";

const cr = 0x0d;
const lf = 0x0a;
const semicolon = 0x3b;

/** Decodes a body in chunks. */
export class ChunkedDecoder implements BodyDecoder {
  readonly #limits: ChunkLimits;
  #state: ChunkState = "size";
  #size = 0;
  #digits = 0;
  #extensionBytes = 0;
  /** The part of an extension that may follow; see `ExtensionState`. */
  #extension: ExtensionState = "name";
  /** The part of the trailer section that has been received, with its CRLFs. */
  #trailers = "";
  #fields: readonly string[] = [];
  /** The start and the end of the body in the bytes that are being decoded. Its chunks are moved together. */
  #dataStart = 0;
  #dataEnd = 0;

  constructor(limits: ChunkLimits) {
    this.#limits = limits;
  }

  /** Bytes of an incomplete trailer section. */
  get heldBytes(): number {
    return this.#trailers.length;
  }

  /** Whether the last chunk has been received, and the trailer section has not ended. */
  get isInTrailers(): boolean {
    return this.#state === "trailers";
  }

  decode(bytes: Buffer, start: number, sink: BodySink): number {
    this.#dataStart = this.#dataEnd = 0;
    const end = this.#decode(bytes, start);
    if (this.#dataEnd > this.#dataStart) sink.onData(bytes.subarray(this.#dataStart, this.#dataEnd));
    if (end !== -1) sink.onEnd(this.#fields);
    return end;
  }

  #decode(bytes: Buffer, start: number): number {
    let at = start;
    while (at < bytes.length) {
      switch (this.#state) {
        case "size":
          at = this.#readSize(bytes, at);
          break;
        case "extension":
          at = this.#readExtension(bytes, at);
          break;
        case "sizeLf":
          expect(bytes, at++, lf);
          this.#state = this.#size === 0 ? "trailers" : "data";
          break;
        case "data": {
          const end = Math.min(bytes.length, at + this.#size);
          this.#size -= end - at;
          this.#addData(bytes, at, end);
          at = end;
          if (this.#size === 0) this.#state = "dataCr";
          break;
        }
        case "dataCr":
          expect(bytes, at++, cr);
          this.#state = "dataLf";
          break;
        case "dataLf":
          expect(bytes, at++, lf);
          this.#beginChunk();
          break;
        case "trailers":
          return this.#readTrailers(bytes, at);
        case "done":
          throw new Error("the body has ended");
      }
    }
    return -1;
  }

  /**
   * Appends a chunk to the previous ones, so that the sink gets them in one call. A client can send ten thousand small
   * chunks in one read.
   */
  #addData(bytes: Buffer, start: number, end: number): void {
    if (this.#dataEnd === this.#dataStart) {
      this.#dataStart = start;
      this.#dataEnd = end;
    } else {
      bytes.copyWithin(this.#dataEnd, start, end);
      this.#dataEnd += end - start;
    }
  }

  #beginChunk(): void {
    this.#state = "size";
    this.#size = 0;
    this.#digits = 0;
    this.#extensionBytes = 0;
    this.#extension = "name";
  }

  #readSize(bytes: Buffer, start: number): number {
    for (let at = start; at < bytes.length; at++) {
      const code = bytes[at] ?? 0;
      const digit = digitOf(code);
      if (digit === -1) {
        if (this.#digits === 0) throw new MessageError(400, "malformed chunk size");
        if (code === cr) this.#state = "sizeLf";
        else if (code === semicolon) this.#state = "extension";
        else throw new MessageError(400, "malformed chunk size");
        return at + 1;
      }
      if (++this.#digits > maxSizeDigits) throw new MessageError(400, "chunk size too large");
      this.#size = this.#size * 16 + digit;
    }
    return bytes.length;
  }

  #readExtension(bytes: Buffer, start: number): number {
    for (let at = start; at < bytes.length; at++) {
      const code = bytes[at] ?? 0;
      if (code === cr && endsExtension(this.#extension)) {
        this.#state = "sizeLf";
        return at + 1;
      }
      if (++this.#extensionBytes > maxExtensionBytes) throw new MessageError(400, "chunk extensions too long");
      this.#extension = nextExtensionState(this.#extension, code);
    }
    return bytes.length;
  }

  #readTrailers(bytes: Buffer, start: number): number {
    const before = this.#trailers.length;
    // One byte more than the maximum shows that the section exceeds it.
    const most = this.#limits.trailerBytes + 2 - before;
    const text = this.#trailers + bytes.toString("latin1", start, Math.min(bytes.length, start + most + 1));
    const isEmpty = text.startsWith("\r\n");
    const end = isEmpty ? 0 : text.indexOf("\r\n\r\n", Math.max(0, before - 3));
    if (end === -1) {
      if (text.length > this.#limits.trailerBytes) throw new MessageError(431, "trailers too large");
      this.#trailers = text;
      return -1;
    }
    this.#fields = isEmpty ? [] : parseFieldLines(text.slice(0, end + 2), 0, this.#limits, undefined);
    this.#state = "done";
    this.#trailers = "";
    return start + (end + (isEmpty ? 2 : 4)) - before;
  }
}

function expect(bytes: Buffer, at: number, code: number): void {
  if (bytes[at] !== code) throw new MessageError(400, "malformed chunk");
}

/** Returns the value of a hexadecimal digit; -1 for any other character. */
function digitOf(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const lower = code | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

/**
 * The position within extensions: `;name`, `;name=token` or `;name="quoted"`, any number of them, without white space
 * (RFC 9112 §7.1.1).
 */
type ExtensionState = "name" | "inName" | "value" | "inToken" | "quoted" | "escaped" | "closed";

function endsExtension(state: ExtensionState): boolean {
  return state === "inName" || state === "inToken" || state === "closed";
}

function nextExtensionState(state: ExtensionState, code: number): ExtensionState {
  const isToken = tokenCharacters[code] === 1;
  switch (state) {
    case "name":
      if (isToken) return "inName";
      break;
    case "inName":
      if (isToken) return "inName";
      if (code === 0x3d) return "value";
      if (code === semicolon) return "name";
      break;
    case "value":
      if (isToken) return "inToken";
      if (code === 0x22) return "quoted";
      break;
    case "inToken":
      if (isToken) return "inToken";
      if (code === semicolon) return "name";
      break;
    case "quoted":
      if (code === 0x22) return "closed";
      if (code === 0x5c) return "escaped";
      if (valueCharacters[code] === 1) return "quoted";
      break;
    case "escaped":
      if (valueCharacters[code] === 1) return "quoted";
      break;
    case "closed":
      if (code === semicolon) return "name";
  }
  throw new MessageError(400, "malformed chunk extension");
}

/** Decodes a response body that ends with its connection (RFC 9112 §6.3). It does not call `onEnd`; its owner does. */
export class CloseDecoder implements BodyDecoder {
  decode(bytes: Buffer, start: number, sink: BodySink): number {
    if (start < bytes.length) sink.onData(start === 0 ? bytes : bytes.subarray(start));
    return -1;
  }
}
