/**
 * One endpoint of a rate limit service and the connection to it. It connects ahead of the first call, and reconnects
 * with growing pauses.
 *
 * A server that closes the connection sends GOAWAY: new calls then use a new connection while those in progress finish
 * on the old one. A call that the server has certainly not processed is returned to be sent again; any other is not,
 * since it may have been counted.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import type { Endpoint, UpstreamTls } from "../../../../ir/snapshot.ts";
import { Call, type Ending, type PendingCall } from "./call.ts";
import { ClientConnection } from "./client-connection.ts";
import { type ClientLimits, defaultClientLimits } from "./client-limits.ts";
import { openSocket } from "./open-socket.ts";
import { callFailure } from "./unary-client.ts";

/** The services and limits of connections to a rate limit service. */
export interface ConnectionOptions {
  /** Times attempts to connect (2 s each), the pauses between them, and calls. */
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  /** Rejects addresses that the proxy must not connect to. */
  readonly addresses: AddressGuard;
  /** Absent: `defaultClientLimits`. */
  readonly limits?: ClientLimits;
  /** As `ClientConnectionOptions.onError`. */
  readonly onError?: (error: unknown) => void;
}

/** Time to connect to the service and to receive its settings. */
const connectTimeoutMs = 2_000;
/** Pauses between attempts: doubled from the first to the longest, each reduced by up to a quarter at random. */
const firstPauseMs = 50;
const maxPauseMs = 400;

/** The connection to one endpoint. Pauses between attempts to connect double from 50 ms to 400 ms. */
export class EndpointConnection {
  readonly #options: ConnectionOptions;
  readonly #endpoint: Endpoint;
  readonly #tls: UpstreamTls | undefined;
  readonly #authority: string;
  #connection: ClientConnection | undefined;
  #isOpen = false;
  /**
   * The connection has delivered a response. One that the peer accepts and closes without a response must not be
   * reopened in a tight loop.
   */
  #hasResponded = false;
  #pauseMs = firstPauseMs;
  #timer: Timer | undefined;
  #isClosed = false;
  /** The reason why there is no connection. */
  #lastError = "not connected yet";
  /** All open connections, including draining ones. */
  readonly #connections = new Set<ClientConnection>();
  /** Calls that wait or are in progress. */
  inFlight = 0;

  constructor(endpoint: Endpoint, tls: UpstreamTls | undefined, options: ConnectionOptions) {
    const host = endpoint.host.includes(":") ? `[${endpoint.host}]` : endpoint.host;
    this.#options = options;
    this.#endpoint = endpoint;
    this.#tls = tls;
    this.#authority = `${host}:${endpoint.port}`;
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
    this.#connection.start(new Call(pending, this.#options.clock, this.#ended));
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

  readonly #ended = (_call: Call, ending: Ending): void => {
    this.inFlight--;
    if (ending !== "responded") return;
    this.#hasResponded = true;
    this.#pauseMs = firstPauseMs;
  };

  #connect(): void {
    const { clock, addresses, onError, limits = defaultClientLimits } = this.#options;
    const socket = openSocket(
      { endpoint: this.#endpoint, tls: this.#tls, addresses },
      {
        onConnect: () => connection.sendPreface(),
        onNotHttp2: () => connection.destroy("the service did not select HTTP/2 in the TLS handshake (ALPN h2)"),
        onRead: (chunk) => connection.receive(chunk),
      },
    );
    const connection: ClientConnection = new ClientConnection({
      socket,
      scheme: this.#tls === undefined ? "http" : "https",
      authority: this.#authority,
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
  #drained(connection: ClientConnection, reason: string): void {
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
