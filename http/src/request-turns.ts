/**
 * Bounds the requests that begin in one turn of the event loop, or end. A client can send thousands at once, over many
 * connections, and each may cost a millisecond, such as for the patterns of its routes. What other clients send would
 * wait for all of them, in every turn.
 *
 * When a turn has begun requests for some time, a connection that receives a further one stops to parse, and its socket
 * is not read. What it has received stays bytes until its turn: at most a read of its socket. Clients take turns, and
 * the connections of a client among themselves, so that one with many requests does not delay the few of another one.
 *
 * Long reads of bodies are bounded too: those of hundreds of fast uploads would take a tenth of a second of each turn.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { ClientQueue } from "./client-queue.ts";

/** A connection whose next request has not begun, or whose next part of a body has not been read. */
export interface WaitingConnection {
  /** Whose connection it is: an address, or a network. */
  readonly client: string;
  /** Parses on as long as requests may begin. A connection that has received further ones waits again. */
  takeTurn(): void;
}

/**
 * Requests begin at once for this time, and for twice of it in a turn that begins within the time of the one before.
 * Those of some hundreds of busy connections need no more.
 */
const atOnceMs = 25;
/**
 * The time of a turn in which connections that wait begin requests. It is short, since libuv accepts only a few new
 * connections in each turn.
 */
const turnMs = 2;
/** Bytes of long reads in a turn, beyond which their connections wait. */
const turnBytes = 256 * 1024;

interface Turn {
  readonly client: string;
  readonly endMs: number;
  hasBegun: boolean;
}

/** The connections of a thread that wait for their turn. A thread has one. */
export class RequestTurns {
  readonly #clock: Clock;
  readonly #waiting = new ClientQueue<WaitingConnection>();
  /** When the time began in which requests begin at once. */
  #sinceMs = Number.NEGATIVE_INFINITY;
  /** Whether it began in this turn of the event loop. Only such times have an end, so that most turns need no call. */
  #isThisTurn = false;
  #readBytes = 0;
  /** Undefined unless a connection has its turn. */
  #turn: Turn | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Whether a request may begin now. Called once for each, for bytes that can complete its head, and for short parts of
   * bodies: the end of a body, or its first byte, can cause as much work as a head.
   */
  mayBegin(): boolean {
    if (this.#turn !== undefined) return this.#mayBeginIn(this.#turn);
    if (!this.#waiting.isEmpty()) return false;
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#sinceMs < atOnceMs) return true;
    if (this.#isThisTurn) return false;
    this.#start(nowMs);
    return true;
  }

  /**
   * Counts a long read of a body.
   *
   * @returns whether the socket may be read again now. Otherwise the connection stops to read and waits.
   */
  mayReadOn(bytes: number): boolean {
    if (this.#turn !== undefined || !this.#waiting.isEmpty()) return false;
    this.#readBytes += bytes;
    if (!this.#isThisTurn) this.#start(this.#clock.monotonicMs());
    return this.#readBytes < turnBytes;
  }

  /** Calls `takeTurn` in a later turn. Has no effect for a connection that waits. */
  wait(connection: WaitingConnection): void {
    this.#waiting.add(connection);
  }

  /** Called when a connection has ended. */
  leave(connection: WaitingConnection): void {
    this.#waiting.delete(connection);
  }

  /**
   * Whether a request may begin in a turn. The responses of a connection are written together, so that it begins
   * further ones while they delay no other client.
   */
  #mayBeginIn(turn: Turn): boolean {
    const isFirst = !turn.hasBegun;
    turn.hasBegun = true;
    if (isFirst) return true;
    return this.#waiting.isOnlyOf(turn.client) && this.#clock.monotonicMs() < turn.endMs;
  }

  #start(nowMs: number): void {
    this.#sinceMs = nowMs;
    this.#isThisTurn = true;
    setImmediate(this.#next);
  }

  readonly #next = (): void => {
    this.#isThisTurn = false;
    this.#readBytes = 0;
    if (this.#waiting.isEmpty()) return;
    const startMs = this.#clock.monotonicMs();
    const endMs = startMs + turnMs;
    this.#start(startMs);
    do this.#giveOne(endMs);
    while (!this.#waiting.isEmpty() && this.#clock.monotonicMs() < endMs);
  };

  #give(turn: Turn, connection: WaitingConnection): void {
    this.#turn = turn;
    try {
      connection.takeTurn();
    } finally {
      this.#turn = undefined;
    }
  }

  #giveOne(endMs: number): void {
    const connection = this.#waiting.take();
    if (connection !== undefined) this.#give({ client: connection.client, endMs, hasBegun: false }, connection);
  }
}
