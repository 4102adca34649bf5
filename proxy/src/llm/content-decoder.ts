/**
 * Decodes the content coding of a response to read its usage. The response to the client stays unchanged.
 *
 * The decoder runs beside the stream and never delays it, so it may fall behind. The bytes that wait for it are
 * bounded, and its output is not kept. An incomplete body is decoded as far as possible.
 *
 * A few kilobytes can make a decoder fill a window of many megabytes, so windows are bounded, and so is the memory of
 * all decoders of a worker. A body beyond these bounds fails, like one that is not in its coding.
 *
 * When a decoder fails, it discards its output since the last event. For a short body this would be everything, so the
 * bytes of short bodies are kept, and the longest valid beginning is decoded again.
 */
import {
  type BrotliDecompress,
  brotliDecompressSync,
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
  type Gunzip,
  gunzipSync,
  type Inflate,
  type InflateRaw,
  inflateRawSync,
  inflateSync,
  type ZstdDecompress,
  zstdDecompressSync,
} from "node:zlib";

/** The maximum number of compressed bytes that wait for the decoder. Beyond it, decoding fails. */
export const maxPendingBytes = 16 * 1024 * 1024;

type Decoder = Gunzip | Inflate | InflateRaw | BrotliDecompress | ZstdDecompress;

const zlibFlush = { finishFlush: constants.Z_SYNC_FLUSH };
const brotliOptions = {
  finishFlush: constants.BROTLI_OPERATION_FLUSH,
  params: { [constants.BROTLI_DECODER_PARAM_LARGE_WINDOW]: 0 },
};

/** The maximum length of a body that is decoded again after a failure. */
const maxRecoverableBytes = 16 * 1024;

/** The maximum output of this second decoding. */
const maxRecoveredOutput = 64 * 1024;

/** The maximum memory of all decoders of a worker together. */
const maxDecoderBytes = 256 * 1024 * 1024;

/** A content coding. */
interface Coding {
  /** Creates a decoder. The first chunk is only inspected. */
  readonly open: (firstChunk: Buffer) => Decoder;
  /** Decodes the beginning of a body synchronously; throws if it is invalid. */
  readonly decode: (beginning: Buffer, bounds: { readonly maxOutputLength: number }) => Buffer;
  /** The maximum size of the window: the output that a decoder keeps to refer back to. */
  readonly windowBytes: number;
  /** The memory of a decoder besides the window: its tables, a block, and a chunk of output. */
  readonly fixedBytes: number;
}

const kib = 1024;
const inflating = { windowBytes: 32 * kib, fixedBytes: 32 * kib };
const gzip: Coding = {
  ...inflating,
  open: () => createGunzip(zlibFlush),
  decode: (bytes, bounds) => gunzipSync(bytes, { ...zlibFlush, ...bounds }),
};

/** Whether deflate data has a zlib header (RFC 1950 §2.2). Some servers omit it, although RFC 9110 requires it. */
function isWrapped(first: Buffer): boolean {
  return (first[0] ?? 0) % 16 === 8;
}

/** A window of 8 MiB, which all decoders of the content coding accept (RFC 9659 §3). */
const zstdWindowLog = 23;

const zstdOptions = {
  finishFlush: constants.ZSTD_e_flush,
  params: { [constants.ZSTD_d_windowLogMax]: zstdWindowLog },
};

/** The codings by their `content-encoding` value (RFC 9110 §8.4.1, RFC 8878). */
const codings = new Map<string, Coding>([
  ["gzip", gzip],
  ["x-gzip", gzip],
  [
    "deflate",
    {
      ...inflating,
      open: (first) => (isWrapped(first) ? createInflate(zlibFlush) : createInflateRaw(zlibFlush)),
      decode: (bytes, bounds) => (isWrapped(bytes) ? inflateSync : inflateRawSync)(bytes, { ...zlibFlush, ...bounds }),
    },
  ],
  [
    "br",
    {
      // RFC 7932 §9.1. The tables of the prefix codes can be larger than the window of a short body.
      windowBytes: 16 * kib * kib,
      fixedBytes: kib * kib,
      open: () => createBrotliDecompress(brotliOptions),
      decode: (bytes, bounds) => brotliDecompressSync(bytes, { ...brotliOptions, ...bounds }),
    },
  ],
  [
    "zstd",
    {
      windowBytes: 2 ** zstdWindowLog,
      fixedBytes: 256 * kib,
      open: () => createZstdDecompress(zstdOptions),
      decode: (bytes, bounds) => zstdDecompressSync(bytes, { ...zstdOptions, ...bounds }),
    },
  ],
]);

