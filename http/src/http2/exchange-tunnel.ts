/** The stream of an extended CONNECT after the switch of protocols, as a byte stream (RFC 8441 §5). */
import { Duplex } from "node:stream";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { BodyReceiver, SwitchedStream } from "../ports.ts";

/** The exchange of a tunnel. */
export interface TunnelExchange {
  read(receiver: BodyReceiver): void;
  pause(): void;
  resume(): void;
  /** @returns false if the peer reads too slowly: `ExchangeTunnel.onDrain` follows. */
  writeTunnel(bytes: Buffer): boolean;
  /** Ends this side. `ExchangeTunnel.onWritten` follows. */
  endTunnel(): void;
  /** Ends both sides, unless they have ended. */
  closeTunnel(): void;
}

type Callback = (error?: Error | null) => void;

/** A tunnel. Each side may end before the other. */
export class ExchangeTunnel extends Duplex implements BodyReceiver, SwitchedStream {
  readonly #exchange: TunnelExchange;
  readonly #clock: Clock;
  #hasBegun = false;
  /** The callback of the write, or of the end, that waits for the peer. */
  #waiting: Callback | undefined;
  #timeoutMs = 0;
  #timer: Timer | undefined;
  /** Monotonic. */
  #usedAtMs = 0;

  constructor(exchange: TunnelExchange, clock: Clock) {
    super({ allowHalfOpen: true });
    this.#exchange = exchange;
    this.#clock = clock;
  }

  /** Emits "timeout" after `ms` milliseconds without a byte in either direction; 0: never. */
  setTimeout(ms: number, onTimeout?: () => void): this {
    if (onTimeout !== undefined) this.once("timeout", onTimeout);
    this.#timeoutMs = ms;
    this.#touch();
    this.#timer?.cancel();
    this.#timer = undefined;
    if (ms > 0) this.#watch(ms);
    return this;
  }

  override _read(): void {
    if (this.#hasBegun) {
      this.#exchange.resume();
    } else {
      this.#hasBegun = true;
      this.#exchange.read(this);
    }
  }

  override _write(chunk: Buffer, _encoding: string, callback: Callback): void {
    this.#touch();
    if (this.#exchange.writeTunnel(chunk)) callback();
    else this.#waiting = callback;
  }

  override _final(callback: Callback): void {
    this.#waiting = callback;
    this.#exchange.endTunnel();
  }

  override _destroy(error: Error | null, callback: Callback): void {
    this.#timer?.cancel();
    this.#exchange.closeTunnel();
    callback(error);
  }

  onData(bytes: Buffer): void {
    this.#touch();
    if (!this.push(bytes)) this.#exchange.pause();
  }

  onEnd(): void {
    this.push(null);
  }

  onAborted(): void {
    this.destroy();
  }

  /** Continues to write. Called when the peer accepts more bytes. */
  onDrain(): void {
    this.#touch();
    this.#continue();
  }

  /** Completes the end of this side. Called when it has been sent. */
  onWritten(): void {
    this.#continue();
  }

  #continue(): void {
    const callback = this.#waiting;
    this.#waiting = undefined;
    callback?.();
  }

  #touch(): void {
    this.#usedAtMs = this.#clock.monotonicMs();
  }

  #watch(ms: number): void {
    this.#timer = this.#clock.setTimer(ms, () => {
      const leftMs = this.#usedAtMs + this.#timeoutMs - this.#clock.monotonicMs();
      if (leftMs > 0) this.#watch(leftMs);
      else this.emit("timeout");
    });
  }
}
