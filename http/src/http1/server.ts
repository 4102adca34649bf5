/** The HTTP/1 connections of one listener: their timeouts, and their end. */
import type { Socket } from "node:net";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import {
  type Http1ConnectionOwner,
  type Http1Limits,
  type Http1Receiver,
  Http1ServerConnection,
  sweepMs,
} from "./server-connection.ts";

/** The bounds of the connections, and the source of their times. */
export interface Http1ServerOptions {
  readonly limits: Http1Limits;
  readonly clock: Clock;
}

/**
 * Serves connections. A head has 30 s, an idle connection 75 s, and a client that has its last response 10 s to close; each up
 * to 5 s longer.
 */
export class Http1Server implements Http1ConnectionOwner {
  readonly limits: Http1Limits;
  readonly #clock: Clock;
  readonly #connections = new Set<Http1ServerConnection>();
  readonly #sweeps: Timer;
  /** Whether the event loop has read from its sockets since the last sweep. */
  #hasRead = true;
  isLeaving = false;
  isClosing = false;

  constructor({ limits, clock }: Http1ServerOptions) {
    this.limits = limits;
    this.#clock = clock;
    this.#sweeps = clock.every(sweepMs, () => this.#sweep());
  }

  /** What a client has sent in time waits in its socket while the process does not run, so it is read between two sweeps. */
  #sweep(): void {
    if (!this.#hasRead) return;
    this.#hasRead = false;
    for (const connection of this.#connections) connection.sweep();
    setImmediate(() => {
      this.#hasRead = true;
    }).unref();
  }

  /** Serves the requests of a socket, which nothing else reads from now on. */
  serve(socket: Socket, receiver: Http1Receiver): Http1ServerConnection {
    const connection = new Http1ServerConnection(socket, receiver, this);
    this.#connections.add(connection);
    connection.start();
    return connection;
  }

  /** Asks clients to leave, with their next response. */
  leave(): void {
    this.isLeaving = true;
  }

  /** Closes connections without a request, and the others after their response. */
  drain(): void {
    this.isLeaving = true;
    this.isClosing = true;
    for (const connection of this.#connections) connection.closeIfIdle();
  }

  /** Stops the timers. Called when all connections are closed. */
  close(): void {
    this.#sweeps.cancel();
  }

  nowMs(): number {
    return this.#clock.nowMs();
  }

  onEnd(connection: Http1ServerConnection): void {
    this.#connections.delete(connection);
  }
}
