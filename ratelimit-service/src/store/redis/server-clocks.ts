/**
 * How far the clocks of Redis servers are ahead of the one of this machine. A sliding window has the hits of all
 * replicas by their time. Two replicas whose clocks differ by more than a window would each take the hits of the other
 * for old ones, and the limit would never be reached. So they count by the clock of the server.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { RedisLink } from "./redis-link.ts";

/** Reads the time by a script with a key, since a proxy of Redis may not know TIME. */
const timeScript = "local now = redis.call('TIME') return now[1] .. ' ' .. now[2]";
/** A clock that differs by less is right: the shortest window is a second. */
const smallMs = 500;
/** A server whose clock was set is noticed after this time, a machine whose clock was set at once. */
const validMs = 10_000;

interface Reading {
  readonly serverMs: number;
  /** On the monotonic clock. */
  readonly atMs: number;
}

/** The clock of one server. */
interface ServerClock {
  /** Undefined if it is unknown. */
  reading: Reading | undefined;
  /** Resolves after the first attempt to read it. */
  readonly firstRead: Promise<void>;
  isFirst: boolean;
  /** Of the last attempt, on the monotonic clock. */
  triedMs: number;
}

/** The clocks of the servers of one link. */
export class ServerClocks {
  readonly #link: RedisLink;
  readonly #clock: Clock;
  /** By connection. */
  readonly #servers = new Map<string, ServerClock>();

  constructor(link: RedisLink, clock: Clock) {
    this.#link = link;
    this.#clock = clock;
  }

  /** Milliseconds by which the server of a key is ahead, below 0 if it is behind; 0 if that is little, or unknown. */
  aheadMs(key: string): number {
    const reading = this.#servers.get(this.#link.connectionOf(key))?.reading;
    if (reading === undefined) return 0;
    const serverMs = reading.serverMs + this.#clock.monotonicMs() - reading.atMs;
    const aheadMs = serverMs - this.#clock.nowMs();
    return Math.abs(aheadMs) < smallMs ? 0 : aheadMs;
  }

  /**
   * Reads the clock of the server of a key from time to time.
   *
   * @returns while it is read for the first time, a promise that resolves then.
   */
  read(key: string): Promise<void> | undefined {
    const connection = this.#link.connectionOf(key);
    const server = this.#servers.get(connection);
    const nowMs = this.#clock.monotonicMs();
    if (server === undefined) {
      const first: ServerClock = {
        reading: undefined,
        firstRead: this.#send(key, connection),
        isFirst: true,
        triedMs: nowMs,
      };
      this.#servers.set(connection, first);
      return first.firstRead;
    }
    if (server.isFirst) return server.firstRead;
    if (nowMs - server.triedMs >= validMs) {
      server.triedMs = nowMs;
      void this.#send(key, connection);
    }
    return undefined;
  }

  /** Without the time of the server, that of this machine counts. */
  async #send(key: string, connection: string): Promise<void> {
    const startMs = this.#clock.monotonicMs();
    const reply = await this.#link.send(key, ["EVAL", timeScript, "1", key]).catch(() => "");
    const server = this.#servers.get(connection);
    if (server === undefined) return;
    server.isFirst = false;
    const [seconds, microseconds] = String(reply).split(" ").map(Number);
    const atMs = this.#clock.monotonicMs();
    if (seconds === undefined || microseconds === undefined) {
      server.reading = undefined;
    } else if (atMs - startMs < smallMs) {
      server.reading = { serverMs: seconds * 1_000 + microseconds / 1_000, atMs: (startMs + atMs) / 2 };
    }
  }
}
