/**
 * HTTP/2 framing (RFC 9113 §4 and §6): the constants of the protocol, the parser of frames, and the connection error.
 * `frame-dispatch.ts` processes the frames.
 *
 *     +-----------------------------------------------+
 *     |                 Length (24)                   |
 *     +---------------+---------------+---------------+
 *     |   Type (8)    |   Flags (8)   |
 *     +-+-------------+---------------+-------------------------------+
 *     |R|                 Stream Identifier (31)                      |
 *     +=+=============================================================+
 *     |                   Frame Payload                             ...
 */

/** The size of a frame header. */
export const frameHeaderBytes = 9;

/** The client connection preface (§3.4). */
export const clientPreface: Buffer = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

/** The largest payload that is accepted and sent: the protocol's default, which needs no SETTINGS (§4.2). */
export const maxFramePayloadBytes = 16_384;

/** The largest flow-control window (§6.9.1). */
export const maxWindowBytes = 2 ** 31 - 1;

/** The initial window of a connection, and of a stream unless SETTINGS change it (§6.9.2). */
export const defaultWindowBytes = 65_535;

/** Frame types (§6). */
export const FrameType = {
  Data: 0,
  Headers: 1,
  Priority: 2,
  RstStream: 3,
  Settings: 4,
  PushPromise: 5,
  Ping: 6,
  GoAway: 7,
  WindowUpdate: 8,
  Continuation: 9,
} as const;

/** Frame flags. EndStream and Ack share a bit, on different frames. */
export const Flag = { EndStream: 0x1, Ack: 0x1, EndHeaders: 0x4, Padded: 0x8, Priority: 0x20 } as const;

/** Settings (§6.5.2). */
export const Setting = {
  HeaderTableSize: 1,
  EnablePush: 2,
  MaxConcurrentStreams: 3,
  InitialWindowSize: 4,
  MaxFrameSize: 5,
  MaxHeaderListSize: 6,
  /** RFC 8441 §3 */
  EnableConnectProtocol: 8,
} as const;

/** Error codes (§7). */
export const ErrorCode = {
  NoError: 0,
  ProtocolError: 1,
  InternalError: 2,
  FlowControlError: 3,
  StreamClosed: 5,
  FrameSizeError: 6,
  RefusedStream: 7,
  Cancel: 8,
  CompressionError: 9,
  EnhanceYourCalm: 11,
  Http11Required: 13,
} as const;

/** An error code that is sent. */
export type ErrorCode = (typeof ErrorCode)[keyof typeof ErrorCode];

/** A violation of the protocol that ends the connection (§5.4.1). */
export class ConnectionError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string) {
    super(message);
    this.name = "ConnectionError";
    this.code = code;
  }
}

/** Receives a frame in the read buffer: the payload is `buffer[start, end)` and is valid only during the call. */
export type FrameSink = (
  type: number,
  flags: number,
  streamId: number,
  buffer: Buffer,
  start: number,
  end: number,
) => void;

/** Splits a byte stream into frames, independent of the boundaries of its chunks. */
export class FrameReader {
  readonly #sink: FrameSink;
  readonly #mayBegin: (() => boolean) | undefined;
  #rest: Buffer | undefined;
  /** From `#heldAt`, frames that wait for `readHeld`. */
  #held: Buffer | undefined;
  #heldAt = 0;

  /**
   * @param mayBegin whether a frame may be read that can cause much work for its length: the end of a header block or
   *   of a body, or a short part of one. Otherwise it waits, with all that follows, until `readHeld`. Absent: always.
   */
  constructor(sink: FrameSink, mayBegin?: () => boolean) {
    this.#sink = sink;
    this.#mayBegin = mayBegin;
  }

