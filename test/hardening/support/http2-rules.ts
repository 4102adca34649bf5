/**
 * The rules of RFC 9113 for the frames that one side receives, as a second reading of them beside that of `http/`. It
 * says which errors of the connection a sequence of frames requires or permits, and which messages it completes. Where
 * the RFC leaves a choice, it permits both.
 */
import type { Frame } from "../../support/raw-http2.ts";

/** The side that receives the frames. */
export type Role = "server" | "client";

/** A message on a stream. `unknown`: its header block is none of the known ones, so it may be valid or not. */
export type MessageState = "complete" | "incomplete" | "malformed" | "unknown";

/** What the frames mean. */
export interface Reading {
  /** For each frame, the codes of which it requires one as an error of the connection; empty for none. */
  readonly required: readonly ReadonlySet<number>[];
  /** For each frame, the codes that it permits. */
  readonly permitted: readonly ReadonlySet<number>[];
  /** The messages by stream, without those after the first required error. */
  readonly messages: ReadonlyMap<number, MessageState>;
}

/** What a header block is, for each place in which it may be. */
export interface KnownBlock {
  readonly fields: Buffer;
  /** `interim` is the head of a 1xx response, `invalid` is no valid HPACK. */
  readonly kind: "head" | "interim" | "trailers" | "malformed" | "invalid";
  readonly contentLength?: number;
  /** The message of the head has no body, whatever its content-length is. */
  readonly isBodiless?: boolean;
}

/** RFC 9113 §7 */
const code = { protocol: 1, flowControl: 3, streamClosed: 5, frameSize: 6, compression: 9 } as const;
/** RFC 9113 §6 */
const type = { data: 0, headers: 1, priority: 2, rst: 3, settings: 4, push: 5, ping: 6, goaway: 7, window: 8, more: 9 };
const flag = { endStream: 1, ack: 1, endHeaders: 4, padded: 8, priority: 32 };
const defaultWindow = 65_535;
const maxWindow = 2 ** 31 - 1;
const maxFrame = 16_384;

interface Stream {
  state: MessageState;
  hasHead: boolean;
  /** The peer has ended it, or reset it, or this side has. */
  isOver: boolean;
  bodyBytes: number;
  contentLength: number | undefined;
  window: number;
}

/** Reads frames, after the preface and the first SETTINGS. @param streams those that a client has opened. */
export function readFrames(
  frames: readonly Frame[],
  role: Role,
  blocks: readonly KnownBlock[],
  streams: readonly number[] = [],
): Reading {
  const reader = new RuleReader(role, blocks, streams);
  const [required, permitted]: [Set<number>[], Set<number>[]] = [[], []];
  let messages: ReadonlyMap<number, MessageState> | undefined;
  for (const frame of frames) {
    const { must, may } = reader.read(frame);
    required.push(must);
    permitted.push(may);
    if (must.size > 0) messages ??= reader.messages();
  }
  return { required, permitted, messages: messages ?? reader.messages() };
}

/** Whether a connection may end with this code. @param goaway undefined if it has not ended with an error. */
export function permitsEnd({ required, permitted }: Reading, goaway: number | undefined): boolean {
  if (goaway === undefined) return required.every((codes) => codes.size === 0);
  for (const [at, codes] of required.entries()) {
    if (codes.has(goaway) || permitted[at]?.has(goaway) === true) return true;
    if (codes.size > 0) return false;
  }
  return false;
}

class RuleReader {
  readonly #role: Role;
  readonly #blocks: readonly KnownBlock[];
  readonly #streams = new Map<number, Stream>();
  #lastStream = 0;
  #connectionWindow = defaultWindow;
  #initialWindow = defaultWindow;
  #block:
    | {
        readonly stream: number;
        readonly endsStream: boolean;
        readonly parts: Buffer[];
        readonly pending: readonly number[];
      }
    | undefined;
  /** The peer leaves (GOAWAY), so this side may close the connection at any time, without reading the rest. */
  #isLeaving = false;
  #must = new Set<number>();
  #may = new Set<number>();

