/** A clock that only moves when a test moves it. */
import type { Clock, Timer } from "../timing/clock.ts";

interface PendingTimer {
  readonly dueMs: number;
  readonly order: number;
  readonly callback: () => void;
  /** Whether it belongs to a repeated call. */
  readonly isRepeated: boolean;
}

/** A `Clock` for tests, with timers that fire in `advance`. */
export class FakeClock implements Clock {
  #wallMs: number;
  #monotonicMs: number;
  #nextOrder = 0;
  readonly #pending = new Set<PendingTimer>();

  /** Starts at `wallMs` since the epoch. The monotonic time deliberately starts at another figure. */
  constructor(wallMs = 1_700_000_000_000) {
    this.#wallMs = wallMs;
    this.#monotonicMs = 5_000_000;
  }

  nowMs(): number {
    return this.#wallMs;
  }

  monotonicMs(): number {
    return this.#monotonicMs;
  }

  setTimer(delayMs: number, callback: () => void): Timer {
    return this.#add(delayMs, callback, false);
  }

  every(periodMs: number, callback: () => void): Timer {
    const repeat = (): Timer =>
      this.#add(
        Math.max(1, periodMs),
        () => {
          timer = repeat();
          callback();
        },
        true,
      );
    let timer = repeat();
    return { cancel: () => timer.cancel() };
  }

  #add(delayMs: number, callback: () => void, isRepeated: boolean): Timer {
    const dueMs = this.#monotonicMs + Math.max(0, delayMs);
    const timer = { dueMs, order: this.#nextOrder++, callback, isRepeated };
    this.#pending.add(timer);
    return { cancel: () => this.#pending.delete(timer) };
  }

  /** Advances both times by `ms`, and fires due timers in order, each at its own time. */
  advance(ms: number): void {
    const target = this.#monotonicMs + ms;
    for (let timer = this.#nextDue(target); timer !== undefined; timer = this.#nextDue(target)) {
      this.#pending.delete(timer);
      this.#moveTo(Math.max(this.#monotonicMs, timer.dueMs));
      timer.callback();
    }
    this.#moveTo(target);
  }

  /** Steps only the wall clock, as an operator or NTP would; `ms` may be negative. */
  stepWall(ms: number): void {
    this.#wallMs += ms;
  }

  /** The number of pending timers, without repeated calls. A test of a clean shutdown expects 0. */
  get pendingTimers(): number {
    return this.pendingDelaysMs.length;
  }

  /** The remaining time of each pending timer, in no order, without repeated calls. */
  get pendingDelaysMs(): readonly number[] {
    return [...this.#pending].flatMap(({ dueMs, isRepeated }) => (isRepeated ? [] : [dueMs - this.#monotonicMs]));
  }

  #moveTo(monotonicMs: number): void {
    this.#wallMs += monotonicMs - this.#monotonicMs;
    this.#monotonicMs = monotonicMs;
  }

  #nextDue(target: number): PendingTimer | undefined {
    let next: PendingTimer | undefined;
    for (const timer of this.#pending) {
      if (timer.dueMs > target) continue;
      if (next === undefined || timer.dueMs < next.dueMs || (timer.dueMs === next.dueMs && timer.order < next.order)) {
        next = timer;
      }
    }
    return next;
  }
}
