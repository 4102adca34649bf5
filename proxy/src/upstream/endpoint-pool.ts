/**
 * The connections of this worker to an endpoint, up to a maximum, and the calls that wait for one. Available
 * connections are on a stack, so that the last used one is used first and the others become idle.
 *
 * A worker calls thousands of endpoints seldom, so a pool creates each part of its state at first use.
 */
import { areOrdinary } from "@gatewayproxy/http/http2/ordinary-fields";
import type { Endpoint } from "../ir/snapshot.ts";
import { type CallOwner, type ResponseSink, UpstreamCall, type UpstreamRequest } from "./call.ts";
import {
  addressOf,
  callsPerConnection,
  type Connection,
  type ConnectionCall,
  type ConnectionOptions,
  type ConnectionOwner,
  type ConnectionTarget,
  type SessionStore,
} from "./connection.ts";
import { IsolatedClients } from "./isolated-clients.ts";
import { ClientCalls } from "./client-calls.ts";
import { callsToDisplace, displace, type Shares, sharesOf } from "./connection-shares.ts";
import { createConnection } from "./create-connection.ts";
import { type EndpointFigures, EndpointHealth, unmeasured } from "./endpoint-health.ts";
import { BackendLoad } from "./backend-load.ts";
import { saysSomethingOfTheEndpoint, type UpstreamFailure } from "./failure.ts";
import type { EndpointSockets, SocketHolder } from "./endpoint-sockets.ts";
import { OpeningSocket, type SocketOwner } from "./opening-socket.ts";
import type { UpstreamSettings } from "./upstream-settings.ts";
import { TunnelShare } from "./tunnel-share.ts";
import { type PendingCall, PendingQueue } from "./pending-queue.ts";

/** Default of `UpstreamSettings.maxLeaving`. */
const maxLeaving = 1_024;
/** The part of `maxLeaving` that each client may have while no connection takes calls. */
const leavingPart = 1 / 64;
/** Maximum idle connections for requests that need one of their own. To keep some saves TLS handshakes. */
const maxKeptOwn = 64;

/** The settings of the connections to one endpoint; all pools of a backend share them. */
export interface PoolOptions
  extends ConnectionOptions,
    Pick<UpstreamSettings, "maxConnections" | "maxLeaving" | "maxTunnels" | "maxWaitMs"> {
  /** Counts the connections to all endpoints. */
  readonly sockets: EndpointSockets;
}

/** A stream of an endpoint, or a session, which counts as a call until `end`. */
export interface CountedStream {
  /** The endpoint has accepted it, or has responded. */
  succeeded(latencyMs: number): void;
  /** The endpoint could not be reached. */
  failed(): void;
  /** Must be called once. */
  end(): void;
}

/** The owner of a pool, which decides about ejection. */
export interface PoolOwner {
  readonly load: BackendLoad;
  onFailed(pool: EndpointPool): void;
}

/** The pool of one endpoint. Its calls are counted in the load of its backend. */
export class EndpointPool implements CallOwner, ConnectionOwner, SessionStore, SocketHolder {
  readonly target: ConnectionTarget;
  #address: string | undefined;
  #health: EndpointHealth | undefined;
  readonly #owner: PoolOwner;
  readonly #options: PoolOptions;
  #connections: Set<Connection> | undefined;
  /**
   * Connections that take no more calls, until their last one has ended. Their number is bounded: a client could
   * otherwise hold a call on each connection, and make it leave by cancelling others.
   */
  #leaving: Set<Connection> | undefined;
  /** Undefined once a connection or a call of `#leaving` has begun or ended. */
  #leavingShares: Shares | undefined;
  /** The available connections. */
  readonly #free: Connection[] = [];
  /** Idle connections for requests that need one of their own, the last used one last. */
  #keptOwn: Connection[] | undefined;
  #pending: PendingQueue | undefined;
  /**
   * Calls with an HTTP/2 connection that is being opened, or accepts no stream now (SETTINGS_MAX_CONCURRENT_STREAMS).
   */
  #starting: PendingQueue | undefined;
  #tunnels: TunnelShare | undefined;
  #isolatedClients: IsolatedClients | undefined;
  /** Connections that were opened after the endpoint has last ended one before it processed a request. */
  #newer: Set<Connection> | undefined;
  #closing = false;
  /** A connection changes hands: it is given to no other pending call. */
  #isDisplacing = false;
  /** Calls that have a connection or wait for one. */
  inFlight = 0;
  session: Buffer | undefined;
  windowBytes: number | undefined;
  maxStreams: number | undefined;