  constructor(role: Role, blocks: readonly KnownBlock[], streams: readonly number[]) {
    this.#role = role;
    this.#blocks = blocks;
    for (const id of streams) this.#open(id);
  }

  messages(): ReadonlyMap<number, MessageState> {
    return new Map([...this.#streams].map(([id, { state }]) => [id, state]));
  }

  read(frame: Frame): { readonly must: Set<number>; readonly may: Set<number> } {
    this.#must = new Set();
    this.#may = new Set();
    // The first bit of the identifier is reserved (§4.1).
    const stream = frame.stream & maxWindow;
    if (frame.payload.length > maxFrame) {
      this.#must.add(code.frameSize);
    } else if (this.#block !== undefined && (frame.type !== type.more || stream !== this.#block.stream)) {
      this.#must.add(code.protocol);
    } else {
      this.#readType(frame, stream);
    }
    if (!this.#isLeaving) return { must: this.#must, may: this.#may };
    return { must: new Set(), may: new Set([...this.#must, ...this.#may]) };
  }

  #readType({ type: kind, flags, payload }: Frame, stream: number): void {
    switch (kind) {
      case type.data:
        if (this.#requireStream(stream)) this.#data(stream, flags, payload);
        break;
      case type.headers:
        this.#headers(stream, flags, payload);
        break;
      case type.priority:
        if (stream === 0) this.#must.add(code.protocol);
        // §6.3 makes the size an error of the stream, and §5.3.2 deprecates the rest.
        this.#may.add(payload.length === 5 ? code.protocol : code.frameSize);
        break;
      case type.rst:
        this.#size(payload.length === 4);
        if (!this.#isSkipped(stream) && this.#requireStream(stream)) this.#end(stream, "incomplete");
        break;
      case type.settings:
        this.#settings(stream, flags, payload);
        break;
      case type.push:
        this.#must.add(code.protocol);
        break;
      case type.ping:
        this.#size(payload.length === 8);
        if (stream !== 0) this.#must.add(code.protocol);
        break;
      case type.goaway:
        this.#size(payload.length >= 8);
        if (stream !== 0) this.#must.add(code.protocol);
        if (this.#must.size === 0) this.#leave(payload.readUInt32BE() & maxWindow);
        break;
      case type.window:
        this.#windowUpdate(stream, payload);
        break;
      case type.more:
        this.#continuation(stream, flags, payload);
    }
  }

  #size(isRight: boolean): void {
    if (!isRight) this.#must.add(code.frameSize);
  }

  /** The receiver may end the streams after the last one that the peer processes (§6.8). */
  #leave(lastStream: number): void {
    this.#isLeaving = true;
    for (const [id, stream] of this.#streams) {
      if (this.#role === "client" && id > lastStream && stream.state === "incomplete") stream.state = "unknown";
    }
  }

  /** Whether an identifier was skipped by a later one, which closes it (§5.1.1). Such a stream may get late frames. */
  #isSkipped(id: number): boolean {
    if (this.#streams.has(id) || id % 2 === 0 || id > this.#lastStream) return false;
    this.#may.add(code.protocol).add(code.streamClosed);
    return true;
  }

  /** @returns whether the stream has been opened; else the frame is an error (§5.1). */
  #requireStream(id: number): boolean {
    if (this.#streams.has(id)) return true;
    this.#must.add(code.protocol);
    // An identifier below the last one is closed, not idle.
    if (id !== 0 && id < this.#lastStream) this.#must.add(code.streamClosed);
    return false;
  }

  #open(id: number): Stream {
    const stream: Stream = {
      ...{ state: "incomplete", hasHead: false, isOver: false, bodyBytes: 0, contentLength: undefined },
      window: this.#initialWindow,
    };
    this.#streams.set(id, stream);
    this.#lastStream = Math.max(this.#lastStream, id);
    return stream;
  }

  #end(id: number, state: MessageState): void {
    const stream = this.#streams.get(id);
    if (stream === undefined) return;
    // A reset of a complete request takes back its response.
    if (this.#role === "server" && stream.state === "complete") stream.state = "unknown";
    if (!stream.isOver) stream.state = state;
    stream.isOver = true;
  }

  /** Returns the part of a payload without its padding; undefined if that is an error (§6.1, §6.2). */
  #unpadded(flags: number, payload: Buffer): Buffer | undefined {
    if ((flags & flag.padded) === 0) return payload;
    const [padding] = payload;
    if (padding === undefined) {
      this.#must.add(code.frameSize).add(code.protocol);
      return undefined;
    }
    if (padding < payload.length) return payload.subarray(1, payload.length - padding);
    this.#must.add(code.protocol);
    return undefined;
  }

  #data(id: number, flags: number, payload: Buffer): void {
    const stream = this.#streams.get(id);
    const bytes = this.#unpadded(flags, payload);
    if (stream === undefined || bytes === undefined) return;
    if (stream.isOver) {
      this.#may.add(code.streamClosed);
      this.#end(id, "malformed");
      return;
    }
    stream.bodyBytes += bytes.length;
    if (!stream.hasHead) this.#malformed(stream);
    else this.#count(stream, (flags & flag.endStream) !== 0);
  }

  #malformed(stream: Stream): void {
    stream.state = stream.state === "unknown" ? "unknown" : "malformed";
    stream.isOver = true;
    this.#may.add(code.protocol);
  }

  #count(stream: Stream, isLast: boolean): void {
    const { bodyBytes, contentLength } = stream;
    if (contentLength !== undefined && (bodyBytes > contentLength || (isLast && bodyBytes < contentLength))) {
      this.#malformed(stream);
    } else if (isLast) {
      if (stream.state === "incomplete") stream.state = "complete";
      stream.isOver = true;
    }
  }

  #headers(id: number, flags: number, payload: Buffer): void {
    /** Errors of the stream, which show at the latest at the end of the block. */
    const pending: number[] = id === 0 ? [code.protocol] : [];
    const isNew = !this.#streams.has(id);
    const mayOpen = this.#role === "server" && id % 2 === 1 && id > this.#lastStream;
    if (id !== 0 && isNew && !mayOpen) {
      pending.push(code.protocol);
      if (id < this.#lastStream) pending.push(code.streamClosed);
    }
    const bytes = this.#unpadded(flags, payload);
    if (bytes === undefined) return;
    const hasPriority = (flags & flag.priority) !== 0;
    if (hasPriority && bytes.length < 5) {
      this.#must.add(code.frameSize).add(code.protocol);
      return;
    }
    // A dependency on itself was an error of the stream before RFC 9113.
    if (hasPriority && (bytes.readUInt32BE() & maxWindow) === id) {
      this.#may.add(code.protocol);
      if (isNew && mayOpen) this.#open(id).state = "unknown";
    }
    this.#block = { stream: id, endsStream: (flags & flag.endStream) !== 0, parts: [], pending };
    for (const each of pending) this.#may.add(each);
    this.#fragment(flags, bytes.subarray(hasPriority ? 5 : 0));
  }

  #continuation(id: number, flags: number, payload: Buffer): void {
    if (this.#block?.stream !== id) this.#must.add(code.protocol);
    else this.#fragment(flags, payload);
  }

  #fragment(flags: number, bytes: Buffer): void {
    const block = this.#block;
    if (block === undefined) return;
    block.parts.push(bytes);
    if ((flags & flag.endHeaders) === 0) return;
    this.#block = undefined;
    for (const each of block.pending) this.#must.add(each);
    this.#wholeBlock(block.stream, block.endsStream, Buffer.concat(block.parts));
  }

  #wholeBlock(id: number, endsStream: boolean, bytes: Buffer): void {
    const known = this.#blocks.find(({ fields }) => fields.equals(bytes));
    // A block is decoded before its stream is known to be wrong.
    if (this.#must.size > 0 && (known === undefined || known.kind === "invalid")) this.#may.add(code.compression);
    if (this.#must.size > 0) return;
    const wasOpen = this.#streams.has(id);
    const stream = this.#streams.get(id) ?? this.#open(id);
    if (known?.kind === "invalid") {
      this.#must.add(code.compression);
      return;
    }
    if (known === undefined) {
      this.#may.add(code.compression).add(code.protocol);
      stream.state = "unknown";
    }
    if (wasOpen && stream.isOver) {
      this.#may.add(code.streamClosed).add(code.protocol);
      this.#end(id, "malformed");
      return;
    }
    if (known === undefined) {
      stream.hasHead = true;
      if (endsStream) stream.isOver = true;
      return;
    }
    this.#knownBlock(stream, known, endsStream);
  }

  #knownBlock(stream: Stream, known: KnownBlock, endsStream: boolean): void {
    const { kind } = known;
    if (kind === "interim" && !stream.hasHead && this.#role === "client" && !endsStream) return;
    if (kind === "head" && !stream.hasHead) {
      stream.hasHead = true;
      stream.contentLength = known.isBodiless === true ? 0 : known.contentLength;
      if (endsStream) this.#count(stream, true);
    } else if (kind === "trailers" && stream.hasHead && endsStream) {
      this.#count(stream, true);
    } else {
      this.#malformed(stream);
    }
  }

  #settings(stream: number, flags: number, payload: Buffer): void {
    if (stream !== 0) this.#must.add(code.protocol);
    const isAck = (flags & flag.ack) !== 0;
    this.#size(isAck ? payload.length === 0 : payload.length % 6 === 0);
    if (isAck || this.#must.size > 0) return;
    for (let at = 0; at < payload.length; at += 6) {
      this.#setting(payload.readUInt16BE(at), payload.readUInt32BE(at + 2));
    }
  }

  /** §6.5.2; RFC 8441 §3 */
  #setting(name: number, value: number): void {
    if (name === 2 && value > (this.#role === "client" ? 0 : 1)) this.#must.add(code.protocol);
    if (name === 4 && value > maxWindow) this.#must.add(code.flowControl);
    if (name === 4 && value <= maxWindow) this.#changeWindows(value);
    if (name === 5 && (value < maxFrame || value > 2 ** 24 - 1)) this.#must.add(code.protocol);
    if (name === 8) this.#may.add(code.protocol);
  }

  #changeWindows(initial: number): void {
    const change = initial - this.#initialWindow;
    this.#initialWindow = initial;
    for (const stream of this.#streams.values()) {
      stream.window += change;
      // The bytes that the stream has sent are not counted here, so it may also be correct.
      if (stream.window > maxWindow) this.#may.add(code.flowControl);
    }
  }

  /** §6.9 */
  #windowUpdate(id: number, payload: Buffer): void {
    this.#size(payload.length === 4);
    if (payload.length !== 4) return;
    const increment = payload.readUInt32BE() & maxWindow;
    if (id === 0) {
      if (increment === 0) this.#must.add(code.protocol);
      this.#connectionWindow += increment;
      if (this.#connectionWindow > maxWindow) this.#must.add(code.flowControl);
      return;
    }
    if (this.#isSkipped(id) || !this.#requireStream(id)) return;
    const stream = this.#streams.get(id);
    if (stream === undefined) return;
    stream.window += increment;
    if (increment === 0) this.#may.add(code.protocol);
    if (stream.window > maxWindow) this.#may.add(code.flowControl);
    if (increment === 0 || stream.window > maxWindow) this.#end(id, "unknown");
  }
}
