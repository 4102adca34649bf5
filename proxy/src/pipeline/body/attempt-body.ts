/** The body of a request as one attempt sends it: the bytes that were received before, then those that arrive. */
import type { BodyReceiver, OutgoingBody } from "@gatewayproxy/http/ports";
import { ChunkBuffer } from "@gatewayproxy/runtime/chunk-buffer";

/** The body of the client, of which attempts are made. */
export interface AttemptSource {
  /** The attempt reads: bytes may arrive. */
  flow(): void;
  /** The attempt has enough for now. */
  hold(): void;
  /** The attempt has received all of the body. */
  onSent(): void;
  /** The attempt needs no more. */
  onCancelled(attempt: AttemptBody): void;
}

/** Maximum bytes that are received for an attempt that does not read them yet. */
const readAheadBytes = 64 * 1024;

/** A body that is read once, by the connection of the attempt. */
export class AttemptBody implements OutgoingBody {
  readonly #source: AttemptSource;
  /** Received before the attempt began, in order. */
  #kept: readonly Buffer[];
  #keptIndex = 0;
  /** Received while the attempt did not read. */
  readonly #ahead = new ChunkBuffer();
  #receiver: BodyReceiver | undefined;
  #isPaused = false;
  #isDelivering = false;
  /** The body has arrived completely, or its client has left. */
  #ending: "end" | "aborted" | undefined;
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

  /** Bytes of the client have arrived. */
  push(bytes: Buffer): void {
    if (this.#isOver) return;
    const isNext = this.#keptIndex === this.#kept.length && this.#ahead.length === 0;
    if (isNext && this.#receiver !== undefined && !this.#isPaused && !this.#isDelivering) {
      this.#receiver.onData(bytes);
      return;
    }
    this.#ahead.push(bytes);
    if (this.#receiver === undefined && this.#ahead.length >= readAheadBytes) this.#source.hold();
    this.#deliver();
  }

  /** The body has arrived completely. */
  end(): void {
    this.#ending = "end";
    this.#deliver();
  }

  /** The client has left before the end of the body. */
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
    for (let bytes = this.#next(); bytes !== undefined; bytes = this.#next()) receiver.onData(bytes);
    this.#isDelivering = false;
    if (!this.#isOver) this.#finish(receiver);
  }

  #finish(receiver: BodyReceiver): void {
    if (this.#ending === "aborted") {
      this.#close();
      receiver.onAborted();
    } else if (!this.#isPaused && this.#ending === "end") {
      this.#close();
      receiver.onEnd([]);
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
