/**
 * Reads responses of LLM backends to their usage after the client has left. The provider completes the response and
 * bills it, so a client that leaves before the last event is charged, too.
 *
 * The time, the bytes and the number of these responses are bounded, since a client could otherwise take the
 * connections to a backend by leaving. Clients share the number fairly. Beyond a bound the usage is estimated.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

/** The bounds of responses that are read after their client has left (`--abandoned-answer-*`). */
export interface AbandonedResponseSettings {
  /** Maximum time for which a response is read; 0 reads none. */
  readonly timeoutMs: number;
  /** Maximum bytes of its body after the client has left. */
  readonly maxBytes: number;
  /** Maximum number of such responses of a worker at once; 0 reads none. */
  readonly maxResponses: number;
}

/** One minute and 8 MiB for each response, and 128 responses of a worker at once. */
export const defaultAbandonedResponses: AbandonedResponseSettings = {
  timeoutMs: 60_000,
  maxBytes: 8 * 1024 * 1024,
  maxResponses: 128,
};

/** Maximum time of a response during a shutdown, so that its charge is sent before the process exits. */
const drainMs = 5_000;

/** A response that is read after its client has left. */
export interface AbandonedResponse {
  /** @returns false if the bound is exceeded, and the response was abandoned. */
  countBytes(bytes: number): boolean;
  /** Ends the reading. Has no effect after the end. */
  end(): void;
}

/** The responses of one worker that are read after their client has left. */
export class AbandonedResponses {
  readonly #clock: Clock;
  readonly #settings: AbandonedResponseSettings;
  readonly #reads = new Set<Read>();
  #isDraining = false;
  #isClosed = false;
  #onEmpty: (() => void)[] = [];

  constructor(clock: Clock, settings: AbandonedResponseSettings) {
    this.#clock = clock;
    this.#settings = settings;
  }

  /**
   * Begins to read one more response. If there is no room, the client with the most responses gives up its oldest,
   * unless this client would then have more than it.
   *
   * @param client The address of the client.
   * @param remainingMs The rest of the rule's timeouts, which bounds the time.
   * @param giveUp Is called at most once, when a bound is exceeded; not after `end`.
   * @returns undefined if there is no room.
   */
  begin(client: string, remainingMs: number, giveUp: () => void): AbandonedResponse | undefined {
    const { timeoutMs, maxResponses, maxBytes } = this.#settings;
    if (this.#isClosed || timeoutMs === 0 || maxResponses === 0) return undefined;
    if (this.#reads.size >= maxResponses && !this.#makeRoom(client)) return undefined;
    const read = new Read(client, maxBytes, giveUp, () => this.#delete(read));
    read.endsMs = this.#clock.monotonicMs() + Math.min(timeoutMs, Math.max(0, remainingMs));
    this.#setTimer(read);
    this.#reads.add(read);
    return read;
  }

  /** Resolves when none is left; those that take longer than a few seconds are given up. */
  async drain(): Promise<void> {
    this.#isDraining = true;
    for (const read of this.#reads) {
      read.timer?.cancel();
      this.#setTimer(read);
    }
    if (this.#reads.size > 0) await new Promise<void>((resolve) => this.#onEmpty.push(resolve));
  }

  /** Gives all of them up, and takes no more. */
  close(): void {
    this.#isClosed = true;
    for (const read of [...this.#reads]) read.giveUp();
  }

  /** Returns whether a client with more responses than `client` would have has given up its oldest. */
  #makeRoom(client: string): boolean {
    const counts = new Map<string, number>();
    for (const read of this.#reads) counts.set(read.client, (counts.get(read.client) ?? 0) + 1);
    const [holder, most] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a));
    if (most <= (counts.get(client) ?? 0) + 1) return false;
    // The set is in the order of the beginnings.
    for (const read of this.#reads) {
      if (read.client !== holder) continue;
      read.giveUp();
      return true;
    }
    return false;
  }

  #setTimer(read: Read): void {
    const ms = Math.max(0, read.endsMs - this.#clock.monotonicMs());
    read.timer = this.#clock.setTimer(this.#isDraining ? Math.min(ms, drainMs) : ms, () => read.giveUp());
  }

  #delete(read: Read): void {
    this.#reads.delete(read);
    if (this.#reads.size > 0) return;
    for (const resolve of this.#onEmpty.splice(0)) resolve();
  }
}

class Read implements AbandonedResponse {
  readonly client: string;
  timer: Timer | undefined;
  /** Monotonic. */
  endsMs = 0;
  #remainingBytes: number;
  readonly #onGivenUp: () => void;
  readonly #onEnded: () => void;
  #isOver = false;

  constructor(client: string, maxBytes: number, onGivenUp: () => void, onEnded: () => void) {
    this.client = client;
    this.#remainingBytes = maxBytes;
    this.#onGivenUp = onGivenUp;
    this.#onEnded = onEnded;
  }

  countBytes(bytes: number): boolean {
    this.#remainingBytes -= bytes;
    if (this.#remainingBytes >= 0) return true;
    this.giveUp();
    return false;
  }

  giveUp(): void {
    if (this.#isOver) return;
    this.end();
    this.#onGivenUp();
  }

  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.timer?.cancel();
    this.#onEnded();
  }
}
