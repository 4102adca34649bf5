/**
 * One endpoint of a rate limit service and the connection to it: opened ahead of the first call, opened again with growing
 * pauses when it is lost.
 *
 * A server that is about to leave says so (GOAWAY): calls then go on a new connection while those under way finish on the
 * old one. A call that the server has provably not begun is handed back to be sent once more; any other is not, since it
 * may have been counted.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import type { Endpoint, UpstreamTls } from "../../../../ir/snapshot.ts";
import { Call, type Ending, type PendingCall } from "./call.ts";
import { ClientConnection } from "./client-connection.ts";
import { type ClientLimits, defaultClientLimits } from "./client-limits.ts";
import { openSocket } from "./open-socket.ts";
import { callFailure } from "./unary-client.ts";

export interface ConnectionOptions {
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  readonly addresses: AddressGuard;
  readonly limits?: ClientLimits;
  /** As `ClientConnectionOptions.onFault`. */
  readonly onFault?: (error: unknown) => void;
}

/** For the service to be connected to and to send its settings. */
const connectTimeoutMs = 2_000;
/** Pauses between attempts: doubled from the first to the longest, each shortened by up to a quarter at random. */
const firstPauseMs = 50;
const longestPauseMs = 400;

export class EndpointConnection {
  readonly #options: ConnectionOptions;
  readonly #endpoint: Endpoint;
  readonly #tls: UpstreamTls | undefined;
  readonly #authority: string;
  #connection: ClientConnection | undefined;
  #isOpen = false;
  /** The connection has answered a call: one that is merely accepted and closed again must not be opened in a tight loop. */
  #hasAnswered = false;
  #pauseMs = firstPauseMs;
  #timer: Timer | undefined;
  #isClosed = false;
  /** Why there is no connection. */
  #fault = "not connected yet";
  /** Connections that still finish calls, the current one among them. */
  readonly #connections = new Set<ClientConnection>();
  /** Calls that wait or are under way. */
  inFlight = 0;

  constructor(endpoint: Endpoint, tls: UpstreamTls | undefined, options: ConnectionOptions) {
    const host = endpoint.host.includes(":") ? `[${endpoint.host}]` : endpoint.host;
    this.#options = options;
    this.#endpoint = endpoint;
    this.#tls = tls;
    this.#authority = `${host}:${endpoint.port}`;
    this.#connect();
  }

  /** `open` takes calls at once, `opening` keeps them until it is open, `lost` refuses them. */
  get state(): "open" | "opening" | "lost" {
    if (this.#isClosed || this.#connection === undefined) return "lost";
    return this.#isOpen ? "open" : "opening";
  }

  /** Why calls are refused, for the log. */
  get fault(): string {
    return `no connection to ${this.#authority}: ${this.#fault}`;
  }

  /** Sends a call, or keeps it until the connection is open. */
  send(pending: PendingCall): void {
    if (this.#connection === undefined) {
      pending.returned(callFailure("unavailable", this.fault));
      return;
    }
    this.inFlight++;
    this.#connection.start(new Call(pending, this.#options.clock, this.#ended));
  }

  /** Takes no more calls, lets those under way finish, and closes. */
  retire(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
    for (const connection of this.#connections) connection.leave("the endpoint is no longer one of the service");
  }

  /** Closes now; calls under way fail. */
  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
    for (const connection of this.#connections) connection.destroy("the connection is closed");
  }

  readonly #ended = (_call: Call, ending: Ending): void => {
    this.inFlight--;
    if (ending !== "heard") return;
    this.#hasAnswered = true;
    this.#pauseMs = firstPauseMs;
  };

  #connect(): void {
    const { clock, addresses, onFault, limits = defaultClientLimits } = this.#options;
    const socket = openSocket(
      { endpoint: this.#endpoint, tls: this.#tls, addresses },
      {
        onConnect: () => connection.greet(),
        onStranger: () => connection.destroy("TLS without HTTP/2 (ALPN h2)"),
        onRead: (chunk) => connection.receive(chunk),
      },
    );
    const connection: ClientConnection = new ClientConnection({
      socket,
      scheme: this.#tls === undefined ? "http" : "https",
      authority: this.#authority,
      limits,
      clock,
      onFault,
      onOpen: () => {
        this.#timer?.cancel();
        this.#isOpen = true;
      },
      onLeave: (reason) => this.#left(connection, reason),
      onClose: () => void this.#connections.delete(connection),
    });
    this.#connection = connection;
    this.#connections.add(connection);
    this.#timer = clock.setTimer(connectTimeoutMs, () => connection.destroy("the service does not greet in time"));
  }

  /** A connection takes no more calls; the next one opens at once if this one had been of use. */
  #left(connection: ClientConnection, reason: string): void {
    if (this.#connection !== connection) return;
    const wasOfUse = this.#hasAnswered;
    this.#fault = reason;
    this.#hasAnswered = false;
    this.#connection = undefined;
    this.#isOpen = false;
    this.#timer?.cancel();
    if (this.#isClosed) return;
    if (wasOfUse) {
      this.#connect();
      return;
    }
    const pauseMs = this.#pauseMs * (1 - this.#options.random() / 4);
    this.#pauseMs = Math.min(this.#pauseMs * 2, longestPauseMs);
    this.#timer = this.#options.clock.setTimer(pauseMs, () => this.#connect());
  }
}
