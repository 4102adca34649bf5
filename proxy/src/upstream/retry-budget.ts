/**
 * How many retries a backend may get. Retries help while few calls fail; when most do, they only add load to a backend
 * that has too much of it already. So over any ten seconds retries stay below a fifth of the requests, or below ten a
 * second where that is more. The figures are the defaults of the Gateway API's retry budget (GEP-3388), which is
 * experimental in release 1.6 and a resource of its own, so they are no setting here.
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

  /** Empties the slots of the seconds that have passed since the last look. */
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
