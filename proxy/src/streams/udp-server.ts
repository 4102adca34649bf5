/**
 * The socket of a UDP listener and its sessions, by the address and port of the client. A session begins with a
 * datagram for which there is none, and ends after its idle timeout. Where no session can begin, the datagram is
 * dropped and counted.
 */
import type { RemoteInfo, Socket } from "node:dgram";
import { isIP } from "node:net";
import { networkOf, shortAddress } from "@gatewayproxy/runtime/ip-address";
import { newStreamRecord, type StreamEnd, type StreamRecord } from "../telemetry/stream-record.ts";
import type { CompiledStreamListener, CompiledStreamRoute } from "./compiled-stream-route.ts";
import { admit } from "./connection-limits.ts";
import type { SessionShare } from "./session-share.ts";
import type { StreamServices } from "./stream-services.ts";
import { UdpSession } from "./udp-session.ts";
import { openUdp, type UdpAddress } from "./udp-socket.ts";

/** The most bytes of replies that wait for the kernel. Further ones are dropped. */
const maxQueuedBytes = 4 * 1024 * 1024;

/** Denied sessions that are recorded in a second. A datagram costs its sender nothing, and may have any source. */
const maxRecordedDenials = 100;

/** A listening socket with its sessions. `open` creates it. */
export class UdpServer {
  readonly #socket: Socket;
  readonly #services: StreamServices;
  readonly #share: SessionShare;
  readonly #sessions = new Map<string, UdpSession>();
  readonly #closed: Promise<void>;
  #listener: CompiledStreamListener | undefined;
  #isDraining = false;
  /** Denied sessions that were recorded since `#denialsSinceMs`. */
  #denials = 0;
  #denialsSinceMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  private constructor(socket: Socket, services: StreamServices, share: SessionShare) {
    this.#socket = socket;
    this.#services = services;
    this.#share = share;
    this.#closed = new Promise((resolve) => void socket.once("close", resolve));
    // An error of a reply: its client is gone. Sending continues for the others.
    socket.on("error", () => undefined);
    socket.on("message", (datagram, from) => this.#guard(() => this.#receive(datagram, from)));
  }

  /** Rejects with the error of Node. @param share bounds the sessions of all binds of the worker. */
  static async open(address: UdpAddress, services: StreamServices, share: SessionShare): Promise<UdpServer> {
    return new UdpServer(await openUdp(address), services, share);
  }

  get port(): number {
    return this.#socket.address().port;
  }

  /** The open sessions. */
  get live(): Iterable<UdpSession> {
    return this.#sessions.values();
  }

  /** Takes the listener of a snapshot. Ends the sessions whose route is gone, or no longer refers to their backend. */
  update(listener: CompiledStreamListener | undefined): void {
    this.#listener = listener;
    const route = this.#route;
    for (const session of [...this.#sessions.values()]) {
      const { record } = session;
      const isServed =
        route?.key === record.route && !route?.isClosed && route?.backends.has(record.backend ?? "") === true;
      if (!isServed || record.listener !== listener?.key) session.end("RouteChanged");
    }
  }

  get #route(): CompiledStreamRoute | undefined {
    return this.#listener?.routes.find("");
  }

