/**
 * Decides for the entries of one rule whether a request is allowed, and counts it: in all entries or in none. All
 * access of requests to the local counters goes through here.
 *
 * Enforced entries decide. A request that one of them denies is not counted at all, not even by shadow entries. A
 * shadow entry never denies. It counts the requests that it would allow, so that its figures equal those of the same
 * entry enforced alone, and reports the others as `shadowDenied`. It does not appear in headers.
 */
import type { LimitDecision, LocalLimit } from "../../ir/limit.ts";
import type { Expression } from "../../cel/expression.ts";
import type { RequestView } from "../../cel/request-view.ts";
import type { EntryId } from "./counter-id.ts";
import { CounterReservation, notCounted } from "./counter-reservation.ts";
import {
  type AppliedEntries,
  borrowStates,
  bucketsOf,
  type CounterState,
  nearestState,
  stateOf,
} from "./counter-state.ts";
import type { CounterTable } from "./counter-table.ts";
import type { Allowed, Denied } from "./decision.ts";
import type { LocalDenial } from "./denial.ts";
import { entryOf, type LimitEntry } from "./limit-entry.ts";
import { type Budget, count, hasBudget, type LimitState, settle } from "./window.ts";

/** The decision of the local limits on one request. */
export type LocalDecision = LocalAllowed | Denied<LocalReport, LocalDenial>;

/** All enforced entries allow the request. */
export type LocalAllowed = Allowed<CounterReservation, LocalReport>;

/** What each entry decided. */
export interface LocalReport {
  /** One item per entry; never mutated. */
  readonly decisions: readonly LimitDecision[];
  /**
   * Of an allowed request the state of the enforced entry nearest to exhaustion, after this request, and undefined if no
   * entry is enforced; of a denied one the state of the entry that denied.
   */
  readonly state: LimitState | undefined;
  /** One item per entry; undefined unless they were asked for. */
  readonly figures: readonly EntryFigures[] | undefined;
}

/** The figures of one entry's counter in a decision, for operators. */
export interface EntryFigures {
  readonly limit: LocalLimit;
  /** The value of the entry's key. */
  readonly key: string | undefined;
  readonly capacity: number;
  /** After the decision. */
  readonly used: number;
  readonly isAllowed: boolean;
}

/**
 * Compiles the entries of one rule. An identity that occurs twice counts once, enforced if either occurrence is. Throws
 * if a key does not parse, which the configuration's validation excludes.
 */
export function compileLimits(limits: readonly LocalLimit[], table: CounterTable): LimitSet {
  const entries = new Map<EntryId, LimitEntry>();
  for (const limit of limits) {
    const id = table.entryId(limit);
    const existing = entries.get(id);
    if (existing === undefined || (existing.limit.mode === "Shadow" && limit.mode === "Enforce")) {
      entries.set(id, entryOf(limit, id, table));
    }
  }
  return new LimitSet([...entries.values()], table);
}

/** The compiled limits of one rule. Owned by one thread. */
export class LimitSet {
  readonly #entries: readonly LimitEntry[];
  readonly #budgets: readonly Budget[];
  readonly #table: CounterTable;
  readonly #allAllowed: readonly LimitDecision[];
  /** What applies to every request if no entry has a key. */
  readonly #fixed: AppliedEntries | undefined;
  /** Whether responses must be parsed for their token usage. */
  readonly countsTokens: boolean;

  constructor(entries: readonly LimitEntry[], table: CounterTable) {
    this.#entries = entries;
    this.#table = table;
    this.#budgets = entries.map(({ budget }) => budget);
    this.#allAllowed = entries.map((entry) => entry.allowed);
    this.#fixed = entries.some((entry) => entry.key !== undefined)
      ? undefined
      : this.#appliedWith(entries.map((entry) => entry.shared));
    this.countsTokens = entries.some((entry) => !entry.countsRequests);
  }

  /** True if there is no entry; `decide` then allows everything. */
  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  /** All limits, in the order of the decisions. */
  get limits(): readonly LocalLimit[] {
    return this.#entries.map(({ limit }) => limit);
  }

  /** The keys of the entries. */
  get expressions(): readonly Expression[] {
    return this.#entries.flatMap(({ key }) => key ?? []);
  }

  /**
   * Decides one request and counts it if it is allowed.
   *
   * @param nowMs Monotonic, of one clock for all threads.
   * @param withFigures Whether the report has the figures of the counters.
   */
  decide(view: RequestView, nowMs: number, withFigures = false): LocalDecision {
    const applied = this.#fixed ?? this.#apply(view);
    const states = borrowStates(applied.entries.length);
    let denying = -1;
    this.#table.lock(applied.buckets);
    try {
      denying = this.#evaluate(applied, states, nowMs);
      if (denying === -1) this.#count(applied, states, nowMs);
      else this.#touch(applied, states, nowMs);
    } finally {
      this.#table.unlock(applied.buckets);
    }
    return denying === -1
      ? this.#allow(applied, states, nowMs, withFigures)
      : this.#deny(applied, states, denying, nowMs, withFigures);
  }