  /** Bytes of an incomplete frame that are kept until the rest is received, and of a read that waits. */
  get heldBytes(): number {
    return (this.#rest?.length ?? 0) + (this.#held?.length ?? 0);
  }

  /** Whether frames wait for `readHeld`. */
  get isHeld(): boolean {
    return this.#held !== undefined;
  }

  /** The type of an incomplete frame; undefined if there is none, or its type has not been received. */
  get heldType(): number | undefined {
    return this.#rest?.[3];
  }

  /**
   * Passes every complete frame to the sink and keeps an incomplete one, at most one frame of bytes. Throws
   * `ConnectionError` for a frame that is too long, and what the sink throws.
   */
  read(chunk: Buffer): void {
    if (this.#held !== undefined) {
      this.#hold(Buffer.concat([this.#held.subarray(this.#heldAt), chunk]), 0);
      return;
    }
    const rest = this.#rest;
    if (rest === undefined) {
      this.#readFrom(chunk, 0);
      return;
    }
    this.#rest = undefined;
    // Only the frame that spans the chunks is copied. Its length is known with its header.
    const headed = rest.length >= frameHeaderBytes ? rest : Buffer.concat([rest, chunk.subarray(0, frameHeaderBytes)]);
    const missing = headed.length < frameHeaderBytes ? chunk.length : frameBytes(headed, 0) - rest.length;
    if (missing >= chunk.length) {
      this.#readFrom(Buffer.concat([rest, chunk]), 0);
    } else {
      const spanning = Buffer.concat([rest, chunk.subarray(0, missing)]);
      this.#readFrom(spanning, 0);
      if (this.isHeld) this.#hold(Buffer.concat([spanning, chunk.subarray(missing)]), 0);
      else this.#readFrom(chunk, missing);
    }
  }

  /** As `read`, with the frames that wait. */
  readHeld(): void {
    const held = this.#held;
    this.#held = undefined;
    if (held !== undefined) this.#readFrom(held, this.#heldAt);
  }

  #hold(buffer: Buffer, at: number): void {
    this.#held = buffer;
    this.#heldAt = at;
  }

  #readFrom(buffer: Buffer, start: number): void {
    let position = start;
    while (buffer.length - position >= frameHeaderBytes) {
      const end = position + frameBytes(buffer, position);
      if (end > buffer.length) break;
      if (this.#mayBegin !== undefined && causesWork(buffer, position, end) && !this.#mayBegin()) {
        this.#hold(buffer, position);
        return;
      }
      const streamId = buffer.readUInt32BE(position + 5) & 0x7fff_ffff;
      const payload = position + frameHeaderBytes;
      this.#sink(buffer[position + 3] ?? 0, buffer[position + 4] ?? 0, streamId, buffer, payload, end);
      position = end;
    }
    // A copy, since a reference would keep the whole chunk, which is much longer.
    if (position < buffer.length) this.#rest = Buffer.from(buffer.subarray(position));
  }
}

/** A longer DATA frame causes hardly more work than to pass it on, unless it is the last one. */
const shortDataBytes = 4_096;

function causesWork(buffer: Buffer, start: number, end: number): boolean {
  const flags = buffer[start + 4] ?? 0;
  switch (buffer[start + 3] ?? 0) {
    case FrameType.Data:
      return end - start < shortDataBytes || (flags & Flag.EndStream) !== 0;
    case FrameType.Headers:
    case FrameType.Continuation:
      return (flags & Flag.EndHeaders) !== 0;
    default:
      return false;
  }
}

/** Returns the size of a frame with its header. Throws `ConnectionError` if it is too long. */
function frameBytes(buffer: Buffer, start: number): number {
  const length = ((buffer[start] ?? 0) << 16) | ((buffer[start + 1] ?? 0) << 8) | (buffer[start + 2] ?? 0);
  if (length <= maxFramePayloadBytes) return frameHeaderBytes + length;
  throw new ConnectionError(
    ErrorCode.FrameSizeError,
    `frame of ${length} bytes, at most ${maxFramePayloadBytes} are accepted`,
  );
}
