/** A clock that stands still until a test moves it. */
import type { Clock, Timer } from "../clock.ts";

interface PendingTimer {
  readonly dueMs: number;
  readonly order: number;
  readonly callback: () => void;
  /** Of a repeated call. */
  readonly isRepeated: boolean;
}

export class FakeClock implements Clock {
  #wallMs: number;
  #monotonicMs: number;
  #nextOrder = 0;
  readonly #pending = new Set<PendingTimer>();

  /** Starts at `wallMs` since the epoch; the monotonic reading starts at an arbitrary other figure on purpose. */
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

  /** Moves both readings on by `ms`, firing due timers in order at their own time. */
  advance(ms: number): void {
    const target = this.#monotonicMs + ms;
    for (let timer = this.#nextDue(target); timer !== undefined; timer = this.#nextDue(target)) {
      this.#pending.delete(timer);
      this.#moveTo(Math.max(this.#monotonicMs, timer.dueMs));
      timer.callback();
    }
    this.#moveTo(target);
  }

  /** Steps the wall clock alone, as an operator or NTP would; may be negative. */
  stepWall(ms: number): void {
    this.#wallMs += ms;
  }

  /** How many timers wait, without repeated calls; a test of clean shutdown expects 0. */
  get pendingTimers(): number {
    return this.pendingDelaysMs.length;
  }

  /** How long each timer has to wait from now on, in no order; without repeated calls. */
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
