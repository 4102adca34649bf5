/**
 * The datagrams of one client address and port, and the replies to them. A session has a socket of its own to its
 * endpoint, so that the kernel separates the replies of sessions, and reports an endpoint at which nothing listens.
 */
import { createSocket, type Socket } from "node:dgram";
import { isIP } from "node:net";
import type { CounterReservation } from "../policy/ratelimit/counter-reservation.ts";
import type { DropReason, StreamEnd, StreamRecord } from "../telemetry/stream-record.ts";
import type { CountedStream, EndpointPool } from "../upstream/endpoint-pool.ts";
import { isLocalShortage } from "../upstream/failure.ts";
import { RelayedBytes } from "./relayed-bytes.ts";
import type { Sharing } from "./session-share.ts";
import type { StreamServices } from "./stream-services.ts";

/** The most bytes that wait for the kernel in one socket. Further datagrams are dropped, as the kernel itself does. */
const maxQueuedBytes = 256 * 1024;

/** What a session uses of its bind. */
export interface SessionOwner {
  /** Sends a reply to the client from the listening socket. */
  reply(session: UdpSession, datagram: Buffer): void;
  onOver(session: UdpSession): void;
}

/** The client of a session, its endpoint, and its place in the limits. */
export interface SessionStart {
  /** The network of the client. */
  readonly client: string;
  /** As the listening socket gave them. */
  readonly address: string;
  readonly port: number;
  readonly pool: EndpointPool;
  /** Whether the backend has the address of the endpoint. */
  readonly isEndpoint: () => boolean;
  readonly place: CounterReservation | undefined;
  readonly record: StreamRecord;
}

/** A session, from its first datagram on. */
export class UdpSession implements Sharing {
  readonly record: StreamRecord;
  readonly client: string;
  readonly address: string;
  readonly port: number;
  readonly #services: StreamServices;
  readonly #owner: SessionOwner;
  readonly #place: CounterReservation | undefined;
  readonly #pool: EndpointPool;
  readonly #isEndpoint: () => boolean;
  readonly #counted: CountedStream;
  readonly #socket: Socket;
  readonly #startMs: number;
  /** Whether the socket is connected. Datagrams before are kept, up to the bound of the socket. */
  #isConnected = false;
  #waiting: Buffer[] = [];
  /** Removes the socket from those of the worker. */
  #forgetSocket: (() => void) | undefined;
  #waitingBytes = 0;
  #hasReplied = false;
  #isOver = false;
  #isDraining = false;
  /** When the endpoint was seen to be removed, at a sweep. */
  #removedMs: number | undefined;
  /** When a datagram was last seen, at a sweep. */
  #activeMs: number;
  #datagrams = 0;
  #seenDatagrams = 0;
  readonly #bytes: RelayedBytes;

  constructor(services: StreamServices, owner: SessionOwner, start: SessionStart) {
    const { host, port } = start.pool.endpoint;
    this.#services = services;
    this.#owner = owner;
    this.record = start.record;
    this.#bytes = new RelayedBytes(start.record, services.observer);
    this.client = start.client;
    this.address = start.address;
    this.port = start.port;
    this.#place = start.place;
    this.#startMs = services.clock.monotonicMs();
    this.#activeMs = this.#startMs;
    this.#pool = start.pool;
    this.#isEndpoint = start.isEndpoint;
    this.#counted = start.pool.countStream();
    this.#socket = createSocket({ type: isIP(host) === 6 ? "udp6" : "udp4" });
    this.#socket.on("error", (error) => this.#guard(() => this.#onError(error)));
    this.#socket.on("message", (datagram) => this.#guard(() => this.#onReply(datagram)));
    services.observer.streamOpened(this.record);
    this.#socket.connect(port, host, () => this.#guard(() => this.#onConnect()));
  }

  /** Sends a datagram of the client to the endpoint. */
  send(datagram: Buffer): void {
    this.#datagrams++;
    this.record.receivedBytes += datagram.length;
    if (this.#isConnected) {
      this.#send(datagram);
    } else if (this.#waitingBytes + datagram.length <= maxQueuedBytes) {
      this.#waitingBytes += datagram.length;
      this.#waiting.push(datagram);
    } else {
      this.#dropped("BufferFull");
    }
  }

