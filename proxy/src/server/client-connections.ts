/**
 * What the connections of clients take of a worker's memory, and who gives way when it becomes scarce.
 *
 * Two amounts have a bound each. A connection is counted with what it takes while it is idle, from its first moment on.
 * Requests are counted with what they take (`request-memory.ts`) from the moment that they are parsed until their stream or
 * response is closed, refused ones too, and heads while they are incomplete. Connections have a part of the memory, and
 * requests have all that the open connections leave.
 *
 * Below the bounds nobody is limited, because a load balancer or an office is one address. At the bound of connections the
 * addresses with the most lose idle connections, and where they have none, their newest ones. At the bound of requests the
 * addresses that hold the most are cut to an equal level.
 */
import type { Socket } from "node:net";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { networkOf } from "@gatewayproxy/runtime/ip-address";
import type { Connection } from "./connection.ts";
import { fairLevel } from "./fair-level.ts";
import { maxHeadBytes } from "./request-head.ts";
import { underWayBytes } from "./request-memory.ts";

const mib = 1024 * 1024;

/** What clients may take of a worker's memory besides request bodies. */
export interface ClientMemory {
  /** Connections take no more. What they do not take is for requests. */
  readonly connectionBytes: number;
  /** Requests have this much however many connections are open. */
  readonly requestBytes: number;
}

/** Of a worker, where no memory limit and no setting says otherwise. */
export const defaultClientBytes = 192 * mib;
/** Connections have at most this part, requests at least the rest. */
const connectionPart = 2 / 3;

export function clientMemoryOf(bytes: number): ClientMemory {
  return { connectionBytes: bytes * connectionPart, requestBytes: bytes * (1 - connectionPart) };
}

/** What an idle connection takes in memory, and one with TLS as a multiple; about what is measured (18 and 70 KiB). */
const unitBytes = 16 * 1024;
const tlsUnits = 4;

/** Connections beyond the bound that wait for the header that tells their client's address, as a part of the bound. */
const untoldPart = 1 / 32;

/** Idle connections are looked for among all: at most so often, unless that closes a full batch. */
const idleLookMs = 100;
/** Closed at once, as a part of the bound. */
const batchPart = 1 / 32;
/** How often requests and incomplete heads are counted, while there may be too many. */
const headLookMs = 100;
/**
 * Requests are counted also when as many have come as may take this part of all memory, because thousands may come in one
 * turn of the event loop, before any timer.
 */
const arrivedPart = 1 / 8;
/** 100 streams of HTTP/2, and a head that is incomplete. */
const mostHeadsPerConnection = 101;
/** A head that is not complete by then has been refused (408): what has come are frames that keep HTTP/2 alive. */
const headTimeoutMs = 60_000;
/** What is left of requests, as a part of the bound, after some were dropped. */
const keptPart = 7 / 8;

/**
 * Why a connection was closed: it had no request under way; it was the newest; on it were an incomplete head, requests that
 * waited, or refused ones whose answers the client did not take.
 */
export type ShedReason = "idle" | "newest" | "head";

/** A request that is under way, as far as memory is concerned. */
export interface HeldRequest {
  readonly connection: Connection;
  /** Address of the client, as limits know it. */
  readonly client: string;
  /** What it takes, besides its body. */
  readonly memoryBytes: number;
  /** As `Downstream.isReceiving`. */
  readonly isReceiving: boolean;
  /** Ends the request, because requests take too much. */
  endForMemory(): void;
}

export interface ClientConnectionsOptions {
  readonly clock: Clock;
  readonly memory: ClientMemory;
  /** Bits of an IPv6 address that are one client. */
  readonly ipv6PrefixLength: number;
  /** All that are under way now. */
  readonly requests: () => Iterable<HeldRequest>;
  /** A connection of `client` was closed. */
  readonly onShed: (reason: ShedReason, client: string) => void;
}

interface ConnectionKind {
  readonly isTls: boolean;
  readonly isTold: boolean;
}

/** One open connection. */
export class ClientConnection {
  /** As the kernel gave it. */
  readonly socket: Socket;
  /** Monotonic. */
  readonly sinceMs: number;
  readonly units: number;
  holder: Holder;
  #connection: Connection | undefined;
  #reader: Socket | undefined;
  /** Of a head that is incomplete, at the last look. */
  #incompleteBytes = 0;
  /** At the last look: the bytes of the reader, and the heads that had come. */
  #lastBytes = 0;
  #lastHeads = 0;
  /** Monotonic: the last look at which no head was incomplete. */
  #incompleteSinceMs: number;

  constructor(socket: Socket, sinceMs: number, units: number, holder: Holder) {
    this.socket = socket;
    this.sinceMs = sinceMs;
    this.#incompleteSinceMs = sinceMs;
    this.units = units;
    this.holder = holder;
  }

