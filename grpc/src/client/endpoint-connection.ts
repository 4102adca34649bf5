/**
 * One endpoint of a service and the connection to it. It connects before the first call, and reconnects with growing
 * pauses.
 *
 * A server that closes the connection sends GOAWAY: new calls then use a new connection while those in progress finish
 * on the old one. A call that the server has certainly not processed is returned to be sent again. Any other call is
 * not, because the server may have counted it.
 */
import type { Socket } from "node:net";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { ClientConnection } from "@gatewayproxy/http/http2/client/client-connection";
import { type ClientLimits, defaultClientLimits } from "@gatewayproxy/http/http2/client/client-limits";
import { Call, type Ending, type PendingCall } from "./call.ts";
import { CallHeads } from "./call-heads.ts";
import { type ResponseFields, readResponseFields } from "./response-fields.ts";
import { callFailure, type Endpoint } from "./unary-client.ts";

/** The receiver of a socket's events until HTTP/2 takes over. */
export interface SocketListener {
  /** Called when the socket is connected and its TLS handshake is done. */
  readonly onConnect: () => void;
  /** Called when the peer did not select HTTP/2 by ALPN. */
  readonly onNotHttp2: () => void;
  /** Called with received bytes. `chunk` is valid only during the call. */
  readonly onRead: (chunk: Buffer) => void;
}

/**
 * Starts to connect to an endpoint, in plain text if `tls` is undefined. Errors and the end are events of the socket.
 */
export type OpenSocket<Tls> = (endpoint: Endpoint, tls: Tls | undefined, listener: SocketListener) => Socket;

/** The services and limits of connections to a service. */
export interface ConnectionOptions<Tls> {
  /** Times attempts to connect (2 s each), the pauses between them, and calls. */
  readonly clock: Clock;
  /** Returns a random number from 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  /** Opens the sockets. */
  readonly openSocket: OpenSocket<Tls>;
  /** Absent: `defaultClientLimits`. */
  readonly limits?: ClientLimits | undefined;
  /** As `ClientConnectionOptions.onError`. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** Time to connect to the service and to receive its settings. */
const connectTimeoutMs = 2_000;
/**
 * The first and the longest pause between attempts. Pauses double, and each is reduced by up to a quarter at random.
 */
const firstPauseMs = 50;
const maxPauseMs = 400;

/** The connection to one endpoint. Pauses between attempts to connect double from 50 ms to 400 ms. */
export class EndpointConnection<Tls> {
  readonly #options: ConnectionOptions<Tls>;
  readonly #endpoint: Endpoint;
  readonly #tls: Tls | undefined;
  readonly #authority: string;
  readonly #heads: CallHeads;
  #connection: ClientConnection<ResponseFields> | undefined;
  #isOpen = false;
  /**
   * Whether the connection has delivered a response. If the peer accepts and closes connections without a response, the
   * next attempt waits for a pause.
   */
  #hasResponded = false;
  #pauseMs = firstPauseMs;
  #timer: Timer | undefined;
  #isClosed = false;
  /** The reason why there is no connection. */
  #lastError = "not connected yet";
  /** All open connections, including draining ones. */
  readonly #connections = new Set<ClientConnection<ResponseFields>>();
  /** The number of calls that wait or are in progress. */
  inFlight = 0;

  constructor(endpoint: Endpoint, tls: Tls | undefined, options: ConnectionOptions<Tls>) {
    const host = endpoint.host.includes(":") ? `[${endpoint.host}]` : endpoint.host;
    this.#options = options;
    this.#endpoint = endpoint;
    this.#tls = tls;
    this.#authority = `${host}:${endpoint.port}`;
    this.#heads = new CallHeads(tls === undefined ? "http" : "https", this.#authority);
    this.#connect();
  }

  /**
   * The state of the current connection.
   * - `open`: accepts calls.
   * - `opening`: queues calls until it is open.
   * - `lost`: there is no connection; calls fail.
   */
  get state(): "open" | "opening" | "lost" {
    if (this.#isClosed || this.#connection === undefined) return "lost";
    return this.#isOpen ? "open" : "opening";
  }

  /** The error for calls without a connection. */
  get connectionError(): string {
    return `no connection to ${this.#authority}: ${this.#lastError}`;
  }

  /** Sends a call, or queues it until the connection is open. */
  send(pending: PendingCall): void {
    if (this.#connection === undefined) {
      pending.onUnprocessed(callFailure("unavailable", this.connectionError));
      return;
    }
    this.inFlight++;
    this.#connection.start(new Call(pending, this.#heads, this.#options.clock, this.#ended));
  }

  /** Drains the endpoint: accepts no more calls, finishes those in progress, and closes. */
  retire(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
    for (const connection of this.#connections) connection.drain("the endpoint is no longer one of the service");
  }

  /** Closes at once; calls in progress fail. */
  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
    for (const connection of this.#connections) connection.destroy("the connection is closed");
  }

  readonly #ended = (ending: Ending): void => {
    this.inFlight--;
    if (ending !== "responded") return;
    this.#hasResponded = true;
    this.#pauseMs = firstPauseMs;
  };

  #connect(): void {
    const { clock, onError, limits = defaultClientLimits } = this.#options;
    const socket = this.#options.openSocket(this.#endpoint, this.#tls, {
      onConnect: () => connection.sendPreface(),
      onNotHttp2: () => connection.destroy("the service did not select HTTP/2 in the TLS handshake (ALPN h2)"),
      onRead: (chunk) => connection.receive(chunk),
    });
    const connection: ClientConnection<ResponseFields> = new ClientConnection({
      socket,
      isTls: this.#tls !== undefined,
      readHead: readResponseFields,
      limits,
      clock,
      onError,
      onOpen: () => {
        this.#timer?.cancel();
        this.#isOpen = true;
      },
      onDrain: (reason) => this.#drained(connection, reason),
      onClose: () => void this.#connections.delete(connection),
    });
    this.#connection = connection;
    this.#connections.add(connection);
    this.#timer = clock.setTimer(connectTimeoutMs, () =>
      connection.destroy("the service sent no HTTP/2 settings in time"),
    );
  }

  /** Replaces a connection that accepts no more calls: at once if it delivered responses, otherwise after a pause. */
  #drained(connection: ClientConnection<ResponseFields>, reason: string): void {
    if (this.#connection !== connection) return;
    const hasResponded = this.#hasResponded;
    this.#lastError = reason;
    this.#hasResponded = false;
    this.#connection = undefined;
    this.#isOpen = false;
    this.#timer?.cancel();
    if (this.#isClosed) return;
    if (hasResponded) {
      this.#connect();
      return;
    }
    const pauseMs = this.#pauseMs * (1 - this.#options.random() / 4);
    this.#pauseMs = Math.min(this.#pauseMs * 2, maxPauseMs);
    this.#timer = this.#options.clock.setTimer(pauseMs, () => this.#connect());
  }
}
