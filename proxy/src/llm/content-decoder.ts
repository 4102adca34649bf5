/**
 * Undoes the content coding of a response on the side, to read its usage; what the client gets stays as it is.
 *
 * The decoder runs beside the stream and never holds it back, so it may fall behind; the bytes that wait for it are
 * bounded, and what it decodes is not kept. A body that breaks off is decoded as far as it goes.
 *
 * A few kilobytes can make a decoder fill a window of many megabytes, so windows are bounded, and so is the memory of all
 * decoders of a worker. A body beyond these bounds fails, as one does that is not of its coding.
 *
 * A decoder that fails keeps back what it has decoded since it last gave some. A short body would be lost with that, so its
 * bytes are kept, and as many are decoded again as can be.
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

/** The most compressed bytes that wait for the decoder; more of them and it gives up. */
export const maxWaitingBytes = 16 * 1024 * 1024;

type Decoder = Gunzip | Inflate | InflateRaw | BrotliDecompress | ZstdDecompress;

const zlibFlush = { finishFlush: constants.Z_SYNC_FLUSH };
const brotliOptions = {
  finishFlush: constants.BROTLI_OPERATION_FLUSH,
  params: { [constants.BROTLI_DECODER_PARAM_LARGE_WINDOW]: 0 },
};

/** A body up to this length is decoded again as far as it goes, when it fails. */
const maxRescuedBytes = 16 * 1024;

/** The most that comes of that. */
const maxRescuedOutput = 64 * 1024;

/** The most that the decoders of a worker may hold together. */
const maxDecoderBytes = 256 * 1024 * 1024;

/** A content coding. */
interface Coding {
  /** Gets the first chunk, which it does not consume. */
  readonly open: (firstChunk: Buffer) => Decoder;
  /** Decodes the beginning of a body at once; throws where it cannot. */
  readonly decode: (beginning: Buffer, bounds: { readonly maxOutputLength: number }) => Buffer;
  /** The most bytes of output that a decoder looks back at, and keeps. */
  readonly windowBytes: number;
  /** What a decoder holds beside the window: its tables, a block, and a chunk of output. */
  readonly fixedBytes: number;
}

const kib = 1024;
const inflating = { windowBytes: 32 * kib, fixedBytes: 32 * kib };
const gzip: Coding = {
  ...inflating,
  open: () => createGunzip(zlibFlush),
  decode: (bytes, bounds) => gunzipSync(bytes, { ...zlibFlush, ...bounds }),
};

/** RFC 1950 §2.2. Some servers send the bare stream where RFC 9110 wants it in a zlib wrapper. */
function isWrapped(first: Buffer): boolean {
  return (first[0] ?? 0) % 16 === 8;
}

/** RFC 9659 §3: 8 MiB, which every decoder of the content coding accepts. */
const zstdWindowLog = 23;

const zstdOptions = {
  finishFlush: constants.ZSTD_e_flush,
  params: { [constants.ZSTD_d_windowLogMax]: zstdWindowLog },
};

/** By `content-encoding` (RFC 9110 §8.4.1, RFC 8878). */
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
      // RFC 7932 §9.1; the tables of its prefix codes can take more than the window of a short body.
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

