/**
 * Relays bytes between two sockets, each side at the pace of the other. The end of one direction is passed on, and the
 * other direction continues. An error of one socket resets the other, so that its reader does not take the end for a
 * whole stream.
 */
import type { Socket } from "node:net";

/** How a relay has ended: the side that ended first, or the side that failed. */
export type RelayEnd = "ClientClosed" | "BackendClosed" | "ClientReset" | "BackendReset";

/** The two sockets of a relay. Both are paused, permit half-open connections, and have a listener for errors. */
export interface RelayedSockets {
  /** That of the client; above TLS where the gateway ends it. */
  readonly client: Socket;
  readonly backend: Socket;
}

/** Relays from its constructor on. `onEnd` is called once, when both sockets are closed. */
export class Relay {
  readonly #sockets: RelayedSockets;
  readonly #onEnd: (end: RelayEnd) => void;
  #end: RelayEnd | undefined;
  #open = 2;
  /** From the client. */
  receivedBytes = 0;
  /** To the client. */
  sentBytes = 0;

  constructor(sockets: RelayedSockets, onEnd: (end: RelayEnd) => void) {
    this.#sockets = sockets;
    this.#onEnd = onEnd;
    const { client, backend } = sockets;
    client.on("data", (chunk: Buffer) => {
      this.receivedBytes += chunk.length;
      if (!backend.write(chunk)) client.pause();
    });
    backend.on("data", (chunk: Buffer) => {
      this.sentBytes += chunk.length;
      if (!client.write(chunk)) backend.pause();
    });
    this.#join(client, backend, "ClientClosed", "ClientReset");
    this.#join(backend, client, "BackendClosed", "BackendReset");
    client.resume();
    backend.resume();
  }

  /** Memory of the bytes that wait to be sent, in both directions. */
  get heldBytes(): number {
    const { client, backend } = this.#sockets;
    return client.writableLength + client.readableLength + backend.writableLength + backend.readableLength;
  }

  #join(from: Socket, to: Socket, closed: RelayEnd, reset: RelayEnd): void {
    to.on("drain", () => from.resume());
    const passEnd = (): void => {
      this.#end ??= closed;
      to.end();
    };
    // A socket without bytes emits its end although it is paused: a client may have ended before its backend is
    // connected.
    if (from.readableEnded) passEnd();
    else from.once("end", passEnd);
    from.once("close", () => {
      const isWhole = from.readableEnded && from.writableFinished;
      if (!isWhole && this.#open === 2) {
        this.#end = reset;
        abort(to);
      }
      this.#open--;
      if (this.#open === 0) this.#onEnd(this.#end ?? reset);
    });
  }
}

/**
 * Closes a socket so that its peer does not take the end for that of the stream: by RST, or without the closing alert
 * of TLS.
 */
export function abort(socket: Socket): void {
  // With TLS the socket is not one of TCP itself, and cannot be reset.
  if ("encrypted" in socket) socket.destroy();
  else socket.resetAndDestroy();
}
