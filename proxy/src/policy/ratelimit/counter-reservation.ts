/** What an allowed request holds in its local counters. */
import { defaultRefundOn, type RefundCause } from "../../ir/limit.ts";
import type { TokenUsage } from "../../ir/usage.ts";
import type { RequestView } from "../../cel/request-view.ts";
import { unitsOf, viewWithUsage } from "./cost.ts";
import { type AppliedEntries, borrowStates, type CounterState, listedStates, nearestState } from "./counter-state.ts";
import type { CounterTable } from "./counter-table.ts";
import type { Reservation } from "./decision.ts";
import type { ShownLimit } from "./shown-limit.ts";
import { count, hasBudget, type LimitState, refund, release, settle, type Windows } from "./window.ts";

/**
 * The window start of a shadow entry that did not count the request. A window of a counter that was read from a file
 * may have begun before the machine, so its start may be negative.
 */
export const notCounted = Number.NEGATIVE_INFINITY;

/** The states of counters for the headers of a response. */
export interface ShownStates {
  /** As `nearestState` returns it. */
  readonly state: LimitState | undefined;
  /** As `listedStates` returns them. */
  readonly listed: readonly ShownLimit[] | undefined;
}

/** The units that an allowed request holds in its counters. */
export class CounterReservation implements Reservation {
  readonly #table: CounterTable;
  readonly #applied: AppliedEntries;
  /** The start of the window that counted the request, by entry. */
  readonly #startsMs: readonly number[];
  /** The epoch of the counter that counted the request, by entry; undefined if all are 0. */
  readonly #epochs: readonly number[] | undefined;
  /** Present if a cost is computed from the response. */
  readonly #view: RequestView | undefined;
  /** The units that the request still holds, by entry; undefined if it never held any. */
  readonly #held: number[] | undefined;
  #isRefunded = false;
  #isReleased = false;

  /** @param view is kept until the response; absent if no entry has a cost by its response. */
  constructor(
    table: CounterTable,
    applied: AppliedEntries,
    startsMs: readonly number[],
    epochs: readonly number[] | undefined,
    view: RequestView | undefined,
  ) {
    this.#table = table;
    this.#applied = applied;
    this.#startsMs = startsMs;
    this.#epochs = epochs;
    this.#view = view;
    this.#held = applied.held?.map((units, at) => (startsMs[at] === notCounted ? 0 : units));
  }

  /**
   * Adds the cost of the response to the entries that count tokens or spend. It replaces what the request holds of
   * them. A total that is no whole number of at least 1 is ignored, so that a backend's report cannot corrupt a budget.
   */
  charge(usage: TokenUsage, nowMs: number): void {
    if (!isCount(usage.total)) return;
    const view = this.#view === undefined ? undefined : viewWithUsage(this.#view, usage);
    for (let at = 0; at < this.#startsMs.length; at++) {
      const entry = this.#applied.entries[at];
      const cost = view === undefined ? undefined : unitsOf(entry?.cost, view, entry?.limit.target ?? "");
      this.#charge(at, cost ?? (entry?.limit.counts === "spend" ? (usage.cost ?? 0) : usage.total), nowMs);
    }
  }

