/** A connection to an endpoint over HTTP/2, with prior knowledge or by ALPN (RFC 9113 §3). It carries many calls. */
import type { Socket } from "node:net";
import type { Timer } from "@gatewayproxy/runtime/clock";
import { isNamed } from "@gatewayproxy/http/fields";
import { defaultHttp2ClientLimits } from "@gatewayproxy/http/http2/client/client-limits";
import { Http2ClientConnection } from "@gatewayproxy/http/http2/client/http2-client";
import type { ClientExchange, ClientRequest } from "@gatewayproxy/http/ports";
import {
  callsPerConnection,
  type Connection,
  type ConnectionCall,
  type ConnectionOptions,
  type ConnectionOwner,
  type ConnectionTarget,
  type SessionStore,
} from "./connection.ts";
import { connectFailure, unsendable } from "./failure.ts";
import { OpeningSocket, type SocketOwner } from "./opening-socket.ts";

/** The part of the window that uploads may use before others get another connection, as on an open connection. */
const crowdedPart = 3 / 4;

/** A call and its request. */
interface SentCall {
  readonly request: ClientRequest;
  readonly idleTimeoutMs: number;
  readonly call: ConnectionCall;
}

/**
 * Responses after which a connection gets another call at a time, where its endpoint has rejected some. The one more
 * may be rejected and repeated, so that it is not tried at each response.
 */
const completedForMore = 100;

/** A socket, which is opened for the first call. */
export class Http2Connection implements Connection, SocketOwner {
  readonly #target: ConnectionTarget;
  readonly #options: ConnectionOptions;
  readonly #sessions: SessionStore;
  readonly #owner: ConnectionOwner;
  #opening: OpeningSocket | undefined;
  /** Runs from the connection of the socket until the endpoint has sent its SETTINGS. */
  #settingsTimer: Timer | undefined;
  /** Undefined until the socket is connected. */
  #wire: Http2ClientConnection | undefined;
  /** The calls that wait for the SETTINGS of the endpoint, in order. */
  readonly #waiting = new Set<WaitingCall>();
  #isOpen = false;
  #isClosed = false;
  readonly isHttp2 = true;
  maxCalls: number;
  /** The streams that the endpoint accepts, as it says. */
  #announced: number;
  /** Calls that have got their responses since `maxCalls` has changed. */
  #completed = 0;
  readonly calls = new Set<ConnectionCall>();
  isFree = false;
  isUnused = false;

  constructor(target: ConnectionTarget, options: ConnectionOptions, sessions: SessionStore, owner: ConnectionOwner) {
    this.#target = target;
    this.#options = options;
    this.#sessions = sessions;
    this.#owner = owner;
    this.#announced = owner.maxStreams ?? Number.POSITIVE_INFINITY;
    this.maxCalls = this.#most;
  }

