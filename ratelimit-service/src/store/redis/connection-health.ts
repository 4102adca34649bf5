/**
 * Tracks the health of connections. A connection whose reply takes longer than the timeout is stalled until any reply
 * arrives. Probes ping idle and stalled connections, and a connection that stays silent is reconnected. A connection
 * that rejects writes is reconnected too, because after a failover its address may be that of another server.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { toError } from "@gatewayproxy/runtime/thrown-value";
import type { RedisConnection, RedisLink } from "./redis-link.ts";

/** Interval between two probes, in ms. */
const probeIntervalMs = 1_000;
/** Number of timeouts after which a silent connection is reconnected. */
const timeoutsBeforeReset = 3;

/** The connections, and the receivers of their changes. */
export interface ConnectionHealthOptions {
  /** The connections to watch. */
  readonly link: RedisLink;
  /** Timeout of a probe, in ms. */
  readonly timeoutMs: number;
  /** Times probes, one each second. */
  readonly clock: Clock;
  /** Called when all connections were dropped. The callee opens them again. */
  readonly onReset: () => void;
  /** Called with the error of a failed probe. */
  readonly onError: (error: Error) => void;
  /** Called for every reply, unless some connection is stalled or rejects writes. */
  readonly onReply?: (() => void) | undefined;
}

/** Watches the connections of one store. A connection without a reply for three timeouts is opened again. */
export class ConnectionHealth {
  readonly #options: ConnectionHealthOptions;
  readonly #link: RedisLink;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  /** By connection: the time since which it is stalled, on the monotonic clock. */
  readonly #stalled = new Map<string, number>();
  #repliedSinceProbe = false;
  #isReadOnly = false;
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(options: ConnectionHealthOptions) {
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

  /** Whether the connection for this key is stalled, so that a command would time out. */
  isStalled(key: string): boolean {
    return this.#stalled.size > 0 && this.#stalled.has(this.#link.connectionOf(key));
  }

  /** Whether some connection responds. */
  isHealthy(): boolean {
    if (!this.#link.isReady() || this.#isReadOnly) return false;
    return this.#stalled.size === 0 || this.#link.activeConnections().some(({ name }) => !this.#stalled.has(name));
  }

  recordReply(key: string): void {
    this.#repliedSinceProbe = true;
    if (this.#stalled.size > 0) this.#stalled.delete(this.#link.connectionOf(key));
    this.#reportReply();
  }

  recordTimeout(key: string): void {
    this.#markStalled(this.#link.connectionOf(key));
  }

  /**
   * Records that a server rejects writes. It is reconnected with the next probe, not at once, to avoid a storm of
   * reconnects.
   */
  recordReadOnly(): void {
    this.#isReadOnly = true;
  }

  #reportReply(): void {
    if (this.#stalled.size === 0 && !this.#isReadOnly) this.#options.onReply?.();
  }

  #markStalled(connection: string): void {
    if (!this.#stalled.has(connection)) this.#stalled.set(connection, this.#clock.monotonicMs());
  }

  #schedule(): void {
    if (!this.#isClosed) this.#timer = this.#clock.setTimer(probeIntervalMs, () => void this.#probe());
  }

  /** Never rejects. */
  async #probe(): Promise<void> {
    const isNeeded = this.#stalled.size > 0 || !this.#repliedSinceProbe;
    this.#repliedSinceProbe = false;
    if (this.#isReadOnly) {
      this.#reset();
    } else if (isNeeded && this.#link.isReady()) {
      const activeConnections = this.#link.activeConnections();
      for (const name of this.#stalled.keys()) {
        if (!activeConnections.some((connection) => connection.name === name)) this.#stalled.delete(name);
      }
      await Promise.all(activeConnections.map((connection) => this.#ping(connection)));
      this.#resetIfSilent();
    }
    this.#schedule();
  }

  async #ping(connection: RedisConnection): Promise<void> {
    const { onError } = this.#options;
    const late = Promise.withResolvers<Error>();
    const timer = this.#clock.setTimer(this.#timeoutMs, () => {
      late.resolve(new Error(`redis did not respond within ${this.#timeoutMs} ms`));
    });
    const response = connection.ping().then(() => undefined, toError);
    const error = await Promise.race([response, late.promise]);
    timer.cancel();
    if (this.#isClosed) return;
    if (error === undefined) {
      this.#stalled.delete(connection.name);
      this.#reportReply();
    } else {
      this.#markStalled(connection.name);
      onError(error);
    }
  }

  #resetIfSilent(): void {
    const longest = Math.min(Infinity, ...this.#stalled.values());
    if (this.#clock.monotonicMs() - longest >= timeoutsBeforeReset * this.#timeoutMs) this.#reset();
  }

  #reset(): void {
    if (this.#isClosed) return;
    this.#isReadOnly = false;
    this.#stalled.clear();
    this.#link.reset();
    this.#options.onReset();
  }
}
