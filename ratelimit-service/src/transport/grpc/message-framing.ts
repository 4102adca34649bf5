/**
 * Messages in an HTTP/2 body (gRPC over HTTP/2, "Length-Prefixed-Message"):
 *
 * | compressed (8) | length (32, big endian) | message … |
 */
import { gunzipSync, inflateSync } from "node:zlib";
import type { MessageEncoding } from "./call-head.ts";
import { GrpcError, StatusCode } from "./status.ts";

/** Bytes before each message: one for compression, four for the length. */
export const prefixBytes = 5;

/** Encodes a message with its prefix, uncompressed. */
export function frameMessage(message: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafe(prefixBytes + message.length);
  framed[0] = 0;
  framed.writeUInt32BE(message.length, 1);
  framed.set(message, prefixBytes);
  return framed;
}

/** Memory of incomplete messages, over all connections of a server. */
export class PartialBytes {
  readonly #max: number;
  #held = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Bytes in use. */
  get held(): number {
    return this.#held;
  }

  /** Reserves bytes, if there is room for them. */
  take(bytes: number): boolean {
    if (this.#held + bytes > this.#max) {
      return false;
    }
    this.#held += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#held -= bytes;
  }
}

/** Returns the memory of a buffer: the Buffer, its ArrayBuffer and the backing store cost some hundred bytes. */
export function memoryOf(bufferBytes: number): number {
  return bufferBytes + 256;
}

/** The bounds of a reader. */
export interface MessageBounds {
  /** Maximum size of one message, before and after decompression. */
  readonly maxMessageBytes: number;
  readonly partialBytes: PartialBytes;
}

/**
 * Size of the first buffer of an incomplete message. Most messages fit, and it is the most memory that one byte can
 * cost.
 */
const initialBytes = 512;

const nothing = Buffer.alloc(0);

/**
 * Splits a body into messages, wherever the chunks end. The bytes of an incomplete message are copied to one buffer
 * that doubles. So they take at most twice their number and some hundred bytes, however small the chunks are;
 * `partialBytes` counts this. Call `release` after the last chunk.
 */
export class MessageReader {
  readonly #bounds: MessageBounds;
  /** Bytes of the incomplete message, with prefix, are `#buffer[0, #length)`. */
  #buffer: Buffer = nothing;
  #length = 0;
  #needed = prefixBytes;

  constructor(bounds: MessageBounds) {
    this.#bounds = bounds;
  }

  /** Whether a message is incomplete. */
  get isWithinMessage(): boolean {
    return this.#length > 0;
  }

  /**
   * Passes each complete message on, still compressed if it was; its bytes are valid during the call only. Throws
   * `GrpcError` for a message that is too large or has an invalid prefix.
   */
  read(chunk: Buffer, onMessage: (message: Buffer, isCompressed: boolean) => void): void {
    let at = 0;
    while (this.#length > 0 && at < chunk.length) {
      at += this.#append(chunk, at);
      if (this.#length < this.#needed) {
        return;
      }
      if (this.#needed === prefixBytes) {
        this.#needed = prefixBytes + this.#lengthOf(this.#buffer);
      }
      if (this.#length === this.#needed) {
        const framed = this.#buffer.subarray(0, this.#length);
        this.release();
        onMessage(framed.subarray(prefixBytes), framed[0] !== 0);
      }
    }
    while (chunk.length - at >= prefixBytes) {
      const needed = prefixBytes + this.#lengthOf(chunk.subarray(at));
      if (chunk.length - at < needed) {
        this.#needed = needed;
        break;
      }
      const framed = chunk.subarray(at, at + needed);
      at += needed;
      onMessage(framed.subarray(prefixBytes), framed[0] !== 0);
    }
    if (at < chunk.length) {
      this.#append(chunk, at);
    }
  }

  /** Frees the buffer. */
  release(): void {
    if (this.#buffer.length > 0) {
      this.#bounds.partialBytes.give(memoryOf(this.#buffer.length));
    }
    this.#buffer = nothing;
    this.#length = 0;
    this.#needed = prefixBytes;
  }

  /** Copies bytes of the chunk from `start` on, up to the end of the prefix or message, and returns how many. */
  #append(chunk: Buffer, start: number): number {
    const count = Math.min(chunk.length - start, this.#needed - this.#length);
    this.#reserve(this.#length + count);
    chunk.copy(this.#buffer, this.#length, start, start + count);
    this.#length += count;
    return count;
  }

  #reserve(bytes: number): void {
    const present = this.#buffer.length;
    if (bytes <= present) {
      return;
    }
    const size = Math.max(initialBytes, bytes, Math.min(2 * present, this.#needed));
    const more = present === 0 ? memoryOf(size) : size - present;
    if (!this.#bounds.partialBytes.take(more)) throw noRoom();
    // Not from Node's pool, of which a small buffer keeps 8 KiB alive.
    const grown = Buffer.allocUnsafeSlow(size);
    this.#buffer.copy(grown, 0, 0, this.#length);
    this.#buffer = grown;
  }

  #lengthOf(framed: Buffer): number {
    const length = framed.readUInt32BE(1);
    if ((framed[0] ?? 0) > 1) {
      throw new GrpcError(StatusCode.Internal, `compressed flag ${framed[0] ?? 0}, it is 0 or 1`);
    }
    if (length > this.#bounds.maxMessageBytes) {
      throw tooLarge(length, this.#bounds.maxMessageBytes);
    }
    return length;
  }
}

/** Decompresses a message. Throws `GrpcError` when it is longer than `maxMessageBytes` or invalid. */
export function decompressMessage(message: Buffer, encoding: MessageEncoding, maxMessageBytes: number): Buffer {
  if (encoding === "identity") {
    throw new GrpcError(StatusCode.Internal, "a message is flagged as compressed, but there is no grpc-encoding");
  }
  const decompress = encoding === "gzip" ? gunzipSync : inflateSync;
  try {
    return decompress(message, { maxOutputLength: maxMessageBytes });
  } catch (cause) {
    if (cause instanceof RangeError) {
      throw new GrpcError(
        StatusCode.ResourceExhausted,
        `message is larger than ${maxMessageBytes} bytes when decompressed`,
        { cause },
      );
    }
    throw new GrpcError(StatusCode.Internal, `message is not ${encoding}`, { cause });
  }
}

/** Returns the error RESOURCE_EXHAUSTED, for a message that exceeds the bound for incomplete messages. */
export function noRoom(): GrpcError {
  return new GrpcError(StatusCode.ResourceExhausted, "too many incomplete messages are held already");
}

function tooLarge(length: number, max: number): GrpcError {
  return new GrpcError(StatusCode.ResourceExhausted, `message of ${length} bytes, at most ${max} are accepted`);
}
