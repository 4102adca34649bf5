/**
 * Finds the messages in the bytes that one side of a WebSocket sends (RFC 6455 §5), without extensions. The bytes are
 * read as they pass, and no payload is kept.
 */

const finBit = 0x80;
const reservedBits = 0x70;
const maskBit = 0x80;
const lengthBits = 0x7f;
const continuation = 0x0;
const binary = 0x2;
const close = 0x8;
const pong = 0xa;
const maxControlBytes = 125;
const maxHeaderBytes = 14;
const keyBytes = 4;

/** Receives the payload of messages. Control frames, which may come between the parts of a message, are left out. */
export interface MessageSink {
  /** A part of the payload of a message. Valid until the return. */
  onPayload(part: Buffer): void;
  /** The message has ended. */
  onMessageEnd(): void;
}

/** The reader of one direction. No method throws. */
export class WebSocketFrames {
  readonly #sink: MessageSink;
  /** Whether the frames are masked, as those of a client are, and only those (§5.1). */
  readonly #isMasked: boolean;
  /** The bytes of a header that has not arrived completely. */
  readonly #header = Buffer.alloc(maxHeaderBytes);
  #headerBytes = 0;
  /** The bytes of the payload that are still to come; undefined between two frames. */
  #payloadBytes: number | undefined;
  /** The payload of the frame before the bytes that are still to come. */
  #payloadStart = 0;
  #isControl = false;
  #isFinal = false;
  #isInMessage = false;
  #isMalformed = false;
  #isClosing = false;

  constructor(sink: MessageSink, from: "client" | "server") {
    this.#sink = sink;
    this.#isMasked = from === "client";
  }

  /** Whether the bytes are not frames of this side without extensions. Then nothing more is read. */
  get isMalformed(): boolean {
    return this.#isMalformed;
  }

  /** Whether all frames so far have ended, so that a frame may be inserted. */
  get isAtBoundary(): boolean {
    return this.#payloadBytes === undefined && this.#headerBytes === 0;
  }

  /** Whether a close frame has begun, behind which no other frame may follow. */
  get isClosing(): boolean {
    return this.#isClosing;
  }

  /** Reads up to the end of a frame, or to the end of the chunk. @returns the index after the bytes that were read. */
  read(chunk: Buffer, from: number): number {
    if (this.#isMalformed) return chunk.length;
    const at = this.#payloadBytes === undefined ? this.#readHeader(chunk, from) : from;
    return this.#payloadBytes === undefined ? at : this.#readPayload(chunk, at, this.#payloadBytes);
  }

  #readHeader(chunk: Buffer, from: number): number {
    let at = from;
    while (at < chunk.length) {
      this.#header[this.#headerBytes++] = chunk[at++] ?? 0;
      if (this.#headerBytes < 2 || this.#headerBytes < this.#headerLength()) continue;
      this.#beginFrame();
      return this.#isMalformed ? chunk.length : at;
    }
    return at;
  }

  #headerLength(): number {
    const length = (this.#header[1] ?? 0) & lengthBits;
    return (length < 126 ? 2 : length === 126 ? 4 : 10) + (this.#isMasked ? keyBytes : 0);
  }

  #beginFrame(): void {
    const first = this.#header[0] ?? 0;
    const opcode = first & 0x0f;
    const length = this.#payloadLength();
    this.#headerBytes = 0;
    this.#payloadStart = 0;
    this.#isControl = opcode >= close;
    this.#isFinal = (first & finBit) !== 0;
    const isKnown = opcode <= binary || (this.#isControl && opcode <= pong);
    const isInOrder = this.#isControl
      ? this.#isFinal && length <= maxControlBytes
      : (opcode === continuation) === this.#isInMessage;
    const isMasked = ((this.#header[1] ?? 0) & maskBit) !== 0;
    // The highest bit of a length is 0 (§5.2); lengths beyond the safe integers are never sent.
    if (
      !isKnown ||
      !isInOrder ||
      isMasked !== this.#isMasked ||
      (first & reservedBits) !== 0 ||
      !Number.isSafeInteger(length)
    ) {
      this.#isMalformed = true;
      return;
    }
    if (opcode === close) this.#isClosing = true;
    if (!this.#isControl) this.#isInMessage = true;
    this.#payloadBytes = length;
    if (length === 0) this.#endFrame();
  }

  #payloadLength(): number {
    const length = (this.#header[1] ?? 0) & lengthBits;
    if (length < 126) return length;
    return length === 126 ? this.#header.readUInt16BE(2) : Number(this.#header.readBigUInt64BE(2));
  }

  #readPayload(chunk: Buffer, from: number, expected: number): number {
    const end = Math.min(chunk.length, from + expected);
    if (!this.#isControl && end > from) this.#sink.onPayload(this.#plain(chunk.subarray(from, end)));
    this.#payloadStart += end - from;
    this.#payloadBytes = expected - (end - from);
    if (this.#payloadBytes === 0) this.#endFrame();
    return end;
  }

  /** The key of a client's frame is at the end of its header (§5.3). The header keeps it until the next frame. */
  #plain(part: Buffer): Buffer {
    if (!this.#isMasked) return part;
    const key = this.#headerLength() - keyBytes;
    return Buffer.from(part.map((byte, at) => byte ^ (this.#header[key + ((this.#payloadStart + at) & 3)] ?? 0)));
  }

  #endFrame(): void {
    this.#payloadBytes = undefined;
    if (this.#isControl || !this.#isFinal) return;
    this.#isInMessage = false;
    this.#sink.onMessageEnd();
  }
}

/** Statuses of close frames (RFC 6455 §7.4.1). */
export const [normalClosure, protocolError, policyViolation] = [1000, 1002, 1008] as const;

/**
 * Returns a close frame.
 *
 * @param reason ASCII, at most 123 characters.
 * @param isMasked whether it is for a server, to which all frames are masked (§5.3).
 */
export function closeFrame(status: number, reason: string, isMasked: boolean): Buffer {
  const payload = Buffer.alloc(2 + reason.length);
  payload.writeUInt16BE(status);
  payload.write(reason, 2, "latin1");
  const head = [finBit | close, (isMasked ? maskBit : 0) | payload.length];
  // A key of zeros leaves the payload as it is. It contains nothing that a client has chosen, so it need not be random.
  return Buffer.concat([Buffer.from(isMasked ? [...head, 0, 0, 0, 0] : head), payload]);
}
