/**
 * Delivers what a stream receives, a body or the bytes of a tunnel, at the pace of its receiver. What the receiver does not
 * take is held, and the peer gets no window for it.
 */
import { ChunkBuffer } from "@gatewayproxy/runtime/chunk-buffer";
import type { BodyReceiver, FieldList } from "../ports.ts";

/** The stream whose input is delivered. */
export interface DeliveryOwner {
  /** Bytes are held. */
  hold(bytes: number): void;
  /** No bytes are held any more. */
  release(): void;
  /** The receiver has got everything, and its end. */
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
  /** Of a body whose end has been received and not delivered. */
  #trailers: FieldList | undefined;
  #isOpen: boolean;

  /** @param hasBody false if there is nothing to deliver. */
  constructor(owner: DeliveryOwner, hasBody = true) {
    this.#owner = owner;
    this.#isOpen = hasBody;
  }

  /** Whether the end was neither delivered nor given up. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Delivers to `receiver`, not within this call. */
  read(receiver: BodyReceiver): void {
    this.#receiver = receiver;
    this.#deliverLater();
  }

  pause(): void {
    this.#isPaused = true;
  }

  /** Delivers again, not within this call. */
  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#deliverLater();
  }

  /** @param chunk not empty; the receiver owns it. */
  data(chunk: Buffer): void {
    if (!this.#isOpen) return;
    if (this.#held === undefined && this.#canDeliver) {
      this.#receiver?.onData(chunk);
      return;
    }
    this.#held ??= new ChunkBuffer();
    this.#held.push(chunk);
    this.#owner.hold(chunk.length);
  }

  /** The peer has sent its last byte. */
  end(trailers: FieldList): void {
    if (!this.#isOpen) return;
    this.#trailers = trailers;
    this.#endIfDelivered();
  }

  /** The rest will not arrive. What is held is dropped. */
  abort(): void {
    if (!this.#isOpen) return;
    const receiver = this.#receiver;
    this.stop();
    receiver?.onAborted();
  }

  /** As `abort`, without telling the receiver. */
  stop(): void {
    this.#isOpen = false;
    this.#receiver = undefined;
    this.#held = undefined;
  }

  /** Delivers what is held. */
  deliver(): void {
    this.#isScheduled = false;
    if (!this.#canDeliver) return;
    const held = this.#held?.take();
    this.#held = undefined;
    if (held !== undefined) {
      this.#owner.release();
      this.#receiver?.onData(held);
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

/** A function of its own, so that no closure is allocated for each call. */
function deliver(delivery: BodyDelivery): void {
  delivery.deliver();
}
