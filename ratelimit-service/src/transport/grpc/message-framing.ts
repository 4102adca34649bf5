/**
 * Messages inside an HTTP/2 body (gRPC over HTTP/2, "Length-Prefixed-Message"):
 *
 *     | compressed (8) | length (32, big endian) | message … |
 */
import { gunzipSync, inflateSync } from "node:zlib";
import type { MessageEncoding } from "./call-head.ts";
import { GrpcError, StatusCode } from "./status.ts";

export const prefixBytes = 5;

/** A message with its prefix, uncompressed. */
export function frameMessage(message: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafe(prefixBytes + message.length);
  framed[0] = 0;
  framed.writeUInt32BE(message.length, 1);
  framed.set(message, prefixBytes);
  return framed;
}

/** Memory that incomplete messages take, over all connections of a server. */
export class PartialBytes {
  readonly #max: number;
  #held = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** What is taken now. */
  get held(): number {
    return this.#held;
  }

  /** Takes so much more, if there is room for it. */
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

/** What a buffer of so many bytes takes: the Buffer, its ArrayBuffer and the backing store cost some hundred bytes. */
export function memoryOf(bufferBytes: number): number {
  return bufferBytes + 256;
}

/** What a reader may hold. */
export interface MessageBounds {
  /** Length of one message, before and after decompression. */
  readonly maxMessageBytes: number;
  readonly partialBytes: PartialBytes;
}

/** The first buffer of an incomplete message; most of them fit, and it is the most that one byte can make us take. */
const initialBytes = 512;

const nothing = Buffer.alloc(0);

/**
 * Cuts a body into messages, wherever the chunks break. The bytes of an incomplete message are copied to one buffer that
 * doubles, so they take at most twice their number and some hundred bytes, in however small pieces they come; that is what
 * `partialBytes` counts. `release` must be called when the body is done with.
 */
export class MessageReader {
  readonly #bounds: MessageBounds;
  /** Bytes of the message that is not complete, prefix included, are `#buffer[0, #length)`. */
  #buffer: Buffer = nothing;
  #length = 0;
  #needed = prefixBytes;

  constructor(bounds: MessageBounds) {
    this.#bounds = bounds;
  }

  /** Whether a message is begun and not complete. */
  get isWithinMessage(): boolean {
    return this.#length > 0;
  }

  /**
   * Passes each complete message on, still compressed if it came so; its bytes are valid during the call only. Throws
   * `GrpcError` for a message that is too large or has a wrong prefix.
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

  /** Drops what is held. */
  release(): void {
    if (this.#buffer.length > 0) {
      this.#bounds.partialBytes.give(memoryOf(this.#buffer.length));
    }
    this.#buffer = nothing;
    this.#length = 0;
    this.#needed = prefixBytes;
  }

  /** Copies bytes of the chunk from `start` on, up to the end of what is needed, and returns how many. */
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
    // Not from the pool of Node, of which a small buffer keeps 8 KiB.
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

/** The message that was compressed; throws `GrpcError` when it is longer than `maxMessageBytes` or is no such message. */
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

export function noRoom(): GrpcError {
  return new GrpcError(StatusCode.ResourceExhausted, "too many incomplete messages are held already");
}

function tooLarge(length: number, max: number): GrpcError {
  return new GrpcError(StatusCode.ResourceExhausted, `message of ${length} bytes, at most ${max} are accepted`);
}
