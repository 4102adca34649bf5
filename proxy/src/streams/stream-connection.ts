/**
 * One connection of a client that is relayed to a backend: it is allowed by the limits of its route, ends TLS where the
 * listener does, is connected to an endpoint, and relays until both sides are closed.
 */
import type { Socket } from "node:net";
import { networkOf } from "@gatewayproxy/runtime/ip-address";
import type { HeldStream } from "../listen/client-connections.ts";
import type { AcceptedStream, SecuredStream } from "../listen/stream-receiver.ts";
import { closeWithAlert, type TlsAlert } from "../listen/tls-alert.ts";
import type { CounterReservation } from "../policy/ratelimit/counter-reservation.ts";
import { newStreamRecord, type StreamEnd, type StreamRecord } from "../telemetry/stream-record.ts";
import type { BackendHandle } from "../upstream/backend-handle.ts";
import type { CountedStream, EndpointPool } from "../upstream/endpoint-pool.ts";
import { connectFailure, saysSomethingOfTheEndpoint } from "../upstream/failure.ts";
import type { OpeningSocket } from "../upstream/opening-socket.ts";
import type { CompiledStreamListener, CompiledStreamRoute } from "./compiled-stream-route.ts";
import { admit } from "./connection-limits.ts";
import { abort, Relay } from "./relay.ts";
import { RelayedBytes } from "./relayed-bytes.ts";
import type { StreamServices } from "./stream-services.ts";

/** The most endpoints that are tried for a connection. */
const maxAttempts = 3;

/** The listener and the route of a connection; undefined if there is none. */
export interface StreamPlace {
  readonly listener: CompiledStreamListener | undefined;
  readonly route: CompiledStreamRoute | undefined;
  /** Whether the TLS of the client does not end here; without a listener, whether any of the bind passes it on. */
  readonly passesTls: boolean;
}

/** Relays one connection. `onOver` is called once, when nothing of it is left. */
export class StreamConnection implements HeldStream, SecuredStream {
  readonly record: StreamRecord;
  /** As `OpenConnection.peer`. */
  readonly peer: string;
  readonly #services: StreamServices;
  readonly #accepted: AcceptedStream;
  readonly #place: StreamPlace;
  readonly #onOver: (connection: StreamConnection) => void;
  readonly #startMs: number;
  /** From which plain bytes are read, above TLS where the gateway ends it. */
  #socket: Socket;
  #isSecured = false;
  #held: CounterReservation | undefined;
  #counted: CountedStream | undefined;
  #opening: OpeningSocket | undefined;
  #backend: Socket | undefined;
  #relay: Relay | undefined;
  /** Why the proxy closes it. */
  #closing: StreamEnd | undefined;
  #isOver = false;
  readonly #bytes: RelayedBytes;
  /** When a byte was last seen to be relayed. */
  #activeMs: number;

