/** A connection to an HTTP/2 server (RFC 9113) that sends many concurrent requests, as exchanges (`ports.ts`). */
import type { Socket } from "node:net";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { ClientExchange, ClientRequest } from "../../ports.ts";
import type { Swept } from "../../sweep.ts";
import { ClientConnection } from "./client-connection.ts";
import { Http2ClientExchange, type Http2ExchangeEvents } from "./client-exchange.ts";
import type { ClientLimits } from "./client-limits.ts";
import type { ResponseHead } from "./response-block.ts";

/** The bounds and services of a connection, and the receivers of its changes. */
export interface Http2ClientOptions {
  readonly limits: ClientLimits;
  /** Times pings and tunnels. */
  readonly clock: Clock;
  /** Called once, when the server accepts requests, unless the connection fails before. */
  readonly onOpen: () => void;
  /** As `ClientConnectionOptions.onMaxStreams`. */
  readonly onMaxStreams?: ((max: number) => void) | undefined;
  /**
   * Called once, when the connection accepts no more requests: by GOAWAY, or because it closes.
   *
   * @param reason for the log.
   */
  readonly onUnavailable: (reason: string) => void;
  /** Called once, when the socket has closed. */
  readonly onClosed: () => void;
  /** Called for an internal error of this side in reading a response. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** A connected socket and the requests in progress. */
export class Http2ClientConnection implements Swept {
  readonly #connection: ClientConnection<ResponseHead>;
  readonly #scheme: "http" | "https";
  readonly #clock: Clock;

  /**
   * @param socket connected, with TLS after its handshake, and not read before. Its owner passes received bytes to
   *   `receive` (`socket-reads.ts`).
   */
  constructor(socket: Socket, options: Http2ClientOptions) {
    const isTls = "encrypted" in socket;
    this.#scheme = isTls ? "https" : "http";
    this.#clock = options.clock;
    this.#connection = new ClientConnection({
      socket,
      isTls,
      readHead: (head) => head,
      limits: options.limits,
      clock: options.clock,
      onOpen: options.onOpen,
      onMaxStreams: options.onMaxStreams,
      onDrain: options.onUnavailable,
      onClose: options.onClosed,
      onError: options.onError,
    });
    this.#connection.sendPreface();
  }

  /** Receives bytes of the socket, as a `ReceiveBytes`. */
  receive(bytes: Buffer): boolean {
    this.#connection.receive(bytes);
    return true;
  }

  /** Whether another request may be sent now. It may have to wait until the server accepts another stream. */
  get isAvailable(): boolean {
    return this.#connection.isAvailable;
  }

  /** The largest window that the server has given to all uploads together. */
  get largestWindowBytes(): number {
    return this.#connection.largestWindowBytes;
  }

  /** Whether an upload may have to wait until the server reads those of others. */
  get isCrowded(): boolean {
    return this.#connection.isCrowded;
  }

  /**
   * Sends a request, after `onOpen`. The events other than `onSent` begin after this call. A switch of protocols is
   * requested by extended CONNECT (RFC 8441), and `onSwitched` has the fields that a client of HTTP/1 expects.
   *
   * @param idleTimeoutMs maximum time without progress in either direction, exact to a second; 0 is unlimited.
   * @throws `TypeError` for a request that is not valid in HTTP/2. Nothing is sent then.
   */
  send(request: ClientRequest, idleTimeoutMs: number, events: Http2ExchangeEvents): ClientExchange {
    const exchange = new Http2ClientExchange({
      request,
      scheme: this.#scheme,
      idleTimeoutMs,
      events,
      clock: this.#clock,
    });
    if (request.upgrade !== undefined && !this.#connection.allowsConnect) {
      exchange.unprocessed("the server does not accept extended CONNECT (RFC 8441)");
    } else {
      this.#connection.start(exchange);
    }
    return exchange;
  }

  sweep(): void {
    this.#connection.sweep();
  }

  /** Closes the connection after the requests in progress. */
  close(): void {
    this.#connection.drain("the connection is no longer used");
  }

  /** Closes the connection at once. Requests in progress fail. */
  destroy(): void {
    this.#connection.destroy("the connection was closed");
  }
}
