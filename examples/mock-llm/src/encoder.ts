/** Compresses a response piece by piece, so that each event reaches the client when it is sent. */
import {
  type BrotliCompress,
  createBrotliCompress,
  createDeflate,
  createGzip,
  createZstdCompress,
  type Deflate,
  type Gzip,
  type ZstdCompress,
} from "node:zlib";
import type { Encoding } from "./reply-options.ts";

export interface Encoder {
  /** Returns all bytes of `piece`; the encoder keeps none. */
  encode(piece: string | Buffer): Promise<Buffer>;
  /** Returns the bytes that end the body. */
  finish(): Promise<Buffer>;
}

export function openEncoder(encoding: Encoding | undefined): Encoder {
  if (encoding === undefined) {
    return { encode: (piece) => Promise.resolve(Buffer.from(piece)), finish: () => Promise.resolve(Buffer.alloc(0)) };
  }
  return new StreamEncoder(streams[encoding]());
}

const streams: Readonly<Record<Encoding, () => Gzip | Deflate | BrotliCompress | ZstdCompress>> = {
  gzip: createGzip,
  deflate: createDeflate,
  br: createBrotliCompress,
  zstd: createZstdCompress,
};

class StreamEncoder implements Encoder {
  readonly #stream: Gzip | Deflate | BrotliCompress | ZstdCompress;
  #out: Buffer[] = [];

  constructor(stream: Gzip | Deflate | BrotliCompress | ZstdCompress) {
    this.#stream = stream;
    stream.on("data", (bytes: Buffer) => this.#out.push(bytes));
  }

  async encode(piece: string | Buffer): Promise<Buffer> {
    this.#stream.write(piece);
    await new Promise<void>((resolve) => this.#stream.flush(resolve));
    return this.#take();
  }

  async finish(): Promise<Buffer> {
    await new Promise<void>((resolve) => {
      this.#stream.once("end", resolve);
      this.#stream.end();
    });
    return this.#take();
  }

  #take(): Buffer {
    const bytes = Buffer.concat(this.#out);
    this.#out = [];
    return bytes;
  }
}