/** The memory of several decoders, in bytes. A client may hold at most as much as stays free for others. */
export class DecoderMemory {
  readonly #max: number;
  readonly #heldBy = new Map<string, number>();
  #held = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get held(): number {
    return this.#held;
  }

  /**
   * Replaces the bytes that one decoder holds by those that it needs. Returns false, and changes nothing, if that is too
   * much.
   *
   * @param client The client whose response is decoded. Absent: the decoder has no share of its own.
   */
  exchange(held: number, needed: number, client?: string): boolean {
    const sum = this.#held - held + needed;
    const own = client === undefined ? 0 : (this.#heldBy.get(client) ?? 0) - held + needed;
    if (needed > held && (sum > this.#max || own > this.#max - sum)) return false;
    this.#held = sum;
    if (client !== undefined && own > 0) this.#heldBy.set(client, own);
    else if (client !== undefined) this.#heldBy.delete(client);
    return true;
  }
}

/** Of this worker. */
const workerMemory = new DecoderMemory(maxDecoderBytes);

/** Whether a `content-encoding` leaves the bytes as they are. */
export function isIdentity(encoding: string): boolean {
  return encoding === "" || encoding.toLowerCase() === "identity";
}

export class ContentDecoder {
  readonly #coding: Coding | undefined;
  readonly #onBytes: (bytes: Buffer) => void;
  readonly #memory: DecoderMemory;
  readonly #client: string | undefined;
  #stream: Decoder | undefined;
  #failed: boolean;
  /** It failed by what it was given, not by a bound. */
  #isBroken = false;
  #decodedBytes = 0;
  /** All that was pushed, while it is short. */
  #pushed: Buffer[] = [];
  #pushedBytes = 0;
  #rescuedBytes = 0;
  /** As known to `#memory`. */
  #heldBytes = 0;

  /**
   * @param encoding the value of `content-encoding`: `gzip`, `x-gzip`, `deflate` (wrapped or bare), `br` or `zstd`; any
   *   other, and a list of several, fails
   * @param onBytes gets the decoded bytes in order, between a push and the end
   * @param shared The memory that decoders share, and the client whose share of it this one takes. If there is no room,
   *   the decoding fails.
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

  /** Of what was pushed: how much has been decoded. */
  get readBytes(): number {
    return Math.max(this.#rescuedBytes, this.#stream?.bytesWritten ?? 0);
  }

  /** What came of it. */
  get decodedBytes(): number {
    return this.#decodedBytes;
  }

  /** Reads on. Refers to `chunk` until it is decoded, so its bytes must not change. */
  push(chunk: Buffer): void {
    if (this.#failed || chunk.length === 0 || this.#coding === undefined) return;
    if (!this.#mayHold(this.#coding, chunk.length)) {
      this.#fail();
      return;
    }
    this.#pushedBytes += chunk.length;
    if (this.#pushedBytes <= maxRescuedBytes) this.#pushed.push(chunk);
    else this.#pushed = [];
    this.#stream ??= this.#open(this.#coding, chunk);
    this.#stream.write(chunk);
    if (this.#stream.writableLength > maxWaitingBytes) this.#fail();
  }

  /** Calls `done` once when all has been decoded; at once when there is nothing to wait for. Never throws. */
  end(done: (failed: boolean) => void): void {
    const stream = this.#stream;
    const conclude = (): void => {
      if (this.#isBroken && this.#decodedBytes < maxRescuedOutput) this.#rescue();
      done(this.#failed);
    };
    if (this.#failed || stream === undefined) conclude();
    else stream.once("close", conclude).end();
  }

  /** Decodes the longest beginning that can be decoded, which is found by halves. */
  #rescue(): void {
    const body = Buffer.concat(this.#pushed);
    let decoded: Buffer = Buffer.alloc(0);
    let tooMuch = body.length + 1;
    while (tooMuch - this.#rescuedBytes > 1) {
      const length = Math.floor((this.#rescuedBytes + tooMuch) / 2);
      try {
        decoded = this.#coding?.decode(body.subarray(0, length), { maxOutputLength: maxRescuedOutput }) ?? decoded;
        this.#rescuedBytes = length;
      } catch {
        tooMuch = length;
      }
    }
    if (decoded.length === 0) this.#rescuedBytes = 0;
    if (decoded.length <= this.#decodedBytes) return;
    this.#onBytes(decoded.subarray(this.#decodedBytes));
    this.#decodedBytes = decoded.length;
  }

  #open(coding: Coding, firstChunk: Buffer): Decoder {
    const stream = coding.open(firstChunk);
    stream.on("data", (bytes: Buffer) => {
      this.#decodedBytes += bytes.length;
      if (!this.#failed && this.#mayHold(coding, 0)) this.#onBytes(bytes);
      else this.#fail();
    });
    stream.on("error", () => {
      this.#isBroken = !this.#failed;
      this.#fail();
    });
    // Not before: a decoder that is destroyed at work is freed afterwards.
    stream.once("close", () => this.#hold(0));
    return stream;
  }

  /** @param nextBytes that are about to wait. */
  #mayHold({ windowBytes, fixedBytes }: Coding, nextBytes: number): boolean {
    const waiting = (this.#stream?.writableLength ?? 0) + nextBytes;
    return this.#hold(fixedBytes + Math.min(windowBytes, this.#decodedBytes) + waiting);
  }

  #hold(bytes: number): boolean {
    if (!this.#memory.exchange(this.#heldBytes, bytes, this.#client)) return false;
    this.#heldBytes = bytes;
    return true;
  }

  #fail(): void {
    this.#failed = true;
    this.#stream?.destroy();
  }
}
