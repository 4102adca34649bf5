/** Serves the HTTP/2 connections of one listener, with their timeouts, and closes them. */
import type { Socket } from "node:net";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { FieldList, ServerExchangeEvents } from "../../ports.ts";
import type { RequestTurns } from "../../request-turns.ts";
import { ConnectionError } from "../frame.ts";
import type { RequestHead } from "./request-head.ts";
import type { RequestHandler } from "./request-streams.ts";
import { ServerConnection } from "./server-connection.ts";
import { Http2Exchange } from "./server-exchange.ts";
import type { Http2Limits } from "./server-limits.ts";
import type { ServerStream, StreamReceiver } from "./server-stream.ts";

/** Receives the requests of a connection. */
export interface Http2Receiver<Head> {
  /** As `WaitingConnection.client`; absent: that of all connections without one. */
  readonly client?: string;
  /** Extracts the needed data from a head. It must be pure, because it is called once for equal heads. */
  readHead(head: RequestHead): Head;
  /** Called for each request. Returns the receiver of its events; undefined after `Http2Exchange.reject`. */
  onRequest(exchange: Http2Exchange, head: Head): ServerExchangeEvents | undefined;
  /** Called for a request whose fields exceed the bounds, after its response (431). @param fields the first of them. */
  onTooLarge(message: string, fields: FieldList): void;
  /** Called after a read of the socket while `heldBytes` is not 0. */
  onHolding(): void;
  /** Called for an internal error of the receiver or the connection. The stream or the connection is closed. */
  onFault(error: unknown): void;
}

/** The bounds of the connections, and the source of their times. */
export interface Http2ServerOptions {
  readonly limits: Http2Limits;
  readonly clock: Clock;
  /** Bounds the requests that begin in a turn of the event loop; absent: no bound. */
  readonly turns?: RequestTurns;
}

/** Interval of `ServerConnection.check`. Timeouts are up to one interval longer. */
const checkMs = 1_000;
const tooLarge = { status: 431, message: "too many or too large header fields" };

/** Serves connections. */
export class Http2Server {
  readonly #options: Http2ServerOptions;
  readonly #connections = new Set<Http2ServerConnection>();
  readonly #checks: Timer;
  #isLeaving = false;
  /** Whether the event loop has read from its sockets since the last check. */
  #hasRead = true;

  constructor(options: Http2ServerOptions) {
    this.#options = options;
    this.#checks = options.clock.every(checkMs, () => this.#check());
  }

  /** Serves the requests of a socket. Nothing else may read it from then on. */
  serve<Head>(socket: Socket, receiver: Http2Receiver<Head>): Http2ServerConnection {
    const { limits, clock, turns } = this.#options;
    const connection: Http2ServerConnection = new ServerConnection({
      socket,
      isTls: "encrypted" in socket,
      clock,
      limits,
      turns,
      client: receiver.client,
      handler: new ExchangeHandler(receiver, clock),
      // Flushes after all events that the event loop had ready, so that responses that arrive together are sent in one
      // write.
      defer: setImmediate,
      http1Text: "the client selected HTTP/2 in the TLS handshake (ALPN), and sent HTTP/1",
      onHolding: () => receiver.onHolding(),
      onClose: () => this.#connections.delete(connection),
      onError: (error) => {
        if (!(error instanceof ConnectionError)) receiver.onFault(error);
      },
    });
    this.#connections.add(connection);
    // The socket was paused when its protocol was determined.
    socket.resume();
    if (this.#isLeaving) connection.leave();
    return connection;
  }

  /** Asks clients to close their connections (GOAWAY). Their requests are still served. */
  leave(): void {
    this.#isLeaving = true;
    for (const connection of this.#connections) connection.leave();
  }

  /** Closes connections after their last response. */
  drain(): void {
    this.#isLeaving = true;
    for (const connection of this.#connections) connection.drain();
  }

  /** Stops the timers. Called when all connections are closed. */
  close(): void {
    this.#checks.cancel();
  }

  /** Skips a check if sockets have not been read since the last one: timely bytes of clients may still wait in them. */
  #check(): void {
    if (!this.#hasRead) return;
    this.#hasRead = false;
    setImmediate(() => {
      this.#hasRead = true;
    }).unref();
    const nowMs = this.#options.clock.monotonicMs();
    for (const connection of this.#connections) connection.check(nowMs);
  }
}

/** A connection of an `Http2Server`. */
export type Http2ServerConnection = Pick<
  ServerConnection<unknown>,
  "check" | "drain" | "heldBytes" | "isWaiting" | "leave" | "openBlock" | "closeForFlood"
>;

interface ReadHead<Head> {
  readonly raw: RequestHead;
  readonly head: Head;
}

/** Creates an exchange for each stream. */
class ExchangeHandler<Head> implements RequestHandler<ReadHead<Head>> {
  readonly #receiver: Http2Receiver<Head>;
  readonly #clock: Clock;

  constructor(receiver: Http2Receiver<Head>, clock: Clock) {
    this.#receiver = receiver;
    this.#clock = clock;
  }

  readHead(raw: RequestHead): ReadHead<Head> {
    return { raw, head: this.#receiver.readHead(raw) };
  }

  open(stream: ServerStream, { raw, head }: ReadHead<Head>): StreamReceiver {
    const exchange = new Http2Exchange(stream, raw, !stream.isInputComplete, this.#clock);
    // A response may end while the request begins.
    stream.receiver = exchange;
    try {
      exchange.listen(this.#receiver.onRequest(exchange, head));
    } catch (error) {
      exchange.reset();
      this.#receiver.onFault(error);
    }
    return exchange;
  }

  rejectTooLarge(stream: ServerStream, fields: FieldList): void {
    const exchange = new Http2Exchange(stream, nothingKnown, false, this.#clock);
    stream.receiver = exchange;
    exchange.reject(tooLarge);
    this.#receiver.onTooLarge(tooLarge.message, fields);
  }
}

/** The head of a request whose fields were not kept. */
const nothingKnown: RequestHead = {
  method: "",
  path: "",
  authority: undefined,
  protocol: undefined,
  awaitsContinue: false,
  fields: [],
};
