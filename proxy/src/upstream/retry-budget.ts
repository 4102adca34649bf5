/**
 * Bounds the retries of a backend. Retries help while few calls fail. If most fail, they only add load to an overloaded
 * backend. Over any ten seconds, retries are therefore at most a fifth of the requests, or ten per second if that is
 * more. These are the defaults of the retry budget of the Gateway API (GEP-3388), which is experimental in release 1.6
 * and has its own resource, so they are not settings here.
 */

const seconds = 10;
const share = 0.2;
const minimumPerSecond = 10;

/** The budget of one backend in one worker. Costs two small arrays and no timer. */
export class RetryBudget {
  /** One slot per second of the window, by the second modulo its length. */
  readonly #requests = new Uint32Array(seconds);
  readonly #retries = new Uint32Array(seconds);
  #second = 0;

  /** Counts a client's request. @param nowMs monotonic */
  countRequest(nowMs: number): void {
    const slot = this.#slotOf(nowMs);
    this.#requests[slot] = (this.#requests[slot] ?? 0) + 1;
  }

  /** Takes one retry out of the budget, if there is any left. @param nowMs monotonic */
  tryRetry(nowMs: number): boolean {
    const slot = this.#slotOf(nowMs);
    const allowed = Math.max(sum(this.#requests) * share, minimumPerSecond * seconds);
    if (sum(this.#retries) >= allowed) return false;
    this.#retries[slot] = (this.#retries[slot] ?? 0) + 1;
    return true;
  }

  /** Empties the slots of the seconds since the last call. */
  #slotOf(nowMs: number): number {
    const now = Math.floor(nowMs / 1_000);
    for (let passed = Math.min(now - this.#second, seconds); passed > 0; passed--) {
      const slot = (now - passed + 1) % seconds;
      this.#requests[slot] = 0;
      this.#retries[slot] = 0;
    }
    this.#second = now;
    return now % seconds;
  }
}

function sum(counts: Uint32Array): number {
  let total = 0;
  for (const count of counts) total += count;
  return total;
}