/** The memory of several decoders, in bytes. A client may use at most as much as remains free for others. */
export class DecoderMemory {
  readonly #max: number;
  readonly #usedBy = new Map<string, number>();
  #used = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get used(): number {
    return this.#used;
  }

  /**
   * Changes the memory of one decoder. Returns false, without a change, if the sum or the share of the client would
   * exceed its maximum.
   *
   * @param client The client whose response is decoded. Absent: the decoder has no share of its own.
   */
  resize(current: number, needed: number, client?: string): boolean {
    const sum = this.#used - current + needed;
    const ofClient = client === undefined ? 0 : (this.#usedBy.get(client) ?? 0) - current + needed;
    if (needed > current && (sum > this.#max || ofClient > this.#max - sum)) return false;
    this.#used = sum;
    if (client !== undefined && ofClient > 0) this.#usedBy.set(client, ofClient);
    else if (client !== undefined) this.#usedBy.delete(client);
    return true;
  }
}

/** The memory of the decoders of this worker. */
const workerMemory = new DecoderMemory(maxDecoderBytes);

/** Whether a `content-encoding` does not change the bytes. */
export function isIdentity(encoding: string): boolean {
  return encoding === "" || encoding.toLowerCase() === "identity";
}

/** The decoder of one response body. `end` reports whether it failed. */
export class ContentDecoder {
  readonly #coding: Coding | undefined;
  readonly #onBytes: (bytes: Buffer) => void;
  readonly #memory: DecoderMemory;
  readonly #client: string | undefined;
  #stream: Decoder | undefined;
  #failed: boolean;
  /** It failed because of invalid input, not because of a bound. */
  #isInvalid = false;
  #decodedBytes = 0;
  /** All input, while it is short. */
  #pushed: Buffer[] = [];
  #pushedBytes = 0;
  #recoveredBytes = 0;
  /** The bytes that are reserved in `#memory`. */
  #reservedBytes = 0;

  /**
   * @param encoding the value of `content-encoding`: `gzip`, `x-gzip`, `deflate` (with or without zlib header), `br` or
   *   `zstd`; other values and lists fail
   * @param onBytes receives the decoded bytes in order, between a push and the end
   * @param shared the memory that decoders share, and the client whose share of it this one uses; if it is full,
   *   decoding fails
   */
  constructor(
    encoding: string,
    onBytes: (bytes: Buffer) => void,
    { memory = workerMemory, client }: { readonly memory?: DecoderMemory; readonly client?: string | undefined } = {},
  ) {
    this.#coding = codings.get(encoding.trim().toLowerCase());
    this.#failed = this.#coding === undefined;
    this.#onBytes = onBytes;
    this.#memory = memory;
    this.#client = client;
  }

  /** The number of input bytes that have been decoded. */
  get readBytes(): number {
    return Math.max(this.#recoveredBytes, this.#stream?.bytesWritten ?? 0);
  }

  /** The number of output bytes. */
  get decodedBytes(): number {
    return this.#decodedBytes;
  }

  /** Decodes the next bytes. Refers to `chunk` until it is decoded, so its bytes must not change. */
  push(chunk: Buffer): void {
    if (this.#failed || chunk.length === 0 || this.#coding === undefined) return;
    if (!this.#canReserve(this.#coding, chunk.length)) {
      this.#fail();
      return;
    }
    this.#pushedBytes += chunk.length;
    if (this.#pushedBytes <= maxRecoverableBytes) this.#pushed.push(chunk);
    else this.#pushed = [];
    this.#stream ??= this.#open(this.#coding, chunk);
    this.#stream.write(chunk);
    if (this.#stream.writableLength > maxPendingBytes) this.#fail();
  }

  /** Calls `done` once when all input has been decoded, synchronously if there is nothing to wait for. Never throws. */
  end(done: (failed: boolean) => void): void {
    const stream = this.#stream;
    const finish = (): void => {
      if (this.#isInvalid && this.#decodedBytes < maxRecoveredOutput) this.#recover();
      done(this.#failed);
    };
    if (this.#failed || stream === undefined) finish();
    else stream.once("close", finish).end();
  }

  /** Decodes the longest valid beginning, found by binary search. */
  #recover(): void {
    const body = Buffer.concat(this.#pushed);
    let decoded: Buffer = Buffer.alloc(0);
    let invalidLength = body.length + 1;
    while (invalidLength - this.#recoveredBytes > 1) {
      const length = Math.floor((this.#recoveredBytes + invalidLength) / 2);
      try {
        decoded = this.#coding?.decode(body.subarray(0, length), { maxOutputLength: maxRecoveredOutput }) ?? decoded;
        this.#recoveredBytes = length;
      } catch {
        invalidLength = length;
      }
    }
    if (decoded.length === 0) this.#recoveredBytes = 0;
    if (decoded.length <= this.#decodedBytes) return;
    this.#onBytes(decoded.subarray(this.#decodedBytes));
    this.#decodedBytes = decoded.length;
  }

  #open(coding: Coding, firstChunk: Buffer): Decoder {
    const stream = coding.open(firstChunk);
    stream.on("data", (bytes: Buffer) => {
      this.#decodedBytes += bytes.length;
      if (!this.#failed && this.#canReserve(coding, 0)) this.#onBytes(bytes);
      else this.#fail();
    });
    stream.on("error", () => {
      this.#isInvalid = !this.#failed;
      this.#fail();
    });
    // Not earlier: a decoder that is destroyed while it works is freed only afterwards.
    stream.once("close", () => this.#reserve(0));
    return stream;
  }

  /** @param nextBytes input that is about to be added. */
  #canReserve({ windowBytes, fixedBytes }: Coding, nextBytes: number): boolean {
    const waiting = (this.#stream?.writableLength ?? 0) + nextBytes;
    return this.#reserve(fixedBytes + Math.min(windowBytes, this.#decodedBytes) + waiting);
  }

  #reserve(bytes: number): boolean {
    if (!this.#memory.resize(this.#reservedBytes, bytes, this.#client)) return false;
    this.#reservedBytes = bytes;
    return true;
  }

  #fail(): void {
    this.#failed = true;
    this.#stream?.destroy();
  }
}
