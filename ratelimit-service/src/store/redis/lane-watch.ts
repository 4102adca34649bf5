/**
 * Knows which connections answer. A lane that owes an answer for longer than the timeout is stalled until it answers
 * anything again; probes ask lanes that are silent or stalled, and one that stays silent is connected anew. So is one that
 * answers and takes no writes: after a failover its address may stand for another server.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { RedisLane, RedisLink } from "./redis-link.ts";

/** Between two probes, in ms. */
const probeIntervalMs = 1_000;
/** A lane silent for so many timeouts is connected anew. */
const patience = 3;

export interface LaneWatchOptions {
  readonly link: RedisLink;
  /** For an answer to a probe. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** Told when all connections were dropped; it is to open them again. */
  readonly onReset: () => void;
  /** Told why a probe failed. */
  readonly onError: (error: Error) => void;
  /** Told of every answer, unless some lane owes one or takes no writes. */
  readonly onAnswer?: (() => void) | undefined;
}

export class LaneWatch {
  readonly #options: LaneWatchOptions;
  readonly #link: RedisLink;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  /** By lane: since when it is stalled, on the monotonic clock. */
  readonly #stalled = new Map<string, number>();
  #heardSinceProbe = false;
  #isReadOnly = false;
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(options: LaneWatchOptions) {
    this.#options = options;
    this.#link = options.link;
    this.#timeoutMs = options.timeoutMs;
    this.#clock = options.clock;
    this.#schedule();
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  /** Whether a command for this key would wait in vain. */
  isStalled(key: string): boolean {
    return this.#stalled.size > 0 && this.#stalled.has(this.#link.laneOf(key));
  }

  /** Some lane answers. */
  isHealthy(): boolean {
    if (!this.#link.isReady() || this.#isReadOnly) return false;
    return this.#stalled.size === 0 || this.#link.lanes().some(({ name }) => !this.#stalled.has(name));
  }

  heard(key: string): void {
    this.#heardSinceProbe = true;
    if (this.#stalled.size > 0) this.#stalled.delete(this.#link.laneOf(key));
    this.#answered();
  }

  missed(key: string): void {
    this.#stall(this.#link.laneOf(key));
  }

  /** A server takes no writes; it is connected anew with the next probe, not at once, so that it is no storm. */
  foundReadOnly(): void {
    this.#isReadOnly = true;
  }

  #answered(): void {
    if (this.#stalled.size === 0 && !this.#isReadOnly) this.#options.onAnswer?.();
  }

  #stall(lane: string): void {
    if (!this.#stalled.has(lane)) this.#stalled.set(lane, this.#clock.monotonicMs());
  }

  #schedule(): void {
    if (!this.#isClosed) this.#timer = this.#clock.setTimer(probeIntervalMs, () => void this.#probe());
  }

  /** Never rejects. */
  async #probe(): Promise<void> {
    const isNeeded = this.#stalled.size > 0 || !this.#heardSinceProbe;
    this.#heardSinceProbe = false;
    if (this.#isReadOnly) this.#reset();
    else if (isNeeded && this.#link.isReady()) {
      const lanes = this.#link.lanes();
      for (const name of this.#stalled.keys())
        if (!lanes.some((lane) => lane.name === name)) this.#stalled.delete(name);
      await Promise.all(lanes.map((lane) => this.#ask(lane)));
      this.#resetIfSilent();
    }
    this.#schedule();
  }

  async #ask(lane: RedisLane): Promise<void> {
    const { onError } = this.#options;
    const late = Promise.withResolvers<Error>();
    const timer = this.#clock.setTimer(this.#timeoutMs, () => {
      late.resolve(new Error(`redis did not answer within ${this.#timeoutMs} ms`));
    });
    const answer = lane.ping().then(
      () => undefined,
      (error: unknown) => (error instanceof Error ? error : new Error(String(error))),
    );
    const fault = await Promise.race([answer, late.promise]);
    timer.cancel();
    if (this.#isClosed) return;
    if (fault === undefined) {
      this.#stalled.delete(lane.name);
      this.#answered();
    } else {
      this.#stall(lane.name);
      onError(fault);
    }
  }

  #resetIfSilent(): void {
    const longest = Math.min(Infinity, ...this.#stalled.values());
    if (this.#clock.monotonicMs() - longest >= patience * this.#timeoutMs) this.#reset();
  }

  #reset(): void {
    if (this.#isClosed) return;
    this.#isReadOnly = false;
    this.#stalled.clear();
    this.#link.reset();
    this.#options.onReset();
  }
}
