/** The body of one attempt: first the bytes that were received before the attempt, then those that arrive. */
import type { BodyReceiver, FieldList, OutgoingBody } from "@gatewayproxy/http/ports";
import { ChunkBuffer } from "@gatewayproxy/runtime/chunk-buffer";

/** The body of the client, from which attempts read. */
export interface AttemptSource {
  /** Called when the attempt can take more bytes. */
  flow(): void;
  /** Called when the attempt cannot take more bytes for now. */
  hold(): void;
  /** Called when the attempt has received the whole body. */
  onSent(): void;
  /** Called when the attempt needs no more bytes. */
  onCancelled(attempt: AttemptBody): void;
}

/** Bytes that may arrive before the attempt begins to read. With more, the client is paused. */
const readAheadBytes = 64 * 1024;

/** The body that the connection of an attempt reads, once. */
export class AttemptBody implements OutgoingBody {
  readonly #source: AttemptSource;
  /** The bytes that were received before the attempt, in order. */
  #kept: readonly Buffer[];
  #keptIndex = 0;
  /** The bytes that were received while the attempt did not read. */
  readonly #ahead = new ChunkBuffer();
  #receiver: BodyReceiver | undefined;
  #isPaused = false;
  #isDelivering = false;
  /** Whether the body has arrived completely, or its client has disconnected. */
  #ending: "end" | "aborted" | undefined;
  #trailers: FieldList = [];
  #isOver = false;

  /** @param kept the bytes that were received before. */
  constructor(source: AttemptSource, kept: readonly Buffer[]) {
    this.#source = source;
    this.#kept = kept;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  read(receiver: BodyReceiver): void {
    this.#receiver = receiver;
    this.#deliver();
  }

  pause(): void {
    this.#isPaused = true;
    if (!this.#isOver) this.#source.hold();
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#deliver();
  }

  cancel(): void {
    if (this.#isOver) return;
    this.#close();
    this.#source.onCancelled(this);
  }

  /** Passes bytes of the client to the attempt, or buffers them. @param isExclusive as for `BodyReceiver.onData`. */
  push(bytes: Buffer, isExclusive: boolean): void {
    if (this.#isOver) return;
    const isNext = this.#keptIndex === this.#kept.length && this.#ahead.length === 0;
    if (isNext && this.#receiver !== undefined && !this.#isPaused && !this.#isDelivering) {
      this.#receiver.onData(bytes, isExclusive);
      return;
    }
    this.#ahead.push(bytes);
    if (this.#receiver === undefined && this.#ahead.length >= readAheadBytes) this.#source.hold();
    this.#deliver();
  }

  /** Ends the body, which has arrived completely. @param trailers empty for none. */
  end(trailers: FieldList): void {
    this.#ending = "end";
    this.#trailers = trailers;
    this.#deliver();
  }

  /** Aborts the body, because the client has disconnected before its end. */
  break(): void {
    this.#ending = "aborted";
    this.#kept = [];
    this.#ahead.take();
    this.#deliver();
  }

  #deliver(): void {
    const receiver = this.#receiver;
    if (receiver === undefined || this.#isDelivering) return;
    this.#isDelivering = true;
    for (let bytes = this.#next(); bytes !== undefined; bytes = this.#next()) receiver.onData(bytes, false);
    this.#isDelivering = false;
    if (!this.#isOver) this.#finish(receiver);
  }

  #finish(receiver: BodyReceiver): void {
    if (this.#ending === "aborted") {
      this.#close();
      receiver.onAborted();
    } else if (!this.#isPaused && this.#ending === "end") {
      this.#close();
      receiver.onEnd(this.#trailers);
      this.#source.onSent();
    } else if (!this.#isPaused) {
      this.#source.flow();
    }
  }

  #next(): Buffer | undefined {
    if (this.#isPaused || this.#isOver) return undefined;
    return this.#keptIndex < this.#kept.length ? this.#kept[this.#keptIndex++] : this.#ahead.take();
  }

  #close(): void {
    this.#isOver = true;
    this.#kept = [];
    this.#ahead.take();
    this.#receiver = undefined;
  }
}
