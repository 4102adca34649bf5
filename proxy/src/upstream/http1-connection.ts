/** A connection to an endpoint over HTTP/1.1. It carries one call at a time. */
import type { Socket } from "node:net";
import { defaultHttp1ClientLimits, Http1ClientConnection } from "@gatewayproxy/http/http1/client-connection";
import type { ClientExchange, ClientRequest } from "@gatewayproxy/http/ports";
import type {
  Connection,
  ConnectionCall,
  ConnectionOptions,
  ConnectionOwner,
  ConnectionTarget,
  SessionStore,
} from "./connection.ts";
import { connectFailure, unsendable } from "./failure.ts";
import { OpeningSocket, type SocketOwner } from "./opening-socket.ts";

/** A call and its request, before the socket is connected. */
interface FirstCall {
  readonly request: ClientRequest;
  readonly idleTimeoutMs: number;
  readonly call: ConnectionCall;
}

/** A socket, which is opened for the first call. */
export class Http1Connection implements Connection, ClientExchange, SocketOwner {
  readonly #target: ConnectionTarget;
  readonly #options: ConnectionOptions;
  readonly #sessions: SessionStore;
  readonly #owner: ConnectionOwner;
  #opening: OpeningSocket | undefined;
  #first: FirstCall | undefined;
  /** Undefined until the socket is connected. */
  #wire: Http1ClientConnection | undefined;
  #isClosed = false;
  readonly isHttp2 = false;
  readonly maxCalls = 1;
  readonly isCrowded = false;
  readonly bufferedBytes = 0;
  readonly calls = new Set<ConnectionCall>();
  isFree = false;
  isUnused = false;
  /** As `SocketOwner.client`. */
  client: string | undefined;

  constructor(target: ConnectionTarget, options: ConnectionOptions, sessions: SessionStore, owner: ConnectionOwner) {
    this.#target = target;
    this.#options = options;
    this.#sessions = sessions;
    this.#owner = owner;
  }

  get isAvailable(): boolean {
    return !this.#isClosed && (this.#wire === undefined ? this.#opening === undefined : this.#wire.isAvailable);
  }

  send(request: ClientRequest, idleTimeoutMs: number, call: ConnectionCall): void {
    this.client = call.client;
    if (this.#wire !== undefined) {
      this.#start(this.#wire, { request, idleTimeoutMs, call });
      return;
    }
    this.#first = { request, idleTimeoutMs, call };
    call.begin(this);
    this.#opening = OpeningSocket.open(this.#target, this.#options, this.#sessions, this);
  }

  #start(wire: Http1ClientConnection, { request, idleTimeoutMs, call }: FirstCall): void {
    try {
      call.begin(wire.send(request, idleTimeoutMs, call));
      call.onSent();
    } catch (error) {
      process.nextTick(() => call.onFailure(unsendable(error)));
    }
  }

  onConnect(socket: Socket): void {
    const first = this.#first;
    this.#first = undefined;
    const { sweeper } = this.#options;
    const wire = new Http1ClientConnection(socket, {
      limits: defaultHttp1ClientLimits,
      onClosed: () => {
        sweeper.delete(wire);
        this.#onClosed();
      },
    });
    sweeper.add(wire);
    this.#wire = wire;
    if (first !== undefined) this.#start(wire, first);
  }

  receive(bytes: Buffer, isKept: boolean): boolean {
    return this.#wire?.receive(bytes, isKept) ?? true;
  }

  onConnectError(error: unknown): void {
    const first = this.#first;
    this.#discard();
    first?.call.onFailure(connectFailure(error));
    this.#owner.onUnavailable(this);
  }

  #onClosed(): void {
    this.#isClosed = true;
    this.#owner.onUnavailable(this);
  }

  close(): void {
    if (this.calls.size === 0) this.destroy();
  }

  destroy(): void {
    const first = this.#first;
    this.#discard();
    if (first !== undefined) process.nextTick(() => first.call.onFailure(connectFailure(new Error("closed"))));
  }

  #discard(): void {
    this.#isClosed = true;
    this.#first = undefined;
    this.#opening?.cancel();
    this.#wire?.destroy();
  }

  // The exchange of the first call, while the socket connects.

  pause(): void {
    // Nothing is received yet.
  }

  resume(): void {
    // Nothing is received yet.
  }

  abort(): void {
    this.#discard();
  }
}
