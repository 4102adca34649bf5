/**
 * Limits the memory of a worker that client connections and their requests use (`--max-client-memory`), and their
 * sockets.
 *
 * Connections and requests have a budget each. A connection counts with the memory of an idle one, from accept to
 * close. A request counts with its own memory (`request-memory.ts`) from the moment that it is parsed until its stream
 * or response is closed, also if it is rejected, and with what waits of its response. Incomplete request heads count
 * too, and the bytes of relayed connections that wait to be sent; a relayed connection counts with that to its backend.
 * Requests may use the memory that open connections do not use.
 *
 * Below the budgets there is no limit per client address, because a load balancer or an office is one address. When the
 * budget for connections is used up, idle connections of the addresses with the most connections are closed, or their
 * newest ones if none is idle. The same happens when the sockets are used up. When the budget for requests is used up,
 * the addresses with the most memory are reduced to an equal level: first their idle connections are closed, which
 * frees memory for requests, then their requests are ended.
 */
import type { Socket } from "node:net";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { networkOf } from "@gatewayproxy/runtime/ip-address";
import type { Http1ServerConnection } from "@gatewayproxy/http/http1/server-connection";
import type { Http2ServerConnection } from "@gatewayproxy/http/http2/server/server";
import type { Connection } from "./connection.ts";
import { fairLevel } from "@gatewayproxy/runtime/fair-level";
import { maxHeadBytes } from "./request-head.ts";
import { inProgressBytes } from "./request-memory.ts";

const mib = 1024 * 1024;

/** Memory of a worker for clients, without request bodies. */
export interface ClientMemory {
  /** Maximum for connections. Requests may use the rest of it. */
  readonly connectionBytes: number;
  /** Memory for requests only, for any number of open connections. */
  readonly requestBytes: number;
  /** The most sockets of connections, with those of relayed ones to their backends; absent: any number. */
  readonly sockets?: number;
}

/** Default of a worker without a memory limit. */
export const defaultClientBytes = 192 * mib;
/** Maximum share of connections. */
const connectionPart = 2 / 3;

/** Divides the memory of a worker, in bytes: two thirds for connections, one third for requests only. */
export function clientMemoryOf(bytes: number): ClientMemory {
  return { connectionBytes: bytes * connectionPart, requestBytes: bytes * (1 - connectionPart) };
}

/** Memory of an idle connection, and its multiple with TLS. Measured: 18 and 70 KiB. */
const unitBytes = 16 * 1024;
const tlsUnits = 4;
/** Added on a port with relayed connections, for the socket of the backend and the relay between both. */
const relayUnits = 2;

/** Of a relayed connection, with that to its backend. */
const relayedSockets = 2;

/** Additional connections that may wait for their PROXY protocol header, as a part of the budget. */
const untoldPart = 1 / 32;

/** Time without searches for idle connections after one that did not close a full batch. */
const idleLookMs = 100;
/** Connections that one search closes, as a part of the budget. */
const batchPart = 1 / 32;
/** Interval at which requests and incomplete heads are counted while they could exceed the budget. */
const headLookMs = 100;
/**
 * Requests are also counted when the new ones could use this part of the budget: thousands can arrive in one turn of
 * the event loop, before any timer.
 */
const arrivedPart = 1 / 8;
/** Interval of the count at all other times. It detects sections that do not end. */
const calmLookMs = 5_000;
/** The maximum: 100 streams of HTTP/2 and an incomplete head. */
const mostHeadsPerConnection = 101;
/**
 * Time for an HTTP/2 header block to get its END_HEADERS, and for the trailers of an HTTP/1 request to end. An
 * incomplete head of HTTP/1 is rejected before that (408, `headersTimeout` of the server).
 */
const sectionTimeoutMs = 60_000;
/**
 * Fewer bytes of an incomplete head are not counted: the length of a complete head is known only up to its white space.
 */
const countedBytes = 1024;
/** Part of the budget that requests may still use after some were dropped. */
const keptPart = 7 / 8;

/**
 * Why a connection was closed. `idle`: no request was in progress. `newest`: no connection of the address was idle.
 * `head`: it held an incomplete head, pending requests, or rejected requests whose responses the client did not read.
 * `timeout`: a header block of HTTP/2 or a trailer section of HTTP/1 did not end in time. `stream`: it is relayed, and
 * its bytes waited to be sent.
 */
export type ShedReason = "idle" | "newest" | "head" | "timeout" | "stream";