  /** Adds tokens only to the entry at index `entry` of its policy; `tokens` as for `charge`. */
  chargeEntry(entry: number, tokens: number, nowMs: number): void {
    for (let at = 0; at < this.#startsMs.length; at++) {
      if (this.#applied.entries[at]?.limit.entry === entry) this.#charge(at, tokens, nowMs);
    }
  }

  #charge(at: number, tokens: number, nowMs: number): void {
    if (!isCount(tokens) || this.#startsMs[at] === notCounted) return;
    if (this.#applied.entries[at]?.countsRequests !== false) return;
    this.#replaceHeld(at, tokens, nowMs);
  }

  /**
   * Counts `units` in place of what the request holds. A hold belongs to the window in which the request was allowed,
   * and so do the units of its response, except for those that exceed the hold.
   */
  #replaceHeld(at: number, units: number, nowMs: number): void {
    const held = this.#takeHeld(at);
    if (held === 0 && units === 0) return;
    this.#update(at, nowMs, (state, windows) => {
      // A reset has restored the hold already.
      const isReset = held > 0 && state.epoch !== (this.#epochs?.[at] ?? 0);
      const excess = isReset ? units : units - held;
      if (excess > 0) count(state, windows, excess, nowMs);
      else if (excess < 0) refund(state, windows, -excess, this.#startsMs[at] ?? notCounted);
      if (held > 0 && state.slot !== -1) this.#table.addHeld(state.slot, -held);
    });
  }

  #takeHeld(at: number): number {
    const held = this.#held?.[at] ?? 0;
    if (this.#held !== undefined) this.#held[at] = 0;
    return held;
  }

  /** As `Reservation.holdsPlace`. */
  get holdsPlace(): boolean {
    return (
      this.#held?.some((units) => units > 0) === true ||
      this.#applied.budgets.some(({ windows }) => windows.kind === "Concurrent")
    );
  }

  /** As `Reservation.release`. */
  release(nowMs: number): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#releaseHeld(nowMs);
    for (let at = 0; at < this.#startsMs.length; at++) {
      if (this.#applied.budgets[at]?.windows.kind !== "Concurrent" || this.#startsMs[at] === notCounted) continue;
      const units = this.#applied.units[at] ?? 0;
      this.#update(at, nowMs, (state) => {
        // A counter that was evicted has lost these units, and another may have its slot.
        if (state.slot !== -1) release(state, Math.min(units, this.#table.ownUnits(state.slot)));
      });
    }
  }

  /** A response that charged nothing leaves its hold. */
  #releaseHeld(nowMs: number): void {
    for (let at = 0; at < (this.#held?.length ?? 0); at++) this.#replaceHeld(at, 0, nowMs);
  }

  /** As `Reservation.refund`. Returns the states afterwards, as `shown` does. */
  refund(nowMs: number, cause?: RefundCause): ShownStates {
    for (let at = 0; at < this.#startsMs.length; at++) {
      this.#update(at, nowMs, (state, windows) => this.#refund(at, state, windows, cause));
    }
    this.#isRefunded = true;
    if (cause === undefined) this.release(nowMs);
    // An entry that was read before another refunded the same counter is read again.
    return this.#applied.previous === undefined ? this.#shown(nowMs) : this.shown(nowMs);
  }

  #refund(at: number, state: CounterState, windows: Windows, cause: RefundCause | undefined): void {
    const entry = this.#applied.entries[at];
    const startMs = this.#startsMs[at] ?? notCounted;
    if (entry?.countsRequests !== true || startMs === notCounted || this.#isRefunded) return;
    if (windows.kind === "Concurrent") return;
    // A reset has restored these units already.
    if (state.epoch !== (this.#epochs?.[at] ?? 0)) return;
    if (cause !== undefined && !(entry.limit.refundOn ?? defaultRefundOn).includes(cause)) return;
    refund(state, windows, this.#applied.units[at] ?? 0, startMs);
  }

  /** Returns the current states for the headers of a response. */
  shown(nowMs: number): ShownStates {
    for (let at = 0; at < this.#startsMs.length; at++) this.#update(at, nowMs, leaveUnchanged);
    return this.#shown(nowMs);
  }

  /** Of the counters as they were read last. */
  #shown(nowMs: number): ShownStates {
    const states = borrowStates(this.#startsMs.length);
    return {
      state: nearestState(this.#applied, states, nowMs),
      listed: listedStates(this.#applied, states, nowMs),
    };
  }

  /** Whether every enforced entry of tokens or spend has some left, as for a new request. */
  hasTokensLeft(nowMs: number): boolean {
    let hasLeft = true;
    for (let at = 0; at < this.#startsMs.length; at++) {
      const entry = this.#applied.entries[at];
      const budget = this.#applied.budgets[at];
      if (entry?.countsRequests !== false || !entry.isEnforced || budget === undefined) continue;
      this.#update(at, nowMs, (state) => {
        hasLeft &&= hasBudget(state, budget, this.#applied.units[at] ?? 1);
      });
    }
    return hasLeft;
  }

  /** Settles one counter, applies `change`, and stores it. */
  #update(at: number, nowMs: number, change: (state: CounterState, windows: Windows) => void): void {
    const id = this.#applied.ids[at];
    const windows = this.#applied.budgets[at]?.windows;
    const state = borrowStates(this.#startsMs.length)[at];
    if (id === undefined || windows === undefined || state === undefined) return;
    const buckets = [id.bucket];
    this.#table.lock(buckets);
    try {
      state.slot = this.#table.find(id);
      this.#table.load(state.slot, windows, state);
      settle(state, windows, nowMs);
      change(state, windows);
      if (state.slot !== -1) this.#table.store(state.slot, windows, state, nowMs);
      else if (state.used > 0) this.#table.claim(id, windows, state, nowMs);
    } finally {
      this.#table.unlock(buckets);
    }
  }
}

function isCount(tokens: number): boolean {
  return Number.isSafeInteger(tokens) && tokens >= 1;
}

function leaveUnchanged(): void {
  // Settling suffices.
}
