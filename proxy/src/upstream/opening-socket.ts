/** Opens the socket of a connection to an endpoint, within its timeout. */
import type { Socket } from "node:net";
import type { Timer } from "@gatewayproxy/runtime/clock";
import { openSocket } from "../connect/open-socket.ts";
import type { PortUse } from "../connect/local-ports.ts";
import { addressOf, type ConnectionOptions, type ConnectionTarget, type SessionStore } from "./connection.ts";

/**
 * Receives the result of an attempt to connect. At most one of `onConnect` and `onConnectError` is called, and not
 * within `OpeningSocket.open`.
 */
export interface SocketOwner {
  /** The client for which the socket is used, or was last; undefined for the proxy itself, and for several. */
  readonly client?: string | undefined;
  /** Called with a socket that has a local address and port, before it is connected. Absent: it is not needed. */
  onConnecting?(socket: Socket): void;
  /** @param protocol that the endpoint has selected in the TLS handshake; undefined if it has selected none. */
  onConnect(socket: Socket, protocol: string | undefined): void;
  onConnectError(error: unknown): void;
  /** Receives bytes of the socket after `onConnect`, as a `ReceiveBytes`. Absent: bytes are events of the socket. */
  receive?(bytes: Buffer, isKept: boolean): boolean;
}

/** An attempt to connect. */
export class OpeningSocket {
  readonly #owner: SocketOwner;
  #socket: Socket | undefined;
  #timer: Timer | undefined;
  #isOver = false;

  private constructor(owner: SocketOwner) {
    this.#owner = owner;
  }

  /** @param sessions with TLS, gets the sessions of the endpoint, and has the one to resume. */
  static open(
    target: ConnectionTarget,
    options: ConnectionOptions,
    sessions: SessionStore,
    owner: SocketOwner,
  ): OpeningSocket {
    const opening = new OpeningSocket(owner);
    opening.#open(target, options, sessions);
    return opening;
  }

  /** Gives up. The owner is not called any more. */
  cancel(): void {
    if (this.#isOver) return;
    this.#end();
    this.#socket?.destroy();
  }

  #open(
    { endpoint, tls, protocol }: ConnectionTarget,
    { addresses, clock, connectTimeoutMs, localPorts }: ConnectionOptions,
    sessions: SessionStore,
  ): void {
    const { session } = sessions;
    const owner = this.#owner;
    try {
      const isStream = protocol === "tcp";
      const offered = protocol === "h2" ? protocol : "http/1.1";
      const target = {
        ...{ host: endpoint.host, port: endpoint.port, tls, addresses, clock, session },
        allowHalfOpen: isStream,
        protocol: isStream ? undefined : offered,
        receive: owner.receive?.bind(owner),
        localPort: localPorts && { ports: localPorts, use: new PortOfOwner(addressOf(endpoint), owner) },
      } as const;
      const socket = openSocket(target, (selected) => this.#onConnect(socket, selected));
      this.#socket = socket.on("error", this.#onError).once("close", this.#onClose);
      // The socket begins to connect in the next tick.
      if (owner.onConnecting !== undefined) process.nextTick(() => this.#onConnecting(socket));
      if (tls !== undefined) socket.on("session", (next: Buffer) => (sessions.session = next));
    } catch (error) {
      // TLS settings that Node rejects fail only the calls with them.
      process.nextTick(this.#onError, error);
    }
    this.#timer = clock.setTimer(connectTimeoutMs, () => {
      this.#onError(new Error(`no connection within ${connectTimeoutMs} ms`));
    });
  }

  #onConnecting(socket: Socket): void {
    if (!this.#isOver && socket.localPort !== undefined) this.#owner.onConnecting?.(socket);
  }

  #onConnect(socket: Socket, protocol: string | undefined): void {
    if (this.#isOver) return;
    this.#end();
    socket.off("error", this.#onError).off("close", this.#onClose);
    this.#owner.onConnect(socket, protocol);
  }

  readonly #onError = (error: unknown): void => {
    if (this.#isOver) return;
    this.cancel();
    this.#owner.onConnectError(error);
  };

  readonly #onClose = (): void => {
    this.#onError(new Error("the connection was closed"));
  };

  #end(): void {
    this.#isOver = true;
    this.#timer?.cancel();
  }
}

/** The use of a socket by its owner. */
class PortOfOwner implements PortUse {
  readonly address: string;
  readonly #owner: SocketOwner;

  constructor(address: string, owner: SocketOwner) {
    this.address = address;
    this.#owner = owner;
  }

  get client(): string | undefined {
    return this.#owner.client;
  }
}