/** Memory of a request in progress. */
export interface HeldRequest {
  readonly connection: Connection;
  /** Client address, as rate limits see it. */
  readonly client: string;
  /** Bytes of memory, without the body of the request, and with what waits of the response. */
  readonly memoryBytes: number;
  /** As `Stallable.endStalled`. */
  endStalled(): void;
  /** Ends the request because the budget is exceeded. */
  endForMemory(): void;
}

/** The bounds of a worker, and its requests. */
export interface ClientConnectionsOptions {
  /** Times the checks for incomplete heads and the searches for idle connections. */
  readonly clock: Clock;
  /** The budgets of the worker in bytes; `clientMemoryOf` divides a total. */
  readonly memory: ClientMemory;
  /** Length in bits of the IPv6 prefix that identifies a client. */
  readonly ipv6PrefixLength: number;
  /** All requests in progress. */
  readonly requests: () => Iterable<HeldRequest>;
  /** Called when a connection of `client` was closed. */
  readonly onShed: (reason: ShedReason, client: string) => void;
}

interface ConnectionKind {
  readonly isTls: boolean;
  /** Whether the port has connections that are relayed. */
  readonly isRelayed: boolean;
  readonly isReported: boolean;
}

/** A connection that is relayed to a backend. */
export interface HeldStream {
  /** Memory of the bytes that wait to be sent, in both directions. */
  readonly heldBytes: number;
  /** Called before the connection is closed because a budget is exceeded. */
  onShed(): void;
}

/** One open connection. */
export class ClientConnection {
  /** The accepted socket, below TLS. */
  readonly socket: Socket;
  /** When it was accepted; monotonic. */
  readonly sinceMs: number;
  /** Its memory while idle, in units of 16 KiB. */
  readonly units: number;
  readonly sockets: number;
  readonly #isRelayed: boolean;
  holder: Holder;
  #connection: Connection | undefined;
  #http1: Http1ServerConnection | undefined;
  #http2: Http2ServerConnection | undefined;
  #stream: HeldStream | undefined;
  /** In watched time. A header block or trailer section that is incomplete now began at this time or later. */
  #incompleteSinceMs = 0;
  /** The incomplete header block at the last check. */
  #openBlock: number | undefined;
  #isEnding = false;
  /** Whether its ClientHello waits, in the socket, until its handshake begins. */
  isBeforeHandshake = false;

  constructor(socket: Socket, sinceMs: number, { isTls, isRelayed }: ConnectionKind, holder: Holder) {
    this.socket = socket;
    this.sinceMs = sinceMs;
    this.units = (isTls ? tlsUnits : 1) + (isRelayed ? relayUnits : 0);
    this.sockets = isRelayed ? relayedSockets : 1;
    this.#isRelayed = isRelayed;
    this.holder = holder;
  }

  /** Memory of an incomplete head, and of received bytes that wait for a request or a handshake. */
  get heldBytes(): number {
    if (this.isBeforeHandshake) return this.socket.readableLength;
    return this.#http1?.heldBytes ?? this.#http2?.heldBytes ?? this.#stream?.heldBytes ?? 0;
  }

  /** Undefined unless it is relayed. Relayed connections are in use as long as they are open. */
  get stream(): HeldStream | undefined {
    return this.#stream;
  }

  /** Whether a request has been received and waits to begin. */
  get isWaiting(): boolean {
    return this.#http1?.isWaiting ?? this.#http2?.isWaiting ?? false;
  }

  /** Undefined until the protocol is known. */
  get connection(): Connection | undefined {
    return this.#connection;
  }

  /** Starts HTTP/1. */
  beginHttp1(http1: Http1ServerConnection, connection: Connection): void {
    this.#http1 = http1;
    this.#connection = connection;
  }

  /** Starts HTTP/2. */
  beginHttp2(http2: Http2ServerConnection, connection: Connection): void {
    this.#http2 = http2;
    this.#connection = connection;
  }

  /** Starts to relay. */
  beginStream(stream: HeldStream): void {
    this.#stream = stream;
  }

  /** Begins the checks. @param watchedMs of the last one, at which nothing was incomplete. */
  beginLooks(watchedMs: number): void {
    this.#incompleteSinceMs = watchedMs;
    this.#openBlock = undefined;
  }

  /** Checks for a header block of HTTP/2, or a trailer section of HTTP/1, that has begun and not ended. */
  look(watchedMs: number): void {
    const openBlock = this.#http2?.openBlock;
    const isSame = this.#http1?.isInTrailers === true || (openBlock !== undefined && openBlock === this.#openBlock);
    this.#openBlock = openBlock;
    if (!isSame) this.#incompleteSinceMs = watchedMs;
  }

