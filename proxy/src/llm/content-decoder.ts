/**
 * Undoes the content coding of a response on the side, to read its usage; what the client gets stays as it is.
 *
 * The decoder runs beside the stream and never holds it back, so it may fall behind; the bytes that wait for it are
 * bounded, and what it decodes is not kept. A body that breaks off is decoded as far as it goes.
 */
import {
  type BrotliDecompress,
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
  type Gunzip,
  type Inflate,
  type InflateRaw,
  type ZstdDecompress,
} from "node:zlib";

/** The most compressed bytes that wait for the decoder; more of them and it gives up. */
export const maxWaitingBytes = 16 * 1024 * 1024;

type Decoder = Gunzip | Inflate | InflateRaw | BrotliDecompress | ZstdDecompress;

const zlibFlush = { finishFlush: constants.Z_SYNC_FLUSH };

/** By `content-encoding` (RFC 9110 §8.4.1, RFC 8878). Each sees the first chunk before it is made. */
const decoders = new Map<string, (firstChunk: Buffer) => Decoder>([
  ["gzip", () => createGunzip(zlibFlush)],
  ["x-gzip", () => createGunzip(zlibFlush)],
  // Some servers send the bare stream where the RFC wants it in a zlib wrapper, whose first byte ends in 8.
  ["deflate", (first) => ((first[0] ?? 0) % 16 === 8 ? createInflate(zlibFlush) : createInflateRaw(zlibFlush))],
  ["br", () => createBrotliDecompress({ finishFlush: constants.BROTLI_OPERATION_FLUSH })],
  ["zstd", () => createZstdDecompress({ finishFlush: constants.ZSTD_e_flush })],
]);

/** Whether a `content-encoding` leaves the bytes as they are. */
export function isIdentity(encoding: string): boolean {
  return encoding === "" || encoding.toLowerCase() === "identity";
}

export class ContentDecoder {
  readonly #create: ((firstChunk: Buffer) => Decoder) | undefined;
  readonly #onBytes: (bytes: Buffer) => void;
  #stream: Decoder | undefined;
  #failed: boolean;

  /**
   * @param encoding the value of `content-encoding`: `gzip`, `x-gzip`, `deflate` (wrapped or bare), `br` or `zstd`; any
   *   other, and a list of several, fails
   * @param onBytes gets the decoded bytes in order, between a push and the end
   */
  constructor(encoding: string, onBytes: (bytes: Buffer) => void) {
    this.#create = decoders.get(encoding.trim().toLowerCase());
    this.#failed = this.#create === undefined;
    this.#onBytes = onBytes;
  }

  /** Reads on. Refers to `chunk` until it is decoded, so its bytes must not change. */
  push(chunk: Buffer): void {
    if (this.#failed || chunk.length === 0) return;
    this.#stream ??= this.#open(chunk);
    if (this.#stream === undefined) return;
    this.#stream.write(chunk);
    if (this.#stream.writableLength > maxWaitingBytes) this.#fail();
  }

  /** Calls `done` once when all has been decoded; at once when there is nothing to wait for. Never throws. */
  end(done: (failed: boolean) => void): void {
    if (this.#failed || this.#stream === undefined) {
      done(this.#failed);
      return;
    }
    this.#stream.once("close", () => done(this.#failed));
    this.#stream.end();
  }

  #open(firstChunk: Buffer): Decoder | undefined {
    const stream = this.#create?.(firstChunk);
    stream?.on("data", this.#onBytes);
    stream?.on("error", () => this.#fail());
    return stream;
  }

  #fail(): void {
    this.#failed = true;
    this.#stream?.destroy();
  }
}
