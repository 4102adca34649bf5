/** Assembles header blocks from HEADERS and CONTINUATION frames (RFC 9113 §6.2, §6.10), within bounds. */
import { assertProtocol, paddingBytes } from "./assert-protocol.ts";
import { ConnectionError, ErrorCode, Flag } from "./frame.ts";

/** Receives whole blocks: `buffer[start, end)`, which is valid only during the call. */
export interface BlockSink {
  headerBlock(streamId: number, endStream: boolean, buffer: Buffer, start: number, end: number): void;
}

/** A block that waits for CONTINUATION frames. */
interface OpenBlock {
  readonly streamId: number;
  readonly endStream: boolean;
  readonly fragments: Buffer[];
  bytes: number;
}

/**
 * The maximum number of CONTINUATION frames. A block of ordinary size fits into one HEADERS frame; only attacks need
 * more.
 */
const maxContinuations = 16;

/** Approximate memory of a buffer without its bytes. */
const bufferOverheadBytes = 256;

/** Assembles the header blocks of one connection. */
export class HeaderBlockAssembler {
  readonly #maxBytes: number;
  readonly #sink: BlockSink;
  #open: OpenBlock | undefined;
  /** The number of blocks that have ended. */
  ended = 0;

  /** @param maxBytes the maximum size of a block that spans several frames. */
  constructor(maxBytes: number, sink: BlockSink) {
    this.#maxBytes = maxBytes;
    this.#sink = sink;
  }

  /** The stream whose block is incomplete. Only a CONTINUATION of it may come next. */
  get openStreamId(): number | undefined {
    return this.#open?.streamId;
  }

  /** Bytes of the incomplete block, with the buffers that hold them. */
  get heldBytes(): number {
    return this.#open === undefined ? 0 : this.#open.bytes + bufferOverheadBytes * this.#open.fragments.length;
  }

  headers(flags: number, id: number, buffer: Buffer, start: number, end: number): void {
    assertProtocol((id & 1) === 1, "a client's streams have odd numbers");
    let blockStart = start;
    let blockEnd = end;
    if ((flags & Flag.Padded) !== 0) {
      blockStart += 1;
      blockEnd -= paddingBytes(buffer, start, end);
    }
    if ((flags & Flag.Priority) !== 0) {
      assertProtocol(blockEnd - blockStart >= 5, "HEADERS is shorter than its priority");
      assertProtocol((buffer.readUInt32BE(blockStart) & 0x7fff_ffff) !== id, "a stream cannot depend on itself");
      blockStart += 5;
    }
    const endStream = (flags & Flag.EndStream) !== 0;
    if ((flags & Flag.EndHeaders) !== 0) {
      this.ended++;
      this.#sink.headerBlock(id, endStream, buffer, blockStart, blockEnd);
      return;
    }
    const fragment = Buffer.from(buffer.subarray(blockStart, blockEnd));
    this.#open = { streamId: id, endStream, fragments: [fragment], bytes: fragment.length };
  }

  continuation(flags: number, buffer: Buffer, start: number, end: number): void {
    const open = this.#open;
    if (open === undefined) {
      throw new ConnectionError(ErrorCode.ProtocolError, "CONTINUATION without a header block");
    }
    open.fragments.push(Buffer.from(buffer.subarray(start, end)));
    open.bytes += end - start;
    if (open.bytes > this.#maxBytes || open.fragments.length > maxContinuations) {
      throw new ConnectionError(ErrorCode.EnhanceYourCalm, "the header block is too long");
    }
    if ((flags & Flag.EndHeaders) !== 0) {
      this.#open = undefined;
      this.ended++;
      this.#sink.headerBlock(open.streamId, open.endStream, Buffer.concat(open.fragments), 0, open.bytes);
    }
  }
}