  #receive(datagram: Buffer, from: RemoteInfo): void {
    const key = `${from.address} ${from.port}`;
    const session = this.#sessions.get(key) ?? this.#begin(key, from);
    if (typeof session === "object") session.send(datagram);
    else this.#services.observer.datagramDropped(this.#listener?.key ?? "", session);
  }

  /** Returns the reason if no session can begin. */
  #begin(key: string, { address, port }: RemoteInfo): UdpSession | StreamEnd {
    const { addresses, clock, ipv6PrefixLength, ownSockets } = this.#services;
    const route = this.#route;
    if (this.#isDraining) return "Drained";
    if (route === undefined) return "RouteNotFound";
    if (route.isClosed) return "PolicyRefused";
    if (ownSockets.hasSession({ address, port })) return "Loop";
    const sourceAddress = shortAddress(address) ?? address;
    const client = networkOf(sourceAddress, ipv6PrefixLength);
    if (!this.#share.hasRoomFor(client)) return "Shed";
    const target = route.pick();
    if (target?.kind !== "backend") return "InvalidBackend";
    const { backend } = target;
    const pool = backend.pickStream();
    // A host name that is not resolved yet has no address.
    if (pool === undefined || isIP(pool.endpoint.host) === 0) return "NoReadyEndpoint";
    const { host, port: endpointPort } = pool.endpoint;
    if (addresses.denialReason(host, endpointPort) !== undefined) return "ForbiddenAddress";
    const record = this.#newRecord(route, sourceAddress, clock.nowMs());
    record.backend = backend.backend.key;
    record.endpoint = pool.address;
    record.attempts = 1;
    const admission = admit(route, record, this.#services);
    if (admission.kind === "denied") return this.#deny(record);
    // A session that a limit denies takes the place of no other.
    this.#share.makeRoomFor(client);
    const session = new UdpSession(
      this.#services,
      { reply: (to, datagram) => this.#reply(to, datagram), onOver: (over) => this.#forget(key, over) },
      { client, address, port, pool, isEndpoint: () => backend.has(pool.address), place: admission.place, record },
    );
    this.#sessions.set(key, session);
    this.#share.add(session);
    return session;
  }

  /** A denied session is recorded as denied connections are, with its decisions, up to a number in a second. */
  #deny(record: StreamRecord): StreamEnd {
    const { clock, observer } = this.#services;
    const nowMs = clock.monotonicMs();
    if (nowMs - this.#denialsSinceMs >= 1_000) {
      this.#denials = 0;
      this.#denialsSinceMs = nowMs;
    }
    if (this.#denials++ >= maxRecordedDenials) return "RateLimited";
    observer.streamOpened(record);
    record.reason = "RateLimited";
    observer.streamEnded(record);
    return "RateLimited";
  }

  #newRecord({ key, rule }: CompiledStreamRoute, sourceAddress: string, startMs: number): StreamRecord {
    return newStreamRecord({
      protocol: "UDP",
      startMs,
      sourceAddress,
      serverName: undefined,
      listener: this.#listener?.key,
      route: key,
      rule,
      gateway: this.#listener?.gateway,
    });
  }

  #reply({ address, port, record }: UdpSession, datagram: Buffer): void {
    if (this.#isClosed) return;
    if (port === 0) {
      // The sender expects no reply (RFC 768), and there is no port to send one to.
      this.#services.observer.datagramDropped(record.listener ?? "", "NoSourcePort");
    } else if (this.#socket.getSendQueueSize() > maxQueuedBytes) {
      this.#services.observer.datagramDropped(record.listener ?? "", "BufferFull");
    } else {
      this.#socket.send(datagram, port, address, ignore);
    }
  }

  #forget(key: string, session: UdpSession): void {
    if (this.#sessions.get(key) === session) this.#sessions.delete(key);
    this.#share.delete(session);
    if (this.#isDraining && this.#sessions.size === 0) this.destroy("Drained");
  }

  /** Reports bytes, and ends idle sessions. @param nowMs monotonic. */
  sweep(nowMs: number): void {
    for (const session of [...this.#sessions.values()]) session.sweep(nowMs);
  }

  /** Begins no sessions. Resolves when the last one has ended, which each does when it is idle for two seconds. */
  drain(): Promise<void> {
    this.#isDraining = true;
    for (const session of this.#sessions.values()) session.drain();
    if (this.#sessions.size === 0) this.destroy("Drained");
    return this.#closed;
  }

  /** Closes the socket and all sessions at once. */
  destroy(reason: StreamEnd): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const session of [...this.#sessions.values()]) session.end(reason);
    this.#socket.close();
  }

  #guard(action: () => void): void {
    try {
      action();
    } catch (error) {
      this.#services.onFault(error);
    }
  }
}

function ignore(): void {
  // An error of one reply: the client is gone.
}
