/**
 * Delivers the received bytes of a stream, of a body or a tunnel, at the pace of its receiver. Bytes that the receiver
 * does not read are buffered, and the peer gets no window for them.
 */
import { ChunkBuffer } from "@gatewayproxy/runtime/chunk-buffer";
import type { BodyReceiver, FieldList } from "../ports.ts";

/** The stream whose input is delivered. */
export interface DeliveryOwner {
  /** Called when bytes are buffered. */
  hold(bytes: number): void;
  /** Called when no bytes are buffered any more. */
  release(): void;
  /** Called when the receiver has received all bytes and the end. */
  onDelivered(): void;
}

/** The delivery of one body. */
export class BodyDelivery {
  readonly #owner: DeliveryOwner;
  #receiver: BodyReceiver | undefined;
  #isPaused = false;
  #isScheduled = false;
  /** Received bytes that were not delivered. */
  #held: ChunkBuffer | undefined;
  /** The trailers of a body whose end has been received and not delivered. */
  #trailers: FieldList | undefined;
  #isOpen: boolean;

  /** @param hasBody false if there is nothing to deliver. */
  constructor(owner: DeliveryOwner, hasBody = true) {
    this.#owner = owner;
    this.#isOpen = hasBody;
  }

  /** Whether the end has neither been delivered nor dropped. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Received bytes that were not delivered. */
  get bufferedBytes(): number {
    return this.#held?.length ?? 0;
  }

  /** Starts the delivery to `receiver`, after this call. */
  read(receiver: BodyReceiver): void {
    this.#receiver = receiver;
    this.#deliverLater();
  }

  pause(): void {
    this.#isPaused = true;
  }

  /** Resumes the delivery, after this call. */
  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#deliverLater();
  }

  /** Delivers or buffers bytes. @param chunk not empty; the receiver owns it. */
  data(chunk: Buffer): void {
    if (!this.#isOpen) return;
    if (this.#held === undefined && this.#canDeliver) {
      // Frames share the memory of a read.
      this.#receiver?.onData(chunk, false);
      return;
    }
    this.#held ??= new ChunkBuffer();
    this.#held.push(chunk);
    this.#owner.hold(chunk.length);
  }

  /** Delivers the end after the buffered bytes. The peer has sent its last byte. */
  end(trailers: FieldList): void {
    if (!this.#isOpen) return;
    this.#trailers = trailers;
    this.#endIfDelivered();
  }

  /** Aborts the delivery, because the rest will not arrive. Buffered bytes are dropped. */
  abort(): void {
    if (!this.#isOpen) return;
    const receiver = this.#receiver;
    this.stop();
    receiver?.onAborted();
  }

  /** As `abort`, without a call of the receiver. */
  stop(): void {
    this.#isOpen = false;
    this.#receiver = undefined;
    this.#held = undefined;
  }

  /** Delivers the buffered bytes. */
  deliver(): void {
    this.#isScheduled = false;
    if (!this.#canDeliver) return;
    const held = this.#held?.take();
    this.#held = undefined;
    if (held !== undefined) {
      this.#owner.release();
      this.#receiver?.onData(held, false);
    }
    this.#endIfDelivered();
  }

  get #canDeliver(): boolean {
    return this.#receiver !== undefined && !this.#isPaused && this.#isOpen;
  }

  #deliverLater(): void {
    if (this.#isScheduled || (this.#held === undefined && this.#trailers === undefined)) return;
    this.#isScheduled = true;
    process.nextTick(deliver, this);
  }

  /** Ends a body whose end has been received, unless its receiver has paused. */
  #endIfDelivered(): void {
    if (this.#trailers === undefined || this.#held !== undefined || !this.#canDeliver) return;
    const receiver = this.#receiver;
    this.stop();
    receiver?.onEnd(this.#trailers);
    this.#owner.onDelivered();
  }
}

/** A named function for `process.nextTick`, so that a call allocates no closure. */
function deliver(delivery: BodyDelivery): void {
  delivery.deliver();
}
