/**
 * The connections of this worker to one endpoint, as many as are allowed, and the calls that wait for one. Connections
 * with room for a call wait on a stack, so the warmest is used first and the others age out.
 *
 * A worker has tens of thousands of endpoints and calls few of them, so a pool makes each part of its state at first use.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Dispatcher } from "undici";
import type { Endpoint } from "../ir/snapshot.ts";
import { type CallOwner, type ResponseSink, UpstreamCall, type UpstreamRequest } from "./call.ts";
import {
  addressOf,
  callsPerConnection,
  type Connection,
  type ConnectionOptions,
  type ConnectionTarget,
  openConnection,
} from "./connection.ts";
import { serverName } from "../connect/client-tls.ts";
import { type EndpointFigures, EndpointHealth } from "./endpoint-health.ts";
import type { UpstreamFailure } from "./failure.ts";
import type { UpstreamSettings } from "./upstream-settings.ts";
import { TunnelShare } from "./tunnel-share.ts";
import { WaitingLine } from "./waiting-line.ts";

export interface PoolOptions
  extends ConnectionOptions,
    Pick<UpstreamSettings, "maxConnections" | "maxTunnels" | "maxWaitMs"> {
  readonly clock: Clock;
}

/** The calls of one backend, but for tunnels, added up by its pools. */
export interface BackendLoad {
  /** On a connection or waiting for one. */
  inFlight: number;
  waiting: number;
}

/** Whoever decides what becomes of an endpoint that fails. */
export interface PoolOwner {
  readonly load: BackendLoad;
  onFailed(pool: EndpointPool): void;
}

export class EndpointPool implements CallOwner {
  readonly target: ConnectionTarget;
  #address: string | undefined;
  #health: EndpointHealth | undefined;
  readonly #owner: PoolOwner;
  readonly #options: PoolOptions;
  /** Of a TLS endpoint; undici opens a new socket for each request that names another. */
  readonly #servername: string | null;
  #connections: Set<Connection> | undefined;
  /** Those whose endpoint leaves, until their last call has ended; they count for nothing. */
  #leaving: Set<Connection> | undefined;
  /** Those with room for a call. */
  readonly #free: Connection[] = [];
  #line: WaitingLine | undefined;
  /** Calls whose HTTP/2 connection is being made, or accepts no stream for now (SETTINGS_MAX_CONCURRENT_STREAMS). */
  #starting: WaitingLine | undefined;
  #tunnels: TunnelShare | undefined;
  #closing = false;
  /** Calls that are on a connection or wait for one. */
  inFlight = 0;

  constructor(target: ConnectionTarget, owner: PoolOwner, options: PoolOptions) {
    this.target = target;
    this.#owner = owner;
    this.#options = options;
    this.#servername = target.tls === undefined ? null : serverName(target.endpoint.host, target.tls);
  }

  get endpoint(): Endpoint {
    return this.target.endpoint;
  }

  /** `host:port` */
  get address(): string {
    return (this.#address ??= addressOf(this.target.endpoint));
  }

  get health(): EndpointFigures {
    return this.#health ?? unmeasured;
  }

  /** The endpoint is left out once more. */
  countEjection(): void {
    this.#ownHealth.timesEjected++;
  }

  get #ownHealth(): EndpointHealth {
    return (this.#health ??= new EndpointHealth());
  }

  /** Whether a call would have to wait in line. */
  get isBusy(): boolean {
    return this.#free.length === 0 && this.#size >= this.#maxConnections;
  }

  /** Connections that may carry calls. */
  get #size(): number {
    return this.#connections?.size ?? 0;
  }