  /** Whether it needs no check until its client sends more. A relayed connection also holds what its backend sends. */
  get isQuiet(): boolean {
    if (this.#isRelayed) return false;
    return this.heldBytes === 0 && this.#http1?.isInTrailers !== true;
  }

  /** Whether a header block of HTTP/2 or a trailer section of HTTP/1 had not ended in time at the last check. */
  isOverdue(watchedMs: number): boolean {
    return watchedMs - this.#incompleteSinceMs >= sectionTimeoutMs;
  }

  /**
   * Closes the connection. The first call on HTTP/1 still sends what has been written; any other call closes it at
   * once.
   *
   * @returns whether this is the first call.
   */
  end(): boolean {
    if (this.#isEnding || this.#http1 === undefined) this.socket.destroy();
    else this.#http1.closeSoon();
    const isFirst = !this.#isEnding;
    this.#isEnding = true;
    return isFirst;
  }
}

/** The open connections of a client address. */
interface Holder {
  readonly client: string;
  /** Oldest first. */
  readonly connections: Set<ClientConnection>;
  units: number;
}

/**
 * The client connections of a worker, by client address. Closes connections and ends requests beyond the budgets.
 * `close` stops its timers.
 */
export class ClientConnections {
  readonly #options: ClientConnectionsOptions;
  readonly #maxUnits: number;
  readonly #maxSockets: number;
  readonly #memoryBytes: number;
  readonly #arrivalsPerLook: number;
  /** Requests since the last count that their number caused. */
  #arrivals = 0;
  readonly #holders = new Map<string, Holder>();
  /**
   * All connections that may hold bytes, or an incomplete section. Thousands of idle connections are not among them.
   */
  readonly #watched = new Set<ClientConnection>();
  /** Holders by their units, to find the largest without a search. */
  readonly #byUnits: (Set<Holder> | undefined)[] = [];
  #most = 0;
  #units = 0;
  #sockets = 0;
  #size = 0;
  /** Monotonic. */
  #nextIdleLookMs = 0;
  /** The timer of the next check; set while heads could exceed the budget. */
  #timer: Timer | undefined;
  readonly #upkeep: Timer;
  /**
   * The time that the checks cover. It excludes the time in which the process does not run: what a client sends then
   * waits in its socket, and must not count as late.
   */
  #watchedMs = 0;
  /** Monotonic. */
  #lastLookMs: number;

  constructor(options: ClientConnectionsOptions) {
    this.#options = options;
    const { connectionBytes, requestBytes, sockets = Number.POSITIVE_INFINITY } = options.memory;
    this.#maxSockets = Math.min(sockets, Number.MAX_SAFE_INTEGER);
    this.#maxUnits = Math.max(1, Math.floor(connectionBytes / unitBytes));
    this.#memoryBytes = connectionBytes + requestBytes;
    this.#arrivalsPerLook = Math.ceil((this.#memoryBytes * arrivedPart) / inProgressBytes);
    this.#lastLookMs = options.clock.monotonicMs();
    this.#upkeep = options.clock.every(calmLookMs, () => {
      if (this.#timer === undefined) this.#lookAtHeads();
    });
  }

  /**
   * Adds an accepted connection. When the budget is exceeded, closes others, or this one.
   *
   * @param client address of the peer.
   * @param isReported whether a PROXY protocol header with the client's address follows. Before it is read, other
   * connections are closed only if the budget and its reserve for such connections are exceeded.
   */
  add(socket: Socket, client: string, kind: ConnectionKind): ClientConnection {
    const { clock } = this.#options;
    const holder = this.#holderOf(client);
    const connection = new ClientConnection(socket, clock.monotonicMs(), kind, holder);
    this.#size++;
    this.#units += connection.units;
    this.#sockets += connection.sockets;
    this.#join(connection, holder);
    if (kind.isRelayed) this.watch(connection);
    if (this.#exceeds(kind.isReported ? untoldPart : 0)) this.#shed(connection);
    this.#lookSoon();
    return connection;
  }

  /** Assigns the connection to the client address of its PROXY protocol header. */
  identify(connection: ClientConnection, client: string): void {
    if (!connection.holder.connections.has(connection)) return;
    this.#leave(connection);
    this.#join(connection, this.#holderOf(client));
    if (this.#exceeds()) this.#shed(connection);
  }

  /** Counts a request that has been parsed. Many of them cause a count of their memory in the next tick. */
  countRequest(): void {
    if (++this.#arrivals < this.#arrivalsPerLook) return;
    this.#arrivals = 0;
    // In the next tick, when the parser has returned: it cannot continue if its connection is closed within a read.
    process.nextTick(boundRequestsOf, this);
  }

  /** Counts what the connection holds until it holds nothing. */
  watch(connection: ClientConnection): void {
    if (this.#watched.has(connection) || !connection.holder.connections.has(connection)) return;
    connection.beginLooks(this.#watchedMs);
    this.#watched.add(connection);
  }

  /** Removes a closed connection. Has no effect if this class has closed it. */
  delete(connection: ClientConnection): void {
    this.#watched.delete(connection);
    if (!connection.holder.connections.has(connection)) return;
    this.#leave(connection);
    this.#size--;
    this.#units -= connection.units;
    this.#sockets -= connection.sockets;
  }

  /** Stops the timers. */
  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#upkeep.cancel();
  }

  #holderOf(address: string): Holder {
    const client = networkOf(address, this.#options.ipv6PrefixLength);
    let holder = this.#holders.get(client);
    if (holder === undefined) {
      holder = { client, connections: new Set(), units: 0 };
      this.#holders.set(client, holder);
    }
    return holder;
  }

  #join(connection: ClientConnection, holder: Holder): void {
    connection.holder = holder;
    holder.connections.add(connection);
    this.#setUnits(holder, holder.units + connection.units);
  }

  #leave(connection: ClientConnection): void {
    const { holder } = connection;
    holder.connections.delete(connection);
    this.#setUnits(holder, holder.units - connection.units);
    if (holder.connections.size === 0) this.#holders.delete(holder.client);
  }

  #setUnits(holder: Holder, units: number): void {
    this.#byUnits[holder.units]?.delete(holder);
    holder.units = units;
    if (units > 0) (this.#byUnits[units] ??= new Set()).add(holder);
    if (units > this.#most) this.#most = units;
    while (this.#most > 0 && (this.#byUnits[this.#most]?.size ?? 0) === 0) this.#byUnits[this.#most--] = undefined;
  }

  /** Whether the connections use more than the budget and a part of it. @param part may be negative. */
  #exceeds(part = 0): boolean {
    const [units, sockets] = [this.#maxUnits, this.#maxSockets];
    return this.#units > units + Math.ceil(units * part) || this.#sockets > sockets + Math.ceil(sockets * part);
  }

  /** Closes connections until the rest is within the budget. @param added the newest connection. */
  #shed(added: ClientConnection): void {
    if (this.#closeIdle(added)) return;
    while (this.#exceeds()) {
      const [largest] = this.#byUnits[this.#most] ?? [];
      const newest = added.holder === largest ? added : lastOf(largest?.connections ?? []);
      if (newest === undefined) return;
      this.#close(newest, "newest");
    }
  }

  /**
   * Closes idle connections in a batch, so that not every new connection causes a search.
   *
   * @returns whether the rest is within the budget.
   */
  #closeIdle(added: ClientConnection): boolean {
    const nowMs = this.#options.clock.monotonicMs();
    if (nowMs < this.#nextIdleLookMs) return false;
    const busy = this.#busyConnections();
    const large = [...this.#holders.values()].filter(({ units }) => units * 2 >= this.#most);
    const idle = large
      .sort((a, b) => b.units - a.units)
      .flatMap(({ connections }) => [...connections])
      .filter((each) => each !== added && !isBusy(each, busy));
    for (const connection of idle) {
      if (!this.#exceeds(-batchPart)) return true;
      this.#close(connection, "idle");
    }
    this.#nextIdleLookMs = nowMs + idleLookMs;
    return !this.#exceeds();
  }

  /** Returns the connections with a request in progress. */
  #busyConnections(): ReadonlySet<Connection> {
    return new Set(Array.from(this.#options.requests(), ({ connection }) => connection));
  }

  /** Removes the connection at once, since its socket emits "close" only later. */
  #close(connection: ClientConnection, reason: ShedReason): void {
    const { client } = connection.holder;
    this.delete(connection);
    connection.stream?.onShed();
    connection.socket.destroy();
    this.#options.onShed(reason, client);
  }

  #mayHoldManyHeads(): boolean {
    return this.#size * mostHeadsPerConnection * maxHeadBytes > this.#options.memory.requestBytes;
  }

  #lookSoon(): void {
    if (this.#timer !== undefined || !this.#mayHoldManyHeads()) return;
    this.#timer = this.#options.clock.setTimer(headLookMs, () => {
      this.#timer = undefined;
      this.#lookSoon();
      this.#lookAtHeads();
    });
  }

  #lookAtHeads(): void {
    const nowMs = this.#options.clock.monotonicMs();
    this.#watchedMs += Math.min(nowMs - this.#lastLookMs, calmLookMs);
    this.#lastLookMs = nowMs;
    const overdue: ClientConnection[] = [];
    for (const connection of this.#watched) {
      connection.look(this.#watchedMs);
      if (connection.isQuiet) this.#watched.delete(connection);
      else if (connection.isOverdue(this.#watchedMs)) overdue.push(connection);
    }
    if (overdue.length > 0) this.#endOverdue(overdue);
    this.boundRequests();
  }

  /** Responds with 408 to requests without a response, and closes their connections then, or at the next check. */
  #endOverdue(overdue: readonly ClientConnection[]): void {
    const ended = new Set(overdue.map(({ connection }) => connection));
    const requests = [...this.#options.requests()].filter(({ connection }) => ended.has(connection));
    for (const request of requests) request.endStalled();
    for (const connection of overdue) {
      if (connection.end()) this.#options.onShed("timeout", connection.holder.client);
    }
  }

  /** Ends requests, and closes connections that hold some, until the rest is within the budget. */
  boundRequests(): void {
    const mostBytes = this.#memoryBytes - Math.min(this.#units, this.#maxUnits) * unitBytes;
    let bytes = 0;
    for (const { memoryBytes } of this.#options.requests()) bytes += memoryBytes;
    for (const { heldBytes } of this.#watched) bytes += heldBytes;
    if (bytes > mostBytes) this.#dropRequests(mostBytes * keptPart);
  }

  /**
   * Frees memory until the requests use at most `requestBytes`. Begins with the client that holds the most: closes its
   * idle connections first, then ends its largest requests. The memory of a closed idle connection counts too.
   */
  #dropRequests(requestBytes: number): void {
    const idle = this.#idleConnections();
    const keptBytes = requestBytes + sum(idle.map(({ bytes }) => bytes));
    const held = [...idle, ...this.#heldRequests()];
    const clients = Array.from(Map.groupBy(held, ({ client }) => client).values(), (parts) => ({
      parts: parts.sort((a, b) => Number(b.isIdle) - Number(a.isIdle) || b.bytes - a.bytes),
      held: sum(parts.map(({ bytes }) => bytes)),
    }));
    const amounts = clients.map(({ held }) => held);
    const level = fairLevel(amounts, keptBytes);
    let total = sum(amounts);
    for (const { parts, held } of clients.sort((a, b) => b.held - a.held)) {
      let left = held;
      for (const { bytes, drop } of parts) {
        if (total <= keptBytes) return;
        if (left <= level) break;
        left -= bytes;
        total -= bytes;
        drop();
      }
    }
  }

  /** Returns the connections without a request or an incomplete head. */
  #idleConnections(): HeldPart[] {
    const busy = this.#busyConnections();
    const idle: HeldPart[] = [];
    for (const { client, connections } of this.#holders.values()) {
      for (const each of connections) {
        if (each.heldBytes >= countedBytes || isBusy(each, busy)) continue;
        const drop = (): void => this.#close(each, "idle");
        idle.push({ client, bytes: each.units * unitBytes, isIdle: true, drop });
      }
    }
    return idle;
  }

  #heldRequests(): HeldPart[] {
    const held: HeldPart[] = [];
    for (const { client, connections } of this.#holders.values()) {
      for (const connection of connections) {
        const { heldBytes: bytes } = connection;
        if (bytes >= countedBytes) {
          const reason = connection.stream === undefined ? "head" : "stream";
          held.push({ client, bytes, isIdle: false, drop: () => this.#close(connection, reason) });
        }
      }
    }
    for (const request of this.#options.requests()) {
      const { client, memoryBytes } = request;
      held.push({ client, bytes: memoryBytes, isIdle: false, drop: () => request.endForMemory() });
    }
    return held;
  }
}

/** Memory that is freed together. */
interface HeldPart {
  readonly client: string;
  readonly bytes: number;
  readonly isIdle: boolean;
  readonly drop: () => void;
}

/** @param busy the connections with a request in progress. */
function isBusy({ connection, stream, isWaiting }: ClientConnection, busy: ReadonlySet<Connection>): boolean {
  return isWaiting || stream !== undefined || (connection !== undefined && busy.has(connection));
}

/** A named function for `process.nextTick`, so that a call allocates no closure. */
function boundRequestsOf(clients: ClientConnections): void {
  clients.boundRequests();
}

function lastOf(connections: Iterable<ClientConnection>): ClientConnection | undefined {
  return [...connections].at(-1);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