  constructor(target: ConnectionTarget, owner: PoolOwner, options: PoolOptions) {
    this.target = target;
    this.#owner = owner;
    this.#options = options;
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

  /** As `EndpointHealth.failuresToEject`. */
  get failuresToEject(): number {
    return this.#health?.failuresToEject(this.#options.clock.monotonicMs()) ?? 0;
  }

  /** Counts an ejection. */
  countEjection(): void {
    this.#ownHealth.timesEjected++;
  }

  get #ownHealth(): EndpointHealth {
    return (this.#health ??= new EndpointHealth());
  }

  /** Whether a call would have to wait. */
  get isBusy(): boolean {
    if (this.#free.length > 0) return false;
    return this.#size >= this.#maxConnections || this.#hasManyLeaving || this.#options.sockets.isFull;
  }

  /** Whether another connection has to wait until one that takes no more calls has ended. */
  get #hasManyLeaving(): boolean {
    return (this.#leaving?.size ?? 0) >= this.#maxLeaving;
  }

  get #maxLeaving(): number {
    return this.#options.maxLeaving ?? maxLeaving;
  }

  /** The number of connections for calls. */
  get #size(): number {
    return this.#connections?.size ?? 0;
  }

  /** The maximum, to which the connections of tunnels are added. */
  get #maxConnections(): number {
    return this.#options.maxConnections + Math.ceil((this.#tunnels?.size ?? 0) / this.#callsPerConnection);
  }

  get #callsPerConnection(): number {
    return callsPerConnection(this.target);
  }

  get #ownTunnels(): TunnelShare {
    return (this.#tunnels ??= new TunnelShare(this.#options.maxTunnels ?? this.#options.maxConnections));
  }

  get #ownPending(): PendingQueue {
    const { clock, maxWaitMs } = this.#options;
    return (this.#pending ??= new PendingQueue({
      clock,
      maxWaitMs,
      load: this.#owner.load,
      failure: `no connection became available within ${maxWaitMs} ms`,
      onOverdue: (calls) => this.#serveOverdue(calls),
    }));
  }

  get #ownStarting(): PendingQueue {
    const { clock, maxWaitMs, connectTimeoutMs } = this.#options;
    return (this.#starting ??= new PendingQueue({
      clock,
      maxWaitMs: connectTimeoutMs + maxWaitMs,
      // These calls do not wait for others: the connection is theirs.
      load: new BackendLoad({ waiting: 0 }),
      failure: `the endpoint has accepted no HTTP/2 stream within ${maxWaitMs} ms`,
    }));
  }

  get hasPending(): boolean {
    return this.#pending?.first !== undefined;
  }

  /** Whether calls wait for a connection that a call to this endpoint may hold. */
  get hasWaiting(): boolean {
    return this.hasPending || (!this.#sharesConnections && this.#options.sockets.hasWaiting);
  }

  get busyConnections(): readonly Connection[] {
    const connections = [...(this.#connections ?? []), ...(this.#leaving ?? [])];
    return connections.filter(({ calls }) => calls.size > 0);
  }

  /** The calls that have a connection, without tunnels, which have connections of their own. */
  get callsInProgress(): readonly ConnectionCall[] {
    return this.#withoutTunnels(this.busyConnections);
  }

  #withoutTunnels(connections: Iterable<Connection>): readonly ConnectionCall[] {
    const calls = [...connections].flatMap((connection) => [...connection.calls]);
    return this.#tunnels === undefined ? calls : calls.filter((call) => this.#tunnels?.has(call) !== true);
  }

  closeIdleConnection(): boolean {
    const idle = this.#keptOwn?.[0] ?? this.#free.find(({ calls }) => calls.size === 0);
    if (idle === undefined) return false;
    this.#discard(idle);
    return true;
  }

  /**
   * Fails a pending call of the client with the most of them, so that one of `client` can wait instead.
   *
   * @returns false, without failing one, if `client` itself has as many.
   */
  makeRoomFor(client: string | undefined): boolean {
    return this.#pending?.makeRoomFor(client) ?? false;
  }

  /** As `makeRoomFor`, for a call that may switch protocols. Returns true if there is room. */
  makeRoomForTunnel(client: string | undefined): boolean {
    return this.#ownTunnels.makeRoomFor(client);
  }

  /**
   * Sends `request` as soon as a connection is available. `sink` receives the response.
   *
   * @param isRepeated whether this endpoint got the same request before: it counts as another call, but not as another
   *   request.
   */
  send(request: UpstreamRequest, sink: ResponseSink, isRepeated = false): UpstreamCall {
    const call = new UpstreamCall(this.address, request, sink, this);
    this.inFlight++;
    if (request.upgrade === undefined) this.#owner.load.inFlight++;
    else this.#ownTunnels.add(call, request.client);
    if (!isRepeated) this.#ownHealth.requests++;
    const newer = isRepeated ? this.#newerConnectionFor(request) : undefined;
    this.#sendOrQueue(call, request, newer ?? this.#connectionFor(request));
    return call;
  }

  #sendOrQueue(call: UpstreamCall, request: UpstreamRequest, connection: Connection | undefined): void {
    if (connection === undefined) this.#ownPending.join(call, request);
    else this.#dispatch(connection, request, call);
  }

  /** Counts a stream or a session, without a connection of the pool. */
  countStream(): CountedStream {
    const { clock } = this.#options;
    this.inFlight++;
    this.#ownHealth.requests++;
    return {
      succeeded: (latencyMs) => this.#ownHealth.responded(true, latencyMs, clock.monotonicMs()),
      failed: () => {
        this.#ownHealth.failed(clock.monotonicMs());
        this.#owner.onFailed(this);
      },
      end: () => void this.inFlight--,
    };
  }

  /**
   * Opens a socket to the endpoint for a stream. `owner` gets it.
   *
   * @param isPlain whether the TLS of the backend is not used, since the stream is one of TLS already.
   */
  openStream(owner: SocketOwner, isPlain: boolean): OpeningSocket {
    const { endpoint, tls } = this.target;
    const target = { endpoint, protocol: "tcp", ...(tls !== undefined && !isPlain && { tls }) } as const;
    return OpeningSocket.open(target, this.#options, this, owner);
  }

  /** Closes connections without a call since the last time. */
  closeIdle(): void {
    for (const connection of [...this.#free, ...(this.#keptOwn ?? [])]) {
      if (connection.calls.size > 0) continue;
      if (connection.isUnused) this.#discard(connection);
      else connection.isUnused = true;
    }
  }

  /** Whether the endpoint was removed from its backend. */
  get isRemoved(): boolean {
    return this.#closing;
  }

  /** Closes each connection after its last call, including calls of requests with an older snapshot. */
  close(): void {
    this.#closing = true;
    for (const connection of [...this.#free, ...(this.#keptOwn ?? [])]) {
      if (connection.calls.size === 0) this.#discard(connection);
    }
  }

  /** Closes every connection now. Calls in progress fail. */
  destroy(): void {
    this.#closing = true;
    for (const connections of [this.#connections, this.#leaving, this.#keptOwn]) {
      for (const connection of [...(connections ?? [])]) connection.destroy();
    }
  }

  begun(call: UpstreamCall): void {
    this.#starting?.leave(call);
  }

  responded(call: UpstreamCall): void {
    const nowMs = this.#options.clock.monotonicMs();
    const isGood = call.status < 500;
    this.#ownHealth.responded(isGood, nowMs - call.sentMs, nowMs, call.client);
    if (!isGood) this.#owner.onFailed(this);
  }

  /** Takes the connection of an ended call back. */
  release(call: UpstreamCall, failure: UpstreamFailure | undefined): void {
    this.inFlight--;
    if (this.#tunnels?.delete(call) !== true) this.#owner.load.inFlight--;
    if (failure !== undefined && saysSomethingOfTheEndpoint(failure)) {
      const nowMs = this.#options.clock.monotonicMs();
      if (failure.kind === "connect") this.#ownHealth.failed(nowMs);
      else this.#ownHealth.failedFor(call.client, nowMs);
      this.#owner.onFailed(this);
    } else if (failure?.isRejected === true) {
      const isFailure = this.#ownHealth.rejected(call.client, this.#options.clock.monotonicMs());
      if (isFailure) this.#owner.onFailed(this);
    }
    const { connection } = call;
    if (failure !== undefined && connection !== undefined) this.#isolate(call, connection, failure);
    if (connection === undefined) {
      this.#leavePending(call);
      return;
    }
    call.connection = undefined;
    this.#starting?.leave(call);
    // A connection that stays available has rejected this request only.
    if (failure?.kind === "unprocessed" && !connection.isAvailable) this.#newer = new Set();
    // It accepts no streams, and other connections may. Its calls finish, and no other is sent on it.
    if (failure?.kind === "overloaded" && failure.isDisplaced !== true) this.onUnavailable(connection);
    connection.calls.delete(call);
    if (failure === undefined) connection.completed?.();
    else if (failure.isStreamRejected === true) connection.rejected?.();
    if (this.#leaving?.has(connection) === true) {
      this.#leavingShares = undefined;
      if (connection.calls.size === 0) {
        this.#leaving.delete(connection);
        if (failure === undefined && this.#mayKeepOwn(connection)) {
          (this.#keptOwn ??= []).push(connection);
        } else {
          connection.destroy();
          this.#options.sockets.release(this);
        }
      }
    } else {
      this.#takeBack(connection);
    }
    // The tunnel for which it was opened has ended.
    if (connection.calls.size === 0 && this.#size > this.#maxConnections) this.#discard(connection);
    this.#options.sockets.serve(this);
    if (this.#closing && connection.calls.size === 0) this.#discard(connection);
    this.#options.sockets.serveWaiting();
  }

  /** The clients that are the cause get connections of their own. */
  #isolate(call: UpstreamCall, connection: Connection, failure: UpstreamFailure): void {
    const { isUpload, isExhausted } = failure;
    if (isUpload === undefined && isExhausted === undefined) return;
    const clients = (this.#isolatedClients ??= new IsolatedClients());
    const nowMs = this.#options.clock.monotonicMs();
    if (isUpload !== undefined) clients.failed(call, connection, failure, nowMs);
    if (isExhausted !== true) return;
    clients.exhausted(connection, nowMs);
    this.onUnavailable(connection);
    this.#newer = new Set();
  }

  #leavePending(call: UpstreamCall): void {
    this.#pending?.leave(call);
    if (!this.hasPending) this.#options.sockets.leave(this);
  }

  /** A failed stream does not affect the others of its connection. */
  #takeBack(connection: Connection): void {
    if (!connection.isAvailable) this.#discard(connection);
    else if (!connection.isFree && connection.calls.size < connection.maxCalls) this.#addFree(connection);
  }

  /** Removes a connection from those for requests that need one of their own. Returns whether it was one of them. */
  #removeKeptOwn(connection: Connection): boolean {
    const at = this.#keptOwn?.indexOf(connection) ?? -1;
    if (at !== -1) this.#keptOwn?.splice(at, 1);
    return at !== -1;
  }

  #removeFree(connection: Connection): void {
    const at = connection.isFree ? this.#free.lastIndexOf(connection) : -1;
    if (at !== -1) this.#free.splice(at, 1);
    connection.isFree = false;
  }

  #addFree(connection: Connection): void {
    connection.isFree = true;
    this.#free.push(connection);
  }

  /** Calls beyond a lower maximum that are on the wire wait there. */
  onMaxStreams(connection: Connection): void {
    if (this.#connections?.has(connection) !== true) return;
    if (connection.calls.size >= connection.maxCalls) this.#removeFree(connection);
    else if (!connection.isFree) this.#addFree(connection);
  }

  onBeyondMax(connection: Connection, calls: readonly ConnectionCall[]): void {
    for (const each of calls) {
      const place = this.#starting?.placeOf(each);
      if (place === undefined) continue;
      const { call, request } = place;
      this.#starting?.leave(call);
      connection.calls.delete(call);
      call.connection = undefined;
      this.#sendOrQueue(call, request, this.#connectionFor(request));
    }
  }

  serveNext(): void {
    if (this.#isDisplacing) return;
    for (const { call, request } of this.#pending?.firstOfEach ?? []) {
      const connection = this.#connectionFor(request);
      if (connection !== undefined) {
        this.#leavePending(call);
        this.#dispatch(connection, request, call);
        return;
      }
      // Others do not wait for connections of their own.
      if (!this.#needsOwn(request)) return;
    }
  }

  /**
   * Serves calls of clients that have fewer calls than another one, whose newest call makes room. Otherwise a client
   * could hold all connections to an endpoint that takes long for its requests.
   */
  #serveOverdue(overdue: readonly PendingCall[]): void {
    // The end of a call on a connection that takes no more calls makes no room.
    const calls = new ClientCalls(this.#withoutTunnels(this.#connections ?? []));
    for (const { call, request } of overdue) {
      if (call.isOver || call.connection !== undefined || request.upgrade !== undefined) continue;
      if (this.#needsOwn(request)) continue;
      this.#isDisplacing = true;
      const hasRoom = calls.displaceFor(request.client);
      this.#isDisplacing = false;
      if (!hasRoom) continue;
      const connection = this.#connectionFor(request);
      if (connection === undefined) break;
      this.#leavePending(call);
      this.#dispatch(connection, request, call);
    }
    this.serveNext();
  }

  /**
   * Returns a connection for a request. One whose head is not ordinary gets one of its own, since servers may end the
   * connection for it, and so does one of a client that has made the endpoint end one.
   */
  #connectionFor(request: UpstreamRequest): Connection | undefined {
    const { client, body } = request;
    if (this.#needsOwn(request)) return this.#makeRoomOfLeaving(client) ? this.#ownConnection(client) : undefined;
    const connection = this.#connectionWithRoom(client);
    return body !== undefined && connection?.isCrowded === true ? this.#lessCrowded(connection, client) : connection;
  }

  /**
   * Returns a connection that was opened after the endpoint has ended one. A server that restarts ends all older ones,
   * and which of them it has ended is not known until that is read.
   */
  #newerConnectionFor(request: UpstreamRequest): Connection | undefined {
    const newer = this.#newer;
    if (newer === undefined || this.#needsOwn(request)) return undefined;
    return this.#freeWhere((connection) => newer.has(connection)) ?? this.#additionalConnection(request.client);
  }

  #needsOwn({ client, path, fields }: UpstreamRequest): boolean {
    if (!this.#sharesConnections) return false;
    return !areOrdinary(fields, path) || this.#isolatedClients?.has(client, this.#options.clock.monotonicMs()) === true;
  }

  /** Returns a connection without a call, which the pool does not count as free. */
  #ownConnection(client: string | undefined): Connection | undefined {
    return this.#keptOwn?.pop() ?? this.#newConnection(client);
  }

  /** Whether a connection is kept for the next request that needs one of its own. */
  #mayKeepOwn({ isAvailable }: Connection): boolean {
    // One that was discarded is not available.
    return isAvailable && !this.#closing && (this.#keptOwn?.length ?? 0) < maxKeptOwn;
  }

  /** Returns a connection on which an upload does not wait for others; `crowded` if there can be no other. */
  #lessCrowded(crowded: Connection, client: string | undefined): Connection {
    const other = this.#freeWhere(({ isCrowded }) => !isCrowded);
    return other ?? this.#additionalConnection(client) ?? crowded;
  }

  /** Returns a connection with room for another call that meets a condition. */
  #freeWhere(isSuitable: (connection: Connection) => boolean): Connection | undefined {
    return this.#free.findLast(
      (connection) => connection.isAvailable && connection.calls.size < connection.maxCalls && isSuitable(connection),
    );
  }

  get #sharesConnections(): boolean {
    return this.#callsPerConnection > 1;
  }

  /** Returns the connection on top of the stack, or a new one for a call of `client`. */
  #connectionWithRoom(client: string | undefined): Connection | undefined {
    for (let free = this.#free.at(-1); free !== undefined; free = this.#free.at(-1)) {
      if (!free.isAvailable) {
        this.#discard(free);
      } else if (free.calls.size < free.maxCalls) {
        return free;
      } else {
        free.isFree = false;
        this.#free.pop();
      }
    }
    return this.#additionalConnection(client);
  }

  #additionalConnection(client: string | undefined): Connection | undefined {
    if (this.#size >= this.#maxConnections || !this.#makeRoomOfLeaving(client)) return undefined;
    const connection = this.#newConnection(client);
    if (connection !== undefined) this.#addFree(connection);
    return connection;
  }

  #newConnection(client: string | undefined): Connection | undefined {
    if (!this.#options.sockets.take(this, client)) return undefined;
    const connection = createConnection(this.target, this.#options, this, this);
    (this.#connections ??= new Set()).add(connection);
    this.#newer?.add(connection);
    return connection;
  }

  /**
   * Ends a leaving connection, if there are too many, so that `client` gets another one.
   *
   * @returns whether there is room. There is none if `client` would have the largest share of them. Where many clients
   *   have small shares, and no connection takes calls, there is room nevertheless: one client could otherwise make all
   *   wait for the long calls of others, by cancelled ones.
   */
  #makeRoomOfLeaving(client: string | undefined): boolean {
    const leaving = this.#leaving;
    if (leaving === undefined || !this.#hasManyLeaving) return true;
    if (this.#isDisplacing) return false;
    const shares = (this.#leavingShares ??= sharesOf(leaving));
    const smallShare = Math.max(1, this.#maxLeaving * leavingPart);
    if (this.#size === 0 && shares.of(shares.largest) <= smallShare) return true;
    const calls = callsToDisplace(leaving, shares, client);
    this.#isDisplacing = true;
    for (const call of calls) displace(call);
    this.#isDisplacing = false;
    return !this.#hasManyLeaving;
  }

  onUnavailable(connection: Connection): void {
    this.#discard(connection);
  }

  /** Closes a connection after its calls. */
  #discard(connection: Connection): void {
    this.#removeFree(connection);
    const wasKept = this.#removeKeptOwn(connection);
    connection.close();
    this.#newer?.delete(connection);
    if (this.#connections?.delete(connection) !== true && !wasKept) return;
    if (connection.calls.size > 0) this.#addLeaving(connection);
    else this.#options.sockets.release(this);
  }

  #addLeaving(connection: Connection): void {
    (this.#leaving ??= new Set()).add(connection);
    this.#leavingShares = undefined;
  }

  /** @param connection free, or one of its own. */
  #dispatch(connection: Connection, request: UpstreamRequest, call: UpstreamCall): void {
    const isOwn = !connection.isFree;
    connection.calls.add(call);
    connection.isUnused = false;
    if (!isOwn && connection.calls.size >= connection.maxCalls) this.#removeFree(connection);
    call.connection = connection;
    call.sentMs = this.#options.clock.monotonicMs();
    const { idleTimeoutMs = this.#options.idleTimeoutMs } = request;
    connection.send(request, idleTimeoutMs, call);
    if (connection.isHttp2 && !call.hasBegun && !call.isOver) this.#ownStarting.join(call, request);
    if (!isOwn) return;
    this.#connections?.delete(connection);
    this.#addLeaving(connection);
  }
}