  /** Those that tunnels take come on top. */
  get #maxConnections(): number {
    return this.#options.maxConnections + Math.ceil((this.#tunnels?.size ?? 0) / this.#callsPerConnection);
  }

  get #callsPerConnection(): number {
    return callsPerConnection(this.target);
  }

  get #ownTunnels(): TunnelShare {
    return (this.#tunnels ??= new TunnelShare(this.#options.maxTunnels ?? this.#options.maxConnections));
  }

  get #ownLine(): WaitingLine {
    const { clock, maxWaitMs } = this.#options;
    return (this.#line ??= new WaitingLine({
      clock,
      maxWaitMs,
      load: this.#owner.load,
      failure: `no connection has become free within ${maxWaitMs} ms`,
    }));
  }

  get #ownStarting(): WaitingLine {
    const { clock, maxWaitMs, connectTimeoutMs } = this.#options;
    return (this.#starting ??= new WaitingLine({
      clock,
      maxWaitMs: connectTimeoutMs + maxWaitMs,
      load: { waiting: 0 },
      failure: `the endpoint has accepted no HTTP/2 stream within ${maxWaitMs} ms`,
    }));
  }

  /** Whether calls wait for a connection. */
  get hasWaiting(): boolean {
    return this.#line?.first !== undefined;
  }

  /**
   * Fails a call that waits, of the client with the most of them, so that one of `client` can wait in its place.
   *
   * @returns false, and fails none, where `client` itself has as many.
   */
  makeRoomFor(client: string | undefined): boolean {
    return this.#line?.makeRoomFor(client) ?? false;
  }

  /** As `makeRoomFor`, for a call that may switch protocols; true where there is room already. */
  makeRoomForTunnel(client: string | undefined): boolean {
    return this.#ownTunnels.makeRoomFor(client);
  }

  /**
   * Sends `request` as soon as there is a connection with room; `sink` hears of the answer.
   *
   * @param isRepeated whether this endpoint has been sent the same request before: it is a call more, and no request more.
   */
  send(request: UpstreamRequest, sink: ResponseSink, isRepeated = false): UpstreamCall {
    const call = new UpstreamCall(this.address, request, sink, this);
    this.inFlight++;
    if (request.upgrade === undefined) this.#owner.load.inFlight++;
    else this.#ownTunnels.add(call, request.client);
    if (!isRepeated) this.#ownHealth.requests++;
    const connection = this.#connectionWithRoom();
    if (connection === undefined) this.#ownLine.join(call, request);
    else this.#dispatch(connection, request, call);
    return call;
  }

  /** Closes connections that have carried no call since this was called last; undici's client stays after its socket. */
  closeIdle(): void {
    for (const connection of [...this.#free]) {
      if (connection.calls > 0) continue;
      if (connection.isUnused) this.#discard(connection);
      else connection.isUnused = true;
    }
  }

  /** Lets calls finish, those of requests that still hold an older snapshot too, and closes each connection after its last. */
  close(): void {
    this.#closing = true;
    for (const connection of [...this.#free]) if (connection.calls === 0) this.#discard(connection);
  }

  /** Closes every connection now; calls under way fail. */
  destroy(): void {
    this.#closing = true;
    for (const { client } of this.#connections ?? []) void client.destroy();
    for (const connection of this.#leaving ?? []) connection.breakOff();
  }

  begun(call: UpstreamCall): void {
    this.#starting?.leave(call);
  }

  answered(call: UpstreamCall): void {
    const nowMs = this.#options.clock.monotonicMs();
    const isGood = call.status < 500;
    this.#ownHealth.answered(isGood, nowMs - call.sentMs, nowMs);
    if (!isGood) this.#owner.onFailed(this);
  }

  /** Takes a connection back from a call that ended. Of HTTP/1.1, one on which a call failed is not used again. */
  release(call: UpstreamCall, failure: UpstreamFailure | undefined): void {
    this.inFlight--;
    if (this.#tunnels?.delete(call) !== true) this.#owner.load.inFlight--;
    if (failure !== undefined && saysSomethingOfTheEndpoint(failure)) {
      this.#ownHealth.failed(this.#options.clock.monotonicMs());
      this.#owner.onFailed(this);
    }
    const { connection } = call;
    if (connection === undefined) {
      this.#line?.forget(call);
      return;
    }
    call.connection = undefined;
    this.#starting?.leave(call);
    // It accepts no streams, and other connections may: what it carries is finished, and nothing more is sent over it.
    if (failure?.kind === "overloaded") this.#leave(connection);
    if (this.#leaving?.has(connection) === true) {
      connection.calls--;
      if (connection.calls === 0) {
        this.#leaving.delete(connection);
        if (!connection.client.destroyed) void connection.client.destroy();
      }
    } else this.#takeBack(connection, failure !== undefined);
    // The tunnel that it was opened for has ended.
    if (connection.calls === 0 && this.#size > this.#maxConnections) this.#discard(connection);
    this.#serveNext();
    if (this.#closing && connection.calls === 0) this.#discard(connection);
  }

  /** A stream that failed leaves the others of its connection alone, and undici opens a new socket where one broke. */
  #takeBack(connection: Connection, hasFailed: boolean): void {
    const wasFull = connection.calls === this.#callsPerConnection;
    connection.calls--;
    if (hasFailed && this.#callsPerConnection === 1) this.#discard(connection);
    else if (wasFull) this.#free.push(connection);
  }

  #serveNext(): void {
    const next = this.#line?.first;
    if (next === undefined) return;
    const connection = this.#connectionWithRoom();
    if (connection === undefined) return;
    this.#line?.leave(next.call);
    this.#dispatch(connection, next.request, next.call);
  }

  /** The one on top of the stack, which is a new one where there was none. */
  #connectionWithRoom(): Connection | undefined {
    const free = this.#free.at(-1);
    if (free !== undefined || this.#size >= this.#maxConnections) return free;
    const connection = openConnection(this.target, this.#options, (left) => this.#leave(left));
    (this.#connections ??= new Set()).add(connection);
    this.#free.push(connection);
    return connection;
  }

  #leave(connection: Connection): void {
    this.#discard(connection);
    if (connection.calls > 0) (this.#leaving ??= new Set()).add(connection);
  }

  #discard(connection: Connection): void {
    this.#connections?.delete(connection);
    const at = this.#free.indexOf(connection);
    if (at !== -1) this.#free.splice(at, 1);
    // A switched connection may end after the pool was destroyed.
    if (!connection.client.destroyed) void connection.client.close();
  }

  /** @param connection on top of the stack. */
  #dispatch(connection: Connection, request: UpstreamRequest, call: UpstreamCall): void {
    connection.calls++;
    connection.isUnused = false;
    if (connection.calls === this.#callsPerConnection) this.#free.pop();
    call.connection = connection;
    call.sentMs = this.#options.clock.monotonicMs();
    const { idleTimeoutMs = this.#options.idleTimeoutMs } = request;
    // The name is undici's too, only its types do not know.
    const options: Dispatcher.DispatchOptions & { servername: string | null } = {
      method: request.method,
      path: request.path,
      // undici reads the array and keeps none of it; its type only lacks the word readonly.
      headers: request.headers as string[],
      body: request.body ?? null,
      servername: this.#servername,
      headersTimeout: idleTimeoutMs,
      bodyTimeout: idleTimeoutMs,
      upgrade: request.upgrade ?? null,
    };
    try {
      connection.client.dispatch(options, call);
    } catch (error) {
      // A request that undici refuses to write (a method or a header that it finds unsafe): nothing was sent.
      call.onResponseError(undefined, error instanceof Error ? error : new Error(String(error)));
    }
    if (connection.isHttp2 && !call.hasBegun && !call.isOver) this.#ownStarting.join(call, request);
  }
}

/** Not where we gave up ourselves, or never got as far as to ask, nor where it only leaves. */
function saysSomethingOfTheEndpoint({ kind }: UpstreamFailure): boolean {
  return kind !== "aborted" && kind !== "overloaded" && kind !== "refused" && kind !== "forbidden";
}

/** Of every endpoint that has not been called. */
const unmeasured: EndpointFigures = new EndpointHealth();