  #send(datagram: Buffer): void {
    if (this.#socket.getSendQueueSize() > maxQueuedBytes) this.#dropped("BufferFull");
    else this.#socket.send(datagram, (error) => error && this.#guard(() => this.#onError(error)));
  }

  #dropped(reason: DropReason): void {
    this.#services.observer.datagramDropped(this.record.listener ?? "", reason);
  }

  #onConnect(): void {
    if (this.#isOver) return;
    this.#isConnected = true;
    this.#forgetSocket = this.#services.ownSockets.addSession(this.#socket.address());
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const datagram of waiting) this.#send(datagram);
  }

  #onReply(datagram: Buffer): void {
    if (this.#isOver) return;
    if (!this.#hasReplied) {
      this.#hasReplied = true;
      this.record.connectMs = this.#services.clock.monotonicMs() - this.#startMs;
      this.#counted.succeeded(this.record.connectMs);
    }
    this.#datagrams++;
    this.record.sentBytes += datagram.length;
    this.#owner.reply(this, datagram);
  }

  /**
   * The kernel reports that nothing listens at the endpoint (ICMP), or that it cannot be reached. A datagram that is
   * too large for the path to the endpoint, as one over IPv6 may be for IPv4, is dropped. Neither this nor a local
   * shortage is a failure of the endpoint.
   */
  #onError(error: NodeJS.ErrnoException): void {
    if (this.#isOver) return;
    if (error.code === "EMSGSIZE") {
      this.#dropped("TooLarge");
    } else if (isLocalShortage(error)) {
      if (this.#isConnected) this.#dropped("BufferFull");
      else this.end("Shed");
    } else {
      this.#counted.failed();
      this.end(this.#hasReplied ? "BackendReset" : "UpstreamConnectFailure");
    }
  }

  /** As `Sharing.displace`. */
  displace(): void {
    this.end("Shed");
  }

  /** Ends the session when it is idle for a moment. */
  drain(): void {
    this.#isDraining = true;
  }

  /** Reports the bytes since the last call, and ends an idle session. @param nowMs monotonic. */
  sweep(nowMs: number): void {
    this.#bytes.report();
    if (this.#datagrams !== this.#seenDatagrams) {
      this.#seenDatagrams = this.#datagrams;
      this.#activeMs = nowMs;
    }
    const { udpIdleTimeoutMs } = this.#services.settings;
    const idleMs = nowMs - this.#activeMs;
    if (idleMs >= udpIdleTimeoutMs) this.end("IdleTimeout");
    else if (this.#isDraining && idleMs >= drainIdleMs) this.end("Drained");
    else if (this.#removedForMs(nowMs) >= removedMs) this.end("EndpointRemoved");
  }

  /** The time for which the backend has not had the endpoint. An endpoint that is ready again has another pool. */
  #removedForMs(nowMs: number): number {
    if (!this.#pool.isRemoved || this.#isEndpoint()) {
      this.#removedMs = undefined;
      return 0;
    }
    this.#removedMs ??= nowMs;
    return nowMs - this.#removedMs;
  }

  /** Ends the session at once. */
  end(reason: StreamEnd): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const nowMs = this.#services.clock.monotonicMs();
    this.#waiting = [];
    this.#bytes.report();
    this.#counted.end();
    this.#place?.release(nowMs);
    this.#socket.close();
    this.#forgetSocket?.();
    this.record.durationMs = nowMs - this.#startMs;
    this.record.reason = reason;
    this.#services.observer.streamEnded(this.record);
    this.#owner.onOver(this);
  }

  #guard(action: () => void): void {
    try {
      action();
    } catch (error) {
      this.#services.onFault(error);
      this.end("Internal");
    }
  }
}

/**
 * Time for which a session stays at an endpoint that its backend does not have any more. A pod that ends serves its
 * sessions meanwhile; later, another pod may have its address.
 */
const removedMs = 30_000;

/** Time without a datagram after which a session ends while the proxy drains. */
const drainIdleMs = 2_000;
