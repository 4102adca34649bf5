/** Serves the HTTP/1 connections of one listener, with their timeouts, and closes them. */
import type { Socket } from "node:net";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { RequestTurns } from "../request-turns.ts";
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
  /** Bounds the requests that begin in a turn of the event loop; absent: no bound. */
  readonly turns?: RequestTurns;
}

/**
 * Serves connections. The timeouts are 30 s for a head, 75 s for an idle connection, and 10 s for a client to close the
 * connection after its last response. Each may take up to 5 s longer.
 */
export class Http1Server implements Http1ConnectionOwner {
  readonly limits: Http1Limits;
  readonly turns: RequestTurns | undefined;
  readonly #clock: Clock;
  readonly #connections = new Set<Http1ServerConnection>();
  readonly #sweeps: Timer;
  /** Whether the event loop has read from its sockets since the last sweep. */
  #hasRead = true;
  isLeaving = false;
  isClosing = false;

  constructor({ limits, clock, turns }: Http1ServerOptions) {
    this.limits = limits;
    this.turns = turns;
    this.#clock = clock;
    this.#sweeps = clock.every(sweepMs, () => this.#sweep());
  }

  /** Skips a sweep if sockets have not been read since the last one: timely bytes of clients may still wait in them. */
  #sweep(): void {
    if (!this.#hasRead) return;
    this.#hasRead = false;
    for (const connection of this.#connections) connection.sweep();
    setImmediate(() => {
      this.#hasRead = true;
    }).unref();
  }

  /** Serves the requests of a socket. Nothing else may read it from then on. */
  serve(socket: Socket, receiver: Http1Receiver): Http1ServerConnection {
    const connection = new Http1ServerConnection(socket, receiver, this);
    this.#connections.add(connection);
    connection.start();
    return connection;
  }

  /** Asks clients to close their connections, in their next response. */
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
