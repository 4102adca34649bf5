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

/** Bytes that clients have sent of messages not complete yet, over all connections of a server. */
export class PartialBytes {
  readonly #max: number;
  #held = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Whether there is room for so many more; they are taken then. */
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

/** What a reader may hold. */
export interface MessageBounds {
  /** Length of one message, before and after decompression. */
  readonly maxMessageBytes: number;
  readonly partialBytes: PartialBytes;
}

/** Cuts a body into messages, wherever the chunks break. `release` must be called when the body is done with. */
export class MessageReader {
  readonly #encoding: MessageEncoding;
  readonly #bounds: MessageBounds;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #needed = prefixBytes;

  constructor(encoding: MessageEncoding, bounds: MessageBounds) {
    this.#encoding = encoding;
    this.#bounds = bounds;
  }

  /** Whether a message is begun and not complete. */
  get isWithinMessage(): boolean {
    return this.#bytes > 0;
  }

  /**
   * Passes each complete message on; its bytes are valid during the call only. Throws `GrpcError` for a message that is
   * too large or broken.
   */
  read(chunk: Buffer, onMessage: (message: Buffer) => void): void {
    let rest = chunk;
    while (this.#bytes + rest.length >= this.#needed) {
      rest = this.#bytes === 0 ? rest : Buffer.concat([...this.#chunks, rest]);
      this.release();
      this.#needed = prefixBytes + this.#lengthOf(rest);
      if (rest.length < this.#needed) {
        break;
      }
      const message = rest.subarray(prefixBytes, this.#needed);
      const isCompressed = rest[0] !== 0;
      rest = rest.subarray(this.#needed);
      this.#needed = prefixBytes;
      onMessage(isCompressed ? this.#decompress(message) : message);
    }
    this.#keep(rest);
  }

  /** Drops what is held. */
  release(): void {
    this.#bounds.partialBytes.give(this.#bytes);
    this.#chunks = [];
    this.#bytes = 0;
  }

  #keep(chunk: Buffer): void {
    if (chunk.length === 0) {
      return;
    }
    if (!this.#bounds.partialBytes.take(chunk.length)) {
      throw new GrpcError(StatusCode.ResourceExhausted, "too many incomplete messages are held already");
    }
    // A copy: the chunk is a piece of a read buffer that would stay alive with it.
    this.#chunks.push(Buffer.from(chunk));
    this.#bytes += chunk.length;
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

  #decompress(message: Buffer): Buffer {
    const { maxMessageBytes } = this.#bounds;
    const decompress = this.#encoding === "gzip" ? gunzipSync : inflateSync;
    if (this.#encoding === "identity") {
      throw new GrpcError(StatusCode.Internal, "a message is flagged as compressed, but there is no grpc-encoding");
    }
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
      throw new GrpcError(StatusCode.Internal, `message is not ${this.#encoding}`, { cause });
    }
  }
}

function tooLarge(length: number, max: number): GrpcError {
  return new GrpcError(StatusCode.ResourceExhausted, `message of ${length} bytes, at most ${max} are accepted`);
}