  get #most(): number {
    return Math.min(callsPerConnection(this.#target), this.#announced, this.#owner.takenStreams ?? this.#announced);
  }

  rejected(): void {
    this.#owner.takenStreams = Math.max(1, this.calls.size);
    this.#completed = 0;
    this.maxCalls = this.#most;
  }

  completed(): void {
    const { takenStreams } = this.#owner;
    if (takenStreams === undefined || ++this.#completed < completedForMore) return;
    this.#completed = 0;
    this.#owner.takenStreams = takenStreams < callsPerConnection(this.#target) ? takenStreams + 1 : undefined;
    this.maxCalls = this.#most;
  }

  get isAvailable(): boolean {
    return !this.#isClosed && (!this.#isOpen || this.#wire?.isAvailable === true);
  }

  get isCrowded(): boolean {
    if (this.#isOpen) return this.#wire?.isCrowded === true;
    let bytes = 0;
    for (const { announcedBytes } of this.#waiting) bytes += announcedBytes;
    // The first connection finds out how much it takes.
    return bytes > (this.#owner.windowBytes ?? Number.POSITIVE_INFINITY) * crowdedPart;
  }

  send(request: ClientRequest, idleTimeoutMs: number, call: ConnectionCall): void {
    const sent = { request, idleTimeoutMs, call };
    if (this.#isOpen && this.#wire !== undefined) {
      this.#owner.windowBytes = this.#wire.largestWindowBytes;
      start(this.#wire, sent);
      return;
    }
    call.begin(new WaitingCall(sent, this.#waiting));
    this.#opening ??= OpeningSocket.open(this.#target, this.#options, this.#sessions, this);
  }

  onConnect(socket: Socket, protocol: string | undefined): void {
    if (this.#target.tls !== undefined && protocol !== "h2") {
      socket.on("error", () => undefined).destroy();
      this.onConnectError(new Error("the endpoint has not selected HTTP/2 in the TLS handshake (ALPN h2)"));
      return;
    }
    const { sweeper, clock, connectTimeoutMs } = this.#options;
    const wire = new Http2ClientConnection(socket, {
      limits: defaultHttp2ClientLimits,
      clock,
      onOpen: () => this.#onOpen(wire),
      onMaxStreams: (max) => this.#onMaxStreams(max),
      onUnavailable: (reason) => this.#leave(new Error(reason)),
      onClosed: () => sweeper.delete(wire),
    });
    sweeper.add(wire);
    this.#wire = wire;
    this.#settingsTimer = clock.setTimer(connectTimeoutMs, () => {
      this.#leave(new Error(`the endpoint has sent no SETTINGS of HTTP/2 within ${connectTimeoutMs} ms`));
      wire.destroy();
    });
  }

  receive(bytes: Buffer): boolean {
    return this.#wire?.receive(bytes) ?? true;
  }

  onConnectError(error: unknown): void {
    this.#leave(error);
  }

  #onMaxStreams(max: number): void {
    // An endpoint that accepts none now may accept some later.
    const most = max === 0 ? Number.POSITIVE_INFINITY : max;
    this.#announced = most;
    this.maxCalls = this.#most;
    this.#owner.maxStreams = most;
    this.#owner.onMaxStreams?.(this);
  }

  #onOpen(wire: Http2ClientConnection): void {
    this.#settingsTimer?.cancel();
    this.#isOpen = true;
    this.#owner.windowBytes = wire.largestWindowBytes;
    const waiting = this.#takeWaiting();
    for (const { sent } of waiting.slice(0, this.maxCalls)) start(wire, sent);
    const beyond = waiting.slice(this.maxCalls).map(({ sent }) => sent.call);
    if (beyond.length > 0) this.#owner.onBeyondMax?.(this, beyond);
  }

  /** Takes no more calls. Those on the wire go on, those that wait for it fail. */
  #leave(error: unknown): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#settingsTimer?.cancel();
    const failure = connectFailure(error);
    for (const { sent } of this.#takeWaiting()) sent.call.onFailure(failure);
    this.#owner.onUnavailable(this);
  }

  #takeWaiting(): readonly WaitingCall[] {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    return waiting;
  }

  close(): void {
    if (this.#isOpen) this.#wire?.close();
    else if (this.calls.size === 0) this.destroy();
  }

  destroy(): void {
    this.#isClosed = true;
    this.#settingsTimer?.cancel();
    this.#opening?.cancel();
    for (const { sent } of this.#takeWaiting()) process.nextTick(failClosed, sent);
    this.#wire?.destroy();
  }
}

function start(wire: Http2ClientConnection, { request, idleTimeoutMs, call }: SentCall): void {
  try {
    call.begin(wire.send(request, idleTimeoutMs, call));
  } catch (error) {
    process.nextTick(() => call.onFailure(unsendable(error)));
  }
}

function failClosed({ call }: SentCall): void {
  call.onFailure(connectFailure(new Error("closed")));
}

/** A call before the endpoint accepts requests. */
class WaitingCall implements ClientExchange {
  readonly sent: SentCall;
  readonly announcedBytes: number;
  readonly bufferedBytes = 0;
  readonly #waiting: Set<WaitingCall>;

  /** @param waiting gets the call, until it is aborted. */
  constructor(sent: SentCall, waiting: Set<WaitingCall>) {
    this.sent = sent;
    this.announcedBytes = announcedBytesOf(sent.request);
    this.#waiting = waiting.add(this);
  }

  pause(): void {
    // Nothing is received yet.
  }

  resume(): void {
    // Nothing is received yet.
  }

  abort(): void {
    this.#waiting.delete(this);
  }
}

/** Returns the length of a body; 0 if it is not known. */
function announcedBytesOf({ body, fields }: ClientRequest): number {
  if (body === undefined) return 0;
  if (Buffer.isBuffer(body)) return body.length;
  const at = fields.findIndex((field, index) => index % 2 === 0 && isNamed(field, "content-length"));
  return at === -1 ? 0 : Number(fields[at + 1]);
}