  #apply(view: RequestView): AppliedEntries {
    return this.#appliedWith(this.#entries.map((entry) => entry.counterOf(view, this.#table)));
  }

  #appliedWith(ids: AppliedEntries["ids"]): AppliedEntries {
    return { entries: this.#entries, ids, budgets: this.#budgets, buckets: bucketsOf(ids) };
  }

  /**
   * Settles every entry's counter at `nowMs`. Returns the place of the enforced entry that denies for the longest time,
   * or -1 if none denies.
   */
  #evaluate({ entries, ids, budgets }: AppliedEntries, states: readonly CounterState[], nowMs: number): number {
    let denying = -1;
    let denyingEndMs = 0;
    for (let at = 0; at < entries.length; at++) {
      const entry = entries[at];
      const id = ids[at];
      const budget = budgets[at];
      const state = states[at];
      if (entry === undefined || id === undefined || budget === undefined || state === undefined) continue;
      state.slot = this.#table.find(id);
      this.#table.load(state.slot, state);
      settle(state, budget.refill, budget.windowMs, nowMs);
      state.isAllowed = hasBudget(state, budget, entry.units);
      if (state.isAllowed || !entry.isEnforced) continue;
      const endMs = state.startMs + budget.windowMs;
      if (denying !== -1 && endMs <= denyingEndMs) continue;
      denying = at;
      denyingEndMs = endMs;
    }
    return denying;
  }

  #count({ entries, ids, budgets }: AppliedEntries, states: readonly CounterState[], nowMs: number): void {
    for (let at = 0; at < entries.length; at++) {
      const entry = entries[at];
      const state = states[at];
      if (entry === undefined || state === undefined) continue;
      if (entry.countsRequests && state.isAllowed && entry.units > 0) count(state, entry.units, nowMs);
      if (state.slot !== -1) this.#table.store(state.slot, state, nowMs);
    }
    // Claims come last: they cannot take a slot that this request counted in.
    for (let at = 0; at < entries.length; at++) {
      const id = ids[at];
      const budget = budgets[at];
      const state = states[at];
      if (id === undefined || budget === undefined || state === undefined) continue;
      if (state.slot === -1 && state.used > 0) this.#table.claim(id, budget, state, nowMs);
    }
  }

  /** A counter that only denies is in use too, and must not be evicted before others. */
  #touch({ entries }: AppliedEntries, states: readonly CounterState[], nowMs: number): void {
    for (let at = 0; at < entries.length; at++) {
      const slot = states[at]?.slot ?? -1;
      if (slot !== -1) this.#table.touch(slot, nowMs);
    }
  }

  #allow(applied: AppliedEntries, states: readonly CounterState[], nowMs: number, withFigures: boolean): LocalDecision {
    const startsMs: number[] = [];
    let isAllAllowed = true;
    for (let at = 0; at < applied.entries.length; at++) {
      const state = states[at];
      const isAllowed = state?.isAllowed === true;
      startsMs.push(isAllowed ? state.startMs : notCounted);
      isAllAllowed &&= isAllowed;
    }
    const report = {
      decisions: isAllAllowed ? this.#allAllowed : decisionsOf(applied, states),
      state: nearestState(applied, states, nowMs),
      figures: withFigures ? figuresOf(applied, states) : undefined,
    };
    return { kind: "allowed", reservation: new CounterReservation(this.#table, applied, startsMs), report };
  }

  #deny(
    applied: AppliedEntries,
    states: readonly CounterState[],
    denying: number,
    nowMs: number,
    withFigures: boolean,
  ): LocalDecision {
    const entry = applied.entries[denying];
    const budget = applied.budgets[denying];
    const denyingState = states[denying];
    if (entry === undefined || budget === undefined || denyingState === undefined) throw new Error("no such entry");
    const state = stateOf(denyingState, budget, nowMs);
    const by: LocalDenial = {
      kind: "local",
      limit: entry.limit,
      key: applied.ids[denying]?.key,
      used: denyingState.used,
      windowStartMs: denyingState.startMs,
      state,
      retryAfterSeconds: state.resetSeconds,
    };
    const figures = withFigures ? figuresOf(applied, states) : undefined;
    return { kind: "denied", by, report: { decisions: decisionsOf(applied, states), state, figures } };
  }
}

function decisionsOf({ entries }: AppliedEntries, states: readonly CounterState[]): readonly LimitDecision[] {
  return entries.map((entry, at) => (states[at]?.isAllowed === true ? entry.allowed : entry.denied));
}

function figuresOf(
  { entries, ids, budgets }: AppliedEntries,
  states: readonly CounterState[],
): readonly EntryFigures[] {
  return entries.map(({ limit }, at) => ({
    limit,
    key: ids[at]?.key,
    capacity: budgets[at]?.capacity ?? 0,
    used: states[at]?.used ?? 0,
    isAllowed: states[at]?.isAllowed === true,
  }));
}
