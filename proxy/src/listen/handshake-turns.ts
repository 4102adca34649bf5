/**
 * Bounds the TLS handshakes that begin in one turn of the event loop. The operation with the private key takes up to
 * some milliseconds of the thread, and those of thousands of connections can arrive in one turn.
 *
 * While few are in progress, a handshake begins at once. All others begin when their ClientHello is whole. Beyond some
 * of a turn they wait, and clients take turns: one with many does not delay the few of another one.
 *
 * The costly operation of some handshakes comes later, with bytes that node:tls reads itself: with a second
 * ClientHello, or with the certificates of the client. Few of these of a client are in progress at any time, since all
 * of them may continue in one turn. If others wait, one that has stalled is closed.
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
 * The most handshakes of a client in progress of those that may cause a costly operation later. To check its
 * certificates can take 100 ms each time: 100 KB of them, with the longest keys that OpenSSL reads.
 */
const placesOfClient = 8;
/** The same, of all clients. */
const places = 64;
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
  /** The number of those with a place, by client. None is 0. */
  readonly #placedOf = new Map<string, number>();
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
    if (this.#leavePlace(handshake) && !this.#waitingForPlace.isEmpty()) this.#beginSome();
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
    const next = this.#hasPlace ? this.#waitingForPlace.take(this.#hasPlaceFor) : undefined;
    if (next === undefined) {
      if (!this.#waitingForPlace.isEmpty()) this.#makeRoomSoon();
      return undefined;
    }
    this.#placed.set(next, this.#clock.monotonicMs());
    this.#placedOf.set(next.client, this.#placesHeldBy(next.client) + 1);
    return next;
  }

  get #hasPlace(): boolean {
    return this.#placed.size < places;
  }

  #placesHeldBy(client: string): number {
    return this.#placedOf.get(client) ?? 0;
  }

  readonly #hasPlaceFor = (client: string): boolean => this.#placesHeldBy(client) < placesOfClient;

  #leavePlace(handshake: WaitingHandshake): boolean {
    if (!this.#placed.delete(handshake)) return false;
    const left = this.#placesHeldBy(handshake.client) - 1;
    if (left === 0) this.#placedOf.delete(handshake.client);
    else this.#placedOf.set(handshake.client, left);
    return true;
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
    const [, sinceMs = 0] = [...this.#placed].find(([handshake]) => this.#makesRoom(handshake)) ?? [];
    const leftMs = Math.max(0, sinceMs + stalledMs - this.#clock.monotonicMs());
    this.#timer = this.#clock.setTimer(leftMs, () => {
      this.#timer = undefined;
      this.#makeRoom();
    });
  }

  /** Whether one of those that wait could have its place. While there are others, a client waits only for its own. */
  #makesRoom({ client }: WaitingHandshake): boolean {
    return !this.#hasPlace || this.#waitingForPlace.has(client);
  }

  /** While others wait, closes a stalled handshake of the client that has the most places, the oldest one. */
  #makeRoom(): void {
    if (this.#waitingForPlace.isEmpty()) return;
    const nowMs = this.#clock.monotonicMs();
    let victim: WaitingHandshake | undefined;
    for (const [handshake, sinceMs] of this.#placed) {
      if (nowMs - sinceMs < stalledMs) break;
      if (!this.#makesRoom(handshake)) continue;
      const mostHeld = victim === undefined ? 0 : this.#placesHeldBy(victim.client);
      if (this.#placesHeldBy(handshake.client) > mostHeld) victim = handshake;
    }
    if (victim !== undefined) {
      this.#leavePlace(victim);
      victim.close();
    }
    this.#beginSome();
    if (!this.#waitingForPlace.isEmpty()) this.#makeRoomSoon();
  }
}