  constructor(
    services: StreamServices,
    accepted: AcceptedStream,
    place: StreamPlace,
    onOver: (connection: StreamConnection) => void,
  ) {
    const { clock } = services;
    this.#services = services;
    this.#accepted = accepted;
    this.#place = place;
    this.#onOver = onOver;
    this.#startMs = clock.monotonicMs();
    this.#activeMs = this.#startMs;
    this.#socket = accepted.client.socket;
    this.peer = accepted.peer;
    this.record = newRecord(accepted, place, clock.nowMs());
    this.#bytes = new RelayedBytes(this.record, services.observer);
    accepted.client.beginStream(this);
    services.observer.streamOpened(this.record);
    accepted.client.socket.once("close", () => {
      // The relay has its own view of the end.
      if (this.#relay === undefined) this.#end("ClientReset");
    });
  }

  /** As `HeldStream.heldBytes`. */
  get heldBytes(): number {
    return this.#relay?.heldBytes ?? 0;
  }

  /**
   * Allows the connection by its limits, or closes it. Returns whether it is allowed; `start` or `onSecure` continue.
   */
  admit(): boolean {
    const { route } = this.#place;
    const { hello } = this.#accepted;
    if (hello?.kind === "invalid") return this.#reject("BadClientHello", hello.isTls ? "decodeError" : undefined);
    if (route === undefined) return this.#reject("RouteNotFound", "unrecognizedName");
    if (route.isClosed) return this.#reject("PolicyRefused", "accessDenied");
    const { ownSockets } = this.#services;
    if (ownSockets.isOtherEnd(this.#accepted.client.socket)) return this.#reject("Loop", "internalError");
    const admission = admit(route, this.record, this.#services);
    if (admission.kind === "denied") return this.#reject("RateLimited", "accessDenied");
    this.#held = admission.place;
    return true;
  }

  /** Connects to a backend and relays. */
  start(): void {
    this.#guard(() => this.#pickBackend());
  }

  /**
   * As `SecuredStream.onSecure`. The route is that of the first ClientHello. A second one (HelloRetryRequest, RFC 8446
   * §4.1.4) may not name another server, whose listener may not validate clients.
   */
  onSecure(socket: Socket, serverName: string): void {
    if (this.#isOver) {
      socket.destroy();
      return;
    }
    this.#socket = socket;
    this.#isSecured = true;
    if (serverName === (this.record.serverName ?? "")) this.start();
    else this.#reject("TlsFailure", undefined);
  }

  /** As `SecuredStream.onRejected`. */
  onRejected(): void {
    this.#closing ??= "TlsFailure";
  }

  /** As `HeldStream.onShed`. The caller closes the socket of the client. */
  onShed(): void {
    this.#closing ??= "Shed";
    this.#backend?.destroy();
  }

  /** Closes both sides at once. */
  close(reason: StreamEnd): void {
    if (this.#isOver) return;
    this.#closing ??= reason;
    if (this.#relay === undefined) this.#end(reason);
    // Neither side may take the end for that of the stream, unless no byte has come for long.
    const closeSocket = reason === "IdleTimeout" ? destroy : abort;
    if (this.#backend !== undefined) closeSocket(this.#backend);
    closeSocket(this.#socket);
    this.#accepted.client.socket.destroy();
  }

  /**
   * Reports the bytes since the last call, and closes the connection after its idle timeout.
   *
   * @param nowMs monotonic.
   */
  sweep(nowMs: number): void {
    const relay = this.#relay;
    if (relay === undefined) return;
    if (this.#reportBytes(relay)) this.#activeMs = nowMs;
    const { tcpIdleTimeoutMs } = this.#services.settings;
    if (tcpIdleTimeoutMs > 0 && nowMs - this.#activeMs >= tcpIdleTimeoutMs) this.close("IdleTimeout");
  }

  /** Returns whether there are any. */
  #reportBytes({ receivedBytes, sentBytes }: Relay): boolean {
    this.record.receivedBytes = receivedBytes;
    this.record.sentBytes = sentBytes;
    return this.#bytes.report();
  }

  get #network(): string {
    return networkOf(this.record.sourceAddress, this.#services.ipv6PrefixLength);
  }

  #pickBackend(): void {
    const target = this.#place.route?.pick();
    if (target?.kind !== "backend") {
      this.#reject("InvalidBackend", "internalError");
      return;
    }
    this.record.backend = target.backend.backend.key;
    this.#tryNext(target.backend, [], "NoReadyEndpoint");
  }

  /** @param tried the endpoints that failed. @param failure the end of the connection if there is no other. */
  #tryNext(backend: BackendHandle, tried: readonly EndpointPool[], failure: StreamEnd): void {
    const pool = tried.length === maxAttempts ? undefined : backend.pickStream(tried);
    if (pool === undefined) {
      this.#reject(failure, "internalError");
      return;
    }
    const { clock } = this.#services;
    const startMs = clock.monotonicMs();
    const counted = pool.countStream();
    this.#counted = counted;
    this.record.endpoint = pool.address;
    this.record.attempts++;
    this.#opening = pool.openStream(
      {
        client: this.#network,
        onConnecting: (socket) => {
          const { host: address, port } = pool.endpoint;
          this.#guard(() => this.#services.ownSockets.addConnection(socket, { address, port }));
        },
        onConnect: (socket) => {
          this.#guard(() => {
            this.record.connectMs = clock.monotonicMs() - startMs;
            counted.succeeded(this.record.connectMs);
            this.#begin(socket);
          });
        },
        onConnectError: (error) => {
          this.#guard(() => {
            const failure = connectFailure(error);
            if (saysSomethingOfTheEndpoint(failure)) counted.failed();
            counted.end();
            this.#counted = undefined;
            const end = failure.kind === "forbidden" ? "ForbiddenAddress" : "UpstreamConnectFailure";
            this.#tryNext(backend, [...tried, pool], end);
          });
        },
      },
      this.#place.passesTls,
    );
  }

  #begin(backend: Socket): void {
    backend.on("error", ignore);
    this.#opening = undefined;
    if (this.#isOver || this.#socket.destroyed) {
      backend.destroy();
      return;
    }
    this.#backend = backend;
    this.#activeMs = this.#services.clock.monotonicMs();
    const relay = new Relay({ client: this.#socket, backend }, (end) => {
      this.#guard(() => {
        this.#reportBytes(relay);
        this.#end(end);
      });
    });
    this.#relay = relay;
  }

  /**
   * Closes a connection for which nothing was relayed.
   *
   * @param alert for clients whose TLS ends here; undefined: none.
   */
  #reject(reason: StreamEnd, alert: TlsAlert | undefined): false {
    const { socket } = this.#accepted.client;
    this.#end(reason);
    // Where TLS is passed on, the gateway has no part in the handshake: an alert would be one of the backend.
    const isTlsServer = this.#accepted.hello !== undefined && !this.#place.passesTls;
    if (this.#isSecured) this.#socket.destroy();
    else if (isTlsServer && alert !== undefined) closeWithAlert(socket, alert, this.#services.clock);
    else abort(socket);
    return false;
  }

  #end(reason: StreamEnd): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { clock, observer } = this.#services;
    const nowMs = clock.monotonicMs();
    this.#opening?.cancel();
    this.#counted?.end();
    this.#held?.release(nowMs);
    this.record.durationMs = nowMs - this.#startMs;
    this.record.reason = this.#closing ?? reason;
    observer.streamEnded(this.record);
    this.#onOver(this);
  }

  /** Ends the connection if `action` throws. */
  #guard(action: () => void): void {
    try {
      action();
    } catch (error) {
      this.#services.onFault(error);
      this.close("Internal");
    }
  }
}

function newRecord(
  { sourceAddress, hello }: AcceptedStream,
  { listener, route }: StreamPlace,
  startMs: number,
): StreamRecord {
  const serverName = hello?.kind === "hello" && hello.serverName !== "" ? hello.serverName : undefined;
  return newStreamRecord({
    protocol: hello === undefined ? "TCP" : "TLS",
    startMs,
    sourceAddress,
    serverName,
    listener: listener?.key,
    route: route?.key,
    rule: route?.rule,
    gateway: listener?.gateway,
  });
}

function destroy(socket: Socket): void {
  socket.destroy();
}

function ignore(): void {
  // Nothing to do: "close" reports it.
}
