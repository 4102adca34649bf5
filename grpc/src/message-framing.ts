/**
 * Messages in an HTTP/2 body (gRPC over HTTP/2, "Length-Prefixed-Message"):
 *
 * | compressed (8) | length (32, big endian) | message … |
 */
import { gunzipSync, inflateSync } from "node:zlib";
import { GrpcError, StatusCode } from "./status.ts";

/** Compression of messages with the compressed flag. */
export type MessageEncoding = "identity" | "gzip" | "deflate";

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
  #used = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Bytes in use. */
  get used(): number {
    return this.#used;
  }

  /** Reserves bytes. Returns false, and reserves none, beyond the maximum. */
  reserve(bytes: number): boolean {
    if (this.#used + bytes > this.#max) {
      return false;
    }
    this.#used += bytes;
    return true;
  }

  /** Frees reserved bytes. */
  free(bytes: number): void {
    this.#used -= bytes;
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
 * Size of the first buffer of an incomplete message. Most messages fit into it. It is the maximum memory that one byte
 * can cause.
 */
const initialBytes = 512;

const emptyBuffer = Buffer.alloc(0);

/**
 * Splits a body into messages, independent of the boundaries of its chunks. The bytes of an incomplete message are
 * copied to one buffer, which grows by doubling. The memory is therefore at most twice the size of the message plus
 * some hundred bytes, also for tiny chunks. `partialBytes` counts it. Call `release` after the last chunk.
 */
export class MessageReader {
  readonly #bounds: MessageBounds;
  /** Bytes of the incomplete message, with prefix, are `#buffer[0, #length)`. */
  #buffer: Buffer = emptyBuffer;
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
    let position = 0;
    while (this.#length > 0 && position < chunk.length) {
      position += this.#append(chunk, position);
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
    while (chunk.length - position >= prefixBytes) {
      const needed = prefixBytes + this.#lengthOf(chunk.subarray(position));
      if (chunk.length - position < needed) {
        this.#needed = needed;
        break;
      }
      const framed = chunk.subarray(position, position + needed);
      position += needed;
      onMessage(framed.subarray(prefixBytes), framed[0] !== 0);
    }
    if (position < chunk.length) {
      this.#append(chunk, position);
    }
  }

  /** Frees the buffer. */
  release(): void {
    if (this.#buffer.length > 0) {
      this.#bounds.partialBytes.free(memoryOf(this.#buffer.length));
    }
    this.#buffer = emptyBuffer;
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
    const capacity = this.#buffer.length;
    if (bytes <= capacity) {
      return;
    }
    const size = Math.max(initialBytes, bytes, Math.min(2 * capacity, this.#needed));
    const addedBytes = capacity === 0 ? memoryOf(size) : size - capacity;
    if (!this.#bounds.partialBytes.reserve(addedBytes)) throw tooManyPartialBytes();
    // Not from Node's pool: a small buffer would keep 8 KiB of it in memory.
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
export function tooManyPartialBytes(): GrpcError {
  return new GrpcError(StatusCode.ResourceExhausted, "too many bytes of incomplete messages are buffered");
}

function tooLarge(length: number, max: number): GrpcError {
  return new GrpcError(StatusCode.ResourceExhausted, `message of ${length} bytes, at most ${max} are accepted`);
}
