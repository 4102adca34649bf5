/**
 * Bounds the requests that begin in one turn of the event loop. A client can send thousands at once, over many
 * connections, and each may cost a millisecond, such as for the patterns of its routes. What other clients send would
 * wait for all of them, in every turn.
 *
 * Beyond some milliseconds, requests wait for the next turns. Clients take turns, so that one with many requests does
 * not delay the few of another one.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";

/** The time of a turn in which requests begin at once. Those of a thousand busy connections need no more. */
const atOnceMs = 50;
/** The time of a turn in which waiting requests begin. It is short, since libuv accepts one connection in each turn. */
const turnMs = 1;

/** The requests of one worker that have not begun. */
export class RequestTurns {
  readonly #clock: Clock;
  /** By client, in the order of their turns. No list is empty. */
  readonly #waiting = new Map<string, (() => void)[]>();
  /** The first request of this turn; undefined before it. */
  #sinceMs: number | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether a request that arrives at `nowMs` may begin at once. */
  hasRoom(nowMs: number): boolean {
    this.#sinceMs ??= this.#start(nowMs);
    return this.#waiting.size === 0 && nowMs - this.#sinceMs < atOnceMs;
  }

  /** Calls `begin` in a later turn. `begin` must not throw. */
  wait(client: string, begin: () => void): void {
    const own = this.#waiting.get(client);
    if (own === undefined) this.#waiting.set(client, [begin]);
    else own.push(begin);
  }

  #start(nowMs: number): number {
    setImmediate(this.#next);
    return nowMs;
  }

  readonly #next = (): void => {
    this.#sinceMs = undefined;
    if (this.#waiting.size === 0) return;
    const startMs = this.#clock.monotonicMs();
    do this.#beginOne();
    while (this.#waiting.size > 0 && this.#clock.monotonicMs() - startMs < turnMs);
    if (this.#waiting.size > 0) this.#sinceMs = this.#start(this.#clock.monotonicMs());
  };

  /** The next turn of the client comes after those of the others. */
  #beginOne(): void {
    const [next] = this.#waiting;
    if (next === undefined) return;
    const [client, own] = next;
    const begin = own.shift();
    if (own.length === 0) {
      this.#waiting.delete(client);
    } else if (this.#waiting.size > 1) {
      this.#waiting.delete(client);
      this.#waiting.set(client, own);
    }
    begin?.();
  }
}
