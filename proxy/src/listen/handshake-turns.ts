/**
 * Bounds the TLS handshakes that begin in one turn of the event loop. The operation with the private key takes up to
 * some milliseconds of the thread, and those of thousands of connections can arrive in one turn.
 *
 * While few are in progress, a handshake begins at once. All others begin when their ClientHello is whole. Beyond some
 * of a turn they wait, and clients take turns: one with many does not delay the few of another one.
 *
 * The costly operation of some handshakes comes later, with bytes that node:tls reads itself: with a second
 * ClientHello, or with the certificates of the client. Few of these are in progress at any time, since all of them may
 * continue in one turn. If others wait, one that has stalled is closed.
 */
import { ClientQueue } from "@gatewayproxy/http/client-queue";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

/** A connection whose ClientHello is whole, and whose handshake has not begun. */
export interface WaitingHandshake {
  /** Whose connection it is: an address, or a network. */
  readonly client: string;
  /** Whether bytes after its first ClientHello may cause a costly operation. */
  readonly isCostlyLater: boolean;
  /** Begins the handshake. */
  begin(): void;
  /** Closes the connection: its handshake has begun, has stalled, and others wait. */
  close(): void;
}

/** Aimed at for the handshakes of a turn, by the average of the last turn that was measured. */
const turnMs = 10;
/** The most handshakes that begin in a turn. Those of RSA 4096 take 25 to 50 ms. */
const mostInTurn = 10;
/**
 * The most handshakes in progress of those that may cause a costly operation later. To check the certificates of a
 * client can take 100 ms: 100 KB of them, with the longest keys that OpenSSL reads.
 */
const places = 8;
/**
 * The most handshakes in progress that have begun before a byte of them was read, which is faster. What their clients
 * send in one turn is bounded by their number.
 */
const unreadPlaces = 16;
/** Time after which a handshake that has a place loses it to another one. */
const stalledMs = 1_000;

/** The handshakes of a thread. A thread has one instance. */
export class HandshakeTurns {
  readonly #clock: Clock;
  readonly #waiting = new ClientQueue<WaitingHandshake>();
  /** Those that need a place. */
  readonly #waitingForPlace = new ClientQueue<WaitingHandshake>();
  /** With the time of their begin, the oldest first. */
  readonly #placed = new Map<WaitingHandshake, number>();
  /** Those that have begun before a byte of them was read. */
  readonly #unread = new Set<WaitingHandshake>();
  #isPlaceNext = false;
  #begun = 0;
  #mostInTurn = mostInTurn;
  /** Whether the end of this turn is awaited. Only turns in which handshakes begin have one. */
  #isThisTurn = false;
  #measured = 0;
  #measuredMs = 0;
  /** Set while handshakes wait for the place of a stalled one. */
  #timer: Timer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Begins a handshake before its ClientHello is read, if few of these are in progress.
   *
   * @returns whether it has begun.
   */
  startUnread(handshake: WaitingHandshake): boolean {
    if (this.#unread.size >= unreadPlaces) return false;
    this.#unread.add(handshake);
    handshake.begin();
    return true;
  }

  /** Begins a handshake, now or in its turn. */
  start(handshake: WaitingHandshake): void {
    (handshake.isCostlyLater ? this.#waitingForPlace : this.#waiting).add(handshake);
    this.#beginSome();
  }

  /** Called when a handshake is done, and when its connection is closed. It may wait, or be in progress. */
  end(handshake: WaitingHandshake): void {
    this.#waiting.delete(handshake);
    this.#waitingForPlace.delete(handshake);
    this.#unread.delete(handshake);
    if (this.#placed.delete(handshake) && !this.#waitingForPlace.isEmpty) this.#beginSome();
  }

  /** Calls `operate`, the part of a handshake that takes most of its time, and measures it. */
  measure(operate: () => void): void {
    const startMs = this.#clock.monotonicMs();
    operate();
    this.#measured++;
    this.#measuredMs += this.#clock.monotonicMs() - startMs;
  }

  #beginSome(): void {
    while (this.#begun < this.#mostInTurn) {
      const next = this.#take();
      if (next === undefined) return;
      this.#begun++;
      this.#awaitEnd();
      next.begin();
    }
  }

  /** Those with a place and those without one take turns. */
  #take(): WaitingHandshake | undefined {
    this.#isPlaceNext = !this.#isPlaceNext;
    return this.#isPlaceNext
      ? (this.#takePlaced() ?? this.#waiting.take())
      : (this.#waiting.take() ?? this.#takePlaced());
  }

  #takePlaced(): WaitingHandshake | undefined {
    if (this.#placed.size >= places) {
      if (!this.#waitingForPlace.isEmpty) this.#makeRoomSoon();
      return undefined;
    }
    const next = this.#waitingForPlace.take();
    if (next !== undefined) this.#placed.set(next, this.#clock.monotonicMs());
    return next;
  }

  #awaitEnd(): void {
    if (this.#isThisTurn) return;
    this.#isThisTurn = true;
    setImmediate(this.#endTurn);
  }

  /** The operations of handshakes that have begun before are done: node:tls calls for their contexts earlier. */
  readonly #endTurn = (): void => {
    this.#isThisTurn = false;
    this.#begun = 0;
    if (this.#measured > 0) {
      const averageMs = this.#measuredMs / this.#measured;
      this.#mostInTurn = Math.max(1, Math.min(mostInTurn, Math.floor(turnMs / averageMs)));
      this.#measured = 0;
      this.#measuredMs = 0;
    }
    this.#beginSome();
  };

  #makeRoomSoon(): void {
    if (this.#timer !== undefined) return;
    const [sinceMs = 0] = this.#placed.values();
    const leftMs = Math.max(0, sinceMs + stalledMs - this.#clock.monotonicMs());
    this.#timer = this.#clock.setTimer(leftMs, () => {
      this.#timer = undefined;
      this.#makeRoom();
    });
  }

  /** Closes the stalled handshakes of the clients that have the most places, while others wait. */
  #makeRoom(): void {
    const nowMs = this.#clock.monotonicMs();
    const held = Map.groupBy(this.#placed.keys(), ({ client }) => client);
    const stalled = [...this.#placed].filter(([, sinceMs]) => nowMs - sinceMs >= stalledMs);
    const sizeOf = ({ client }: WaitingHandshake): number => held.get(client)?.length ?? 0;
    // The sort is stable, so that the oldest one of a client is the first.
    const [victim] = stalled.map(([handshake]) => handshake).sort((a, b) => sizeOf(b) - sizeOf(a));
    if (this.#waitingForPlace.isEmpty) return;
    if (victim !== undefined) {
      this.#placed.delete(victim);
      victim.close();
    }
    this.#beginSome();
    if (!this.#waitingForPlace.isEmpty) this.#makeRoomSoon();
  }
}