  /** Of requests that are not under way, and of an incomplete head at the last look. */
  get heldBytes(): number {
    return (this.#connection?.heads.heldBytes ?? 0) + this.#incompleteBytes;
  }

  /** Absent before HTTP is spoken. */
  get connection(): Connection | undefined {
    return this.#connection;
  }

  /** HTTP is spoken from now on. @param reader that it is read from. */
  begin(reader: Socket, connection: Connection): void {
    this.#reader = reader;
    this.#connection = connection;
    // What was looked at to tell the protocol comes once more.
    connection.heads.completeBytes = this.#lastBytes = reader.bytesRead - reader.readableLength;
  }

  /**
   * Counts the bytes of a head that is incomplete: what has come since the last complete request, at most as long as a head
   * may be. What may be anything else than a head is not counted, so that no client loses a response
   * for it: bodies that go on, tunnels, and frames of HTTP/2, in the look in which such a request ends and before.
   */
  countIncomplete(nowMs: number): void {
    const [connection, reader] = [this.#connection, this.#reader];
    if (reader === undefined || connection === undefined) return;
    const { heads } = connection;
    const { bytesRead } = reader;
    const isStale = nowMs - this.#incompleteSinceMs > headTimeoutMs;
    if (heads.isInBody || heads.isInChunks || heads.hasUnknownLength || isStale) {
      heads.completeBytes = Math.max(heads.completeBytes, bytesRead);
    } else if (heads.received !== this.#lastHeads) {
      // All that came before the last look belongs to heads that are complete now.
      heads.completeBytes = Math.max(heads.completeBytes, this.#lastBytes);
    }
    if (bytesRead <= heads.completeBytes) this.#incompleteSinceMs = nowMs;
    if (!heads.isBusy) heads.hasUnknownLength = false;
    heads.isInBody = false;
    heads.isBusy = false;
    this.#lastHeads = heads.received;
    this.#lastBytes = bytesRead;
    this.#incompleteBytes = Math.min(maxHeadBytes, Math.max(0, bytesRead - heads.completeBytes));
  }
}

/** A client address with open connections. */
interface Holder {
  readonly client: string;
  /** The oldest first. */
  readonly connections: Set<ClientConnection>;
  units: number;
}

export class ClientConnections {
  readonly #options: ClientConnectionsOptions;
  readonly #maxUnits: number;
  readonly #memoryBytes: number;
  readonly #arrivalsPerLook: number;
  /** Requests that have come since they were counted for their number. */
  #arrivals = 0;
  readonly #holders = new Map<string, Holder>();
  /** Holders by their units, to know those with the most at once. */
  readonly #byUnits: (Set<Holder> | undefined)[] = [];
  #most = 0;
  #units = 0;
  #size = 0;
  /** Monotonic. */
  #nextIdleLookMs = 0;
  #timer: Timer | undefined;

  constructor(options: ClientConnectionsOptions) {
    this.#options = options;
    const { connectionBytes, requestBytes } = options.memory;
    this.#maxUnits = Math.max(1, Math.floor(connectionBytes / unitBytes));
    this.#memoryBytes = connectionBytes + requestBytes;
    this.#arrivalsPerLook = Math.ceil((this.#memoryBytes * arrivedPart) / underWayBytes);
  }

  /**
   * Adds a connection that has just been accepted. Where there are too many, others are closed, or this one.
   *
   * @param client its address.
   * @param isTold a PROXY protocol header is to tell the address, and until then nobody gives way to the connection.
   */
  add(socket: Socket, client: string, { isTls, isTold }: ConnectionKind): ClientConnection {
    const { clock } = this.#options;
    const holder = this.#holderOf(client);
    const connection = new ClientConnection(socket, clock.monotonicMs(), isTls ? tlsUnits : 1, holder);
    this.#size++;
    this.#units += connection.units;
    this.#join(connection, holder);
    const max = isTold ? this.#maxUnits + Math.ceil(this.#maxUnits * untoldPart) : this.#maxUnits;
    if (this.#units > max) this.#shed(connection);
    this.#timer ??= this.#mayHoldManyHeads() ? this.#lookLater() : undefined;
    return connection;
  }

  /** The connection is another client's, as a PROXY protocol header tells. */
  identify(connection: ClientConnection, client: string): void {
    if (!connection.holder.connections.has(connection)) return;
    this.#leave(connection);
    this.#join(connection, this.#holderOf(client));
    if (this.#units > this.#maxUnits) this.#shed(connection);
  }

  /** A request has been parsed. */
  countRequest(): void {
    if (++this.#arrivals < this.#arrivalsPerLook) return;
    this.#arrivals = 0;
    // Behind the parser, which must not lose its connection in the middle of a read.
    process.nextTick(boundRequestsOf, this);
  }

  /** Harmless for a connection that has been closed here. */
  delete(connection: ClientConnection): void {
    if (!connection.holder.connections.has(connection)) return;
    this.#leave(connection);
    this.#size--;
    this.#units -= connection.units;
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
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

  /** Closes connections until there are no more than may be. @param added the newest of all. */
  #shed(added: ClientConnection): void {
    if (this.#closeIdle(added)) return;
    while (this.#units > this.#maxUnits) {
      const [largest] = this.#byUnits[this.#most] ?? [];
      const newest = added.holder === largest ? added : lastOf(largest?.connections ?? []);
      if (newest === undefined) return;
      this.#close(newest, "newest");
    }
  }

  /** Closes a batch, so that not every connection that comes has all others looked at. @returns whether there were enough. */
  #closeIdle(added: ClientConnection): boolean {
    const { clock, requests } = this.#options;
    const nowMs = clock.monotonicMs();
    if (nowMs < this.#nextIdleLookMs) return false;
    const busy = new Set<Connection>();
    for (const { connection } of requests()) busy.add(connection);
    const large = [...this.#holders.values()].filter(({ units }) => units * 2 >= this.#most);
    const idle = large
      .sort((a, b) => b.units - a.units)
      .flatMap(({ connections }) => [...connections])
      .filter((each) => each !== added && (each.connection === undefined || !busy.has(each.connection)));
    const enough = this.#maxUnits - Math.floor(this.#maxUnits * batchPart);
    for (const connection of idle) {
      if (this.#units <= enough) return true;
      this.#close(connection, "idle");
    }
    this.#nextIdleLookMs = nowMs + idleLookMs;
    return this.#units <= this.#maxUnits;
  }

  /** Its socket tells its end later. */
  #close(connection: ClientConnection, reason: ShedReason): void {
    const { client } = connection.holder;
    this.delete(connection);
    connection.socket.destroy();
    this.#options.onShed(reason, client);
  }

  #mayHoldManyHeads(): boolean {
    return this.#size * mostHeadsPerConnection * maxHeadBytes > this.#options.memory.requestBytes;
  }

  #lookLater(): Timer {
    return this.#options.clock.setTimer(headLookMs, () => {
      this.#timer = this.#mayHoldManyHeads() ? this.#lookLater() : undefined;
      this.#lookAtHeads();
    });
  }

  #lookAtHeads(): void {
    for (const { isReceiving, connection } of this.#options.requests()) {
      connection.heads.isBusy = true;
      if (isReceiving) connection.heads.isInBody = true;
    }
    const nowMs = this.#options.clock.monotonicMs();
    for (const { connections } of this.#holders.values()) {
      for (const connection of connections) connection.countIncomplete(nowMs);
    }
    this.boundRequests();
  }

  /** Ends requests, and closes connections that hold some, until they take no more than may be. */
  boundRequests(): void {
    const mostBytes = this.#memoryBytes - Math.min(this.#units, this.#maxUnits) * unitBytes;
    let bytes = 0;
    for (const { memoryBytes } of this.#options.requests()) bytes += memoryBytes;
    for (const { connections } of this.#holders.values()) {
      for (const { heldBytes } of connections) bytes += heldBytes;
    }
    if (bytes > mostBytes) this.#dropRequests(mostBytes * keptPart);
  }

  /** Those of the client with the most go first, of each the largest, until no more than may be is left. */
  #dropRequests(keptBytes: number): void {
    const clients = Array.from(Map.groupBy(this.#heldRequests(), ({ client }) => client).values(), (parts) => ({
      parts: parts.sort((a, b) => b.bytes - a.bytes),
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

  #heldRequests(): HeldPart[] {
    const held: HeldPart[] = [];
    for (const { client, connections } of this.#holders.values()) {
      for (const connection of connections) {
        const { heldBytes: bytes } = connection;
        if (bytes > 0) held.push({ client, bytes, drop: () => this.#close(connection, "head") });
      }
    }
    for (const request of this.#options.requests()) {
      const { client, memoryBytes } = request;
      held.push({ client, bytes: memoryBytes, drop: () => request.endForMemory() });
    }
    return held;
  }
}

/** What is dropped at once. */
interface HeldPart {
  readonly client: string;
  readonly bytes: number;
  readonly drop: () => void;
}

/** A function of its own, so that nothing is made for the call. */
function boundRequestsOf(clients: ClientConnections): void {
  clients.boundRequests();
}

function lastOf(connections: Iterable<ClientConnection>): ClientConnection | undefined {
  return [...connections].at(-1);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
