/**
 * Decides for the entries of one rule whether a request is allowed, and counts it: in all entries or in none. All
 * access of requests to the local counters goes through here.
 *
 * Enforced entries decide. A request that one of them denies is not counted at all, not even by shadow entries. A
 * shadow entry never denies. It counts the requests that it would allow, so that its figures equal those of the same
 * entry enforced alone, and reports the others as `shadowDenied`. It does not appear in headers.
 *
 * An entry whose `when` is false for a request neither decides nor counts it. A request that several entries of a
 * bucket apply to is counted once: by the first of them that allows it. Each compares the counter with its own limit.
 */
import type { LimitDecision, LocalLimit } from "../../ir/limit.ts";
import type { Expression } from "../../cel/expression.ts";
import type { RequestView } from "../../cel/request-view.ts";
import type { CounterId } from "./counter-id.ts";
import { CounterReservation, notCounted } from "./counter-reservation.ts";
import {
  type AppliedEntries,
  borrowStates,
  bucketsOf,
  type CounterState,
  type EntryNames,
  listedStates,
  missingUnits,
  nearestState,
  previousOf,
  stateOf,
} from "./counter-state.ts";
import type { CounterTable } from "./counter-table.ts";
import type { Allowed, Denied, Unavailable } from "./decision.ts";
import type { LocalDenial, NamedLimits } from "./denial.ts";
import { entryOf, LimitEntry } from "./limit-entry.ts";
import { isNamed, type LimitList, renamed, type ShownLimit } from "./shown-limit.ts";
import { type Budget, count, hasBudget, type LimitState, msToReset, settle, startOf } from "./window.ts";

/** The decision of the local limits on one request. */
export type LocalDecision = LocalAllowed | Denied<LocalReport, LocalDenial> | Unavailable<LocalReport>;

/** All enforced entries allow the request. */
export type LocalAllowed = Allowed<CounterReservation, LocalReport>;

/** What each entry decided. */
export interface LocalReport {
  /** One item per entry; never mutated. */
  readonly decisions: readonly LimitDecision[];
  /**
   * Of an allowed request the state of the entry nearest to exhaustion, after this request, and undefined if no entry
   * is in headers; of a denied one the state of the entry that denied.
   */
  readonly state: LimitState | undefined;
  /** The states after this request, for header families that list limits; undefined if none of them is sent. */
  readonly listed: readonly ShownLimit[] | undefined;
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
  /** The units that the request counts, if it is allowed. */
  readonly units: number;
  /** The units that it holds until its response is charged, if it is allowed. */
  readonly held: number;
  readonly outcome: LimitDecision["outcome"];
}

/**
 * Compiles the entries of one rule. An identity that occurs twice counts once, enforced if either occurrence is. Throws
 * if an expression does not parse, which the configuration's validation excludes.
 *
 * @param list of the policies that has the limits.
 */
export function compileLimits(limits: readonly LocalLimit[], table: CounterTable, list: LimitList = "local"): LimitSet {
  const entries = new Map<string, LimitEntry>();
  for (const limit of limits) {
    const id = table.entryId(limit);
    // Different entries of a bucket have the identity of their counter in common.
    const identity = limit.bucket === undefined ? id : `${limit.policy} ${limit.target} ${limit.entry} ${id}`;
    const existing = entries.get(identity);
    if (existing === undefined || (existing.limit.mode === "Shadow" && limit.mode === "Enforce")) {
      entries.set(identity, entryOf(limit, id, table, list));
    }
  }
  return new LimitSet([...entries.values()], table);
}

/** Returns the names of entries that differ from their own; undefined if no response names an entry. */
function entryNames(entries: readonly LimitEntry[]): EntryNames | undefined {
  const named = entries.filter(({ limit }) => isNamed(limit));
  if (named.length === 0) return undefined;
  const names = renamed(named);
  return names.size === 0 ? ownNames : names;
}

/** Thousands of rules share it. */
const ownNames: EntryNames = new Map();

/** The compiled limits of one rule. Owned by one thread. */
export class LimitSet {
  readonly #entries: readonly LimitEntry[];
  readonly #table: CounterTable;
  readonly #allAllowed: readonly LimitDecision[];
  /** What applies to every request if no entry has an expression. */
  readonly #fixed: AppliedEntries | undefined;
  /** Whether two entries may have the same counter. */
  readonly #sharesCounters: boolean;
  /** Undefined if no response names a limit. */
  readonly #names: EntryNames | undefined;
  /** The same, and undefined if no header family lists limits. */
  readonly #listedNames: EntryNames | undefined;
  /** Whether reservations need the request to compute the cost of its response. */
  readonly #keepsView: boolean;
  /** Entries that deny requests for models without a price. */
  readonly #requiringPrice: readonly LimitEntry[];
  /** An entry depends on the body of the request. */
  readonly needsBody: boolean;
  /** Whether responses must be parsed for their token usage. */
  readonly countsTokens: boolean;

  constructor(entries: readonly LimitEntry[], table: CounterTable) {
    this.#entries = entries;
    this.#table = table;
    this.#allAllowed = entries.map((entry) => entry.allowed);
    this.#sharesCounters = new Set(entries.map(({ id }) => id)).size < entries.length;
    this.#names = entryNames(entries);
    this.#listedNames = entries.some(({ isListed }) => isListed) ? this.#names : undefined;
    this.#fixed = entries.every(({ isFixed }) => isFixed)
      ? fixedEntries(entries, this.#sharesCounters, this.#listedNames)
      : undefined;
    this.#keepsView = entries.some(({ cost, countsRequests }) => cost !== undefined && !countsRequests);
    this.#requiringPrice = entries.filter((entry) => entry.requiresPrice);
    this.needsBody = entries.some((entry) => entry.needsBody);
    this.countsTokens = entries.some((entry) => !entry.countsRequests);
  }

  /** True if there is no entry; `decide` then allows everything. */
  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  /** Whether an entry reserves estimates of requests. */
  get reserves(): boolean {
    return this.#entries.some((entry) => entry.reserves);
  }

  /** Whether an entry denies requests for models without a price. */
  get requiresPrice(): boolean {
    return this.#requiringPrice.length > 0;
  }

  /** All limits, in the order of the decisions. */
  get limits(): readonly LocalLimit[] {
    return this.#entries.map(({ limit }) => limit);
  }

  /** The expressions of the entries. */
  get expressions(): readonly Expression[] {
    return this.#entries.flatMap(({ expressions }) => expressions);
  }

  /** Whether an entry that applies must deny a request, since its cost takes too much work to compute. */
  costsTooMuch(view: RequestView): boolean {
    return this.#entries.some((entry) => entry.appliesTo(view) && entry.costsTooMuch(view));
  }

  /**
   * Decides one request and counts it if it is allowed.
   *
   * @param nowMs Monotonic, of one clock for all threads.
   * @param withFigures Whether the report has the figures of the counters.
   */
  decide(view: RequestView, nowMs: number, withFigures = false): LocalDecision {
    if (this.requiresPrice && view.llm?.isPriced === false) {
      const unpriced = this.#requiringPrice.find((entry) => entry.appliesTo(view));
      if (unpriced !== undefined) return withoutPrice(unpriced);
    }
    const applied = this.#fixed ?? this.#apply(view);
    if (applied instanceof LimitEntry) return tooCostly(applied);
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
      ? this.#allow(applied, states, view, nowMs, withFigures)
      : this.#deny(applied, states, denying, nowMs, withFigures);
  }

  #apply(view: RequestView): AppliedEntries | LimitEntry {
    return applyEntries(this.#entries, view, this.#table, this.#sharesCounters, this.#listedNames);
  }

  /**
   * Settles every entry's counter at `nowMs`. Returns the place of the enforced entry that denies for the longest time,
   * or -1 if none denies.
   */
  #evaluate(
    { entries, ids, budgets, units, held, previous }: AppliedEntries,
    states: readonly CounterState[],
    nowMs: number,
  ): number {
    let denying = -1;
    let denyingMs = 0;
    for (let at = 0; at < entries.length; at++) {
      const entry = entries[at];
      const id = ids[at];
      const budget = budgets[at];
      const state = states[at];
      if (entry === undefined || id === undefined || budget === undefined || state === undefined) continue;
      state.slot = this.#table.find(id);
      const { windows } = budget;
      this.#table.load(state.slot, windows, state);
      settle(state, windows, nowMs);
      const wanted = Math.max(units[at] ?? 1, held?.[at] ?? 0);
      state.held = entry.reserves ? this.#table.heldUnits(state.slot) : 0;
      state.isAllowed = hasBudget(state, budget, wanted);
      state.isCounted = state.isAllowed && (previous === undefined || !isCountedBefore(at, previous, states));
      if (state.isAllowed || !entry.isEnforced) continue;
      const leftMs = msToReset(state, windows, nowMs, missingUnits(state, budget, wanted));
      if (denying !== -1 && leftMs <= denyingMs) continue;
      denying = at;
      denyingMs = leftMs;
    }
    return denying;
  }

  #count(applied: AppliedEntries, states: readonly CounterState[], nowMs: number): void {
    const { entries, ids, budgets, units: costs, held, previous } = applied;
    for (let at = 0; at < entries.length; at++) {
      const state = states[at];
      const windows = budgets[at]?.windows;
      const units = (entries[at]?.countsRequests === true ? costs[at] : held?.[at]) ?? 0;
      if (units === 0) continue;
      if (state?.isCounted === true && windows !== undefined) count(state, windows, units, nowMs);
    }
    if (previous !== undefined) copyCounted(previous, states);
    for (let at = 0; at < entries.length; at++) {
      const state = states[at];
      const windows = budgets[at]?.windows;
      if (state === undefined || windows === undefined || state.slot === -1) continue;
      this.#table.store(state.slot, windows, state, nowMs);
    }
    // Claims come last: they cannot take a slot that this request counted in.
    for (let at = 0; at < entries.length; at++) {
      const id = ids[at];
      const budget = budgets[at];
      const state = states[at];
      if (id === undefined || budget === undefined || state === undefined) continue;
      const isClaimed = previous !== undefined && previous[at] !== -1;
      if (state.slot === -1 && state.used > 0 && !isClaimed) {
        state.slot = this.#table.claim(id, budget.windows, state, nowMs);
      }
      const units = held?.[at] ?? 0;
      if (units > 0 && state.isCounted && state.slot !== -1) this.#table.addHeld(state.slot, units);
    }
  }

  /** A counter that only denies is in use too, and must not be evicted before others. */
  #touch({ entries }: AppliedEntries, states: readonly CounterState[], nowMs: number): void {
    for (let at = 0; at < entries.length; at++) {
      const slot = states[at]?.slot ?? -1;
      if (slot !== -1) this.#table.touch(slot, nowMs);
    }
  }

  #allow(
    applied: AppliedEntries,
    states: readonly CounterState[],
    view: RequestView,
    nowMs: number,
    withFigures: boolean,
  ): LocalDecision {
    const startsMs: number[] = [];
    let epochs: number[] | undefined;
    let isAllAllowed = applied.entries.length === this.#entries.length;
    for (let at = 0; at < applied.entries.length; at++) {
      const state = states[at];
      startsMs.push(state?.isCounted === true ? state.startMs : notCounted);
      // Counters have epochs from the first reset on.
      if (state !== undefined && state.epoch !== 0) (epochs ??= applied.entries.map(() => 0))[at] = state.epoch;
      isAllAllowed &&= state?.isAllowed === true;
    }
    const report = {
      decisions: isAllAllowed ? this.#allAllowed : this.#decisions(applied, states),
      state: nearestState(applied, states, nowMs),
      listed: listedStates(applied, states, nowMs),
      figures: withFigures ? this.#figures(applied, states) : undefined,
    };
    const kept = this.#keepsView ? view : undefined;
    return {
      kind: "allowed",
      reservation: new CounterReservation(this.#table, applied, startsMs, epochs, kept),
      report,
    };
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
    const wanted = Math.max(applied.units[denying] ?? 1, applied.held?.[denying] ?? 0);
    const missing = missingUnits(denyingState, budget, wanted);
    const state = stateOf(denyingState, budget, nowMs, missing);
    // The end of a request in progress may restore enough, and is not known.
    const isHeld = denyingState.held > 0 && denyingState.used - denyingState.held + wanted <= budget.capacity;
    const windowStartMs = startOf(denyingState, budget.windows, nowMs);
    const decisions = this.#decisions(applied, states);
    const by: LocalDenial = {
      kind: "local",
      limit: entry.limit,
      key: applied.ids[denying]?.key,
      used: denyingState.used,
      windowStartMs,
      windowEndMs: nowMs + msToReset(denyingState, budget.windows, nowMs, missing),
      state,
      retryAfterSeconds: isHeld ? 1 : state.resetSeconds,
      notApplied: decisions.flatMap(({ limit, outcome }) => (outcome === "notApplied" ? limit : [])),
      named: this.#names && namedLimits(this.#names, applied, states, entry, nowMs),
    };
    const figures = withFigures ? this.#figures(applied, states) : undefined;
    return { kind: "denied", by, report: { decisions, state, listed: by.named?.listed, figures } };
  }

  #decisions({ entries }: AppliedEntries, states: readonly CounterState[]): readonly LimitDecision[] {
    let at = 0;
    return this.#entries.map((entry) => {
      if (entry !== entries[at]) return entry.notApplied;
      return states[at++]?.isAllowed === true ? entry.allowed : entry.denied;
    });
  }

  #figures(applied: AppliedEntries, states: readonly CounterState[]): readonly EntryFigures[] {
    return this.#decisions(applied, states).map(({ limit, outcome }) => {
      const at = applied.entries.findIndex((entry) => entry.limit === limit);
      return {
        limit,
        key: applied.ids[at]?.key,
        capacity: applied.budgets[at]?.capacity ?? limit.amount + limit.burst,
        used: at === -1 ? 0 : (states[at]?.used ?? 0),
        units: applied.units[at] ?? 0,
        held: applied.held?.[at] ?? 0,
        outcome,
      };
    });
  }
}

/** Returns what applies to every request. */
function fixedEntries(
  entries: readonly LimitEntry[],
  sharesCounters: boolean,
  names: EntryNames | undefined,
): AppliedEntries {
  const ids = entries.map(({ shared }) => shared);
  const budgets = entries.map(({ budget }) => budget);
  const units = entries.map((entry) => entry.units);
  const previous = sharesCounters ? previousOf(ids) : undefined;
  return { entries, ids, budgets, units, held: undefined, previous, buckets: bucketsOf(ids), names };
}

/** Returns what applies to one request, or the entry whose cost takes too much work to compute. */
function applyEntries(
  all: readonly LimitEntry[],
  view: RequestView,
  table: CounterTable,
  sharesCounters: boolean,
  names: EntryNames | undefined,
): AppliedEntries | LimitEntry {
  const entries: LimitEntry[] = [];
  const ids: CounterId[] = [];
  const budgets: Budget[] = [];
  const units: number[] = [];
  for (const entry of all) {
    if (!entry.appliesTo(view)) continue;
    if (entry.costsTooMuch(view)) return entry;
    entries.push(entry);
    ids.push(entry.counterOf(view, table));
    budgets.push(entry.budgetOf(view));
    units.push(entry.unitsOf(view));
  }
  const previous = sharesCounters ? previousOf(ids) : undefined;
  const held = entries.some(({ reserves }) => reserves)
    ? entries.map((entry, at) => heldUnitsOf(entry, view, budgets[at]))
    : undefined;
  return { entries, ids, budgets, units, held, previous, buckets: bucketsOf(ids), names };
}

function heldUnitsOf(entry: LimitEntry, view: RequestView, budget: Budget | undefined): number {
  return budget === undefined ? 0 : entry.heldUnitsOf(view, budget);
}

/** Returns what the response to a denial by `denying` names. */
function namedLimits(
  names: EntryNames,
  applied: AppliedEntries,
  states: readonly CounterState[],
  denying: LimitEntry,
  nowMs: number,
): NamedLimits {
  const wanted = applied.units.map((units, at) => Math.max(units, applied.held?.[at] ?? 0));
  const listed = listedStates(applied, states, nowMs, wanted) ?? [];
  const exhausted = applied.entries.filter(
    ({ isEnforced, limit }, at) => isEnforced && limit.policy === denying.limit.policy && !states[at]?.isAllowed,
  );
  const nameOf = (entry: LimitEntry): string => names.get(entry) ?? entry.name;
  return {
    exhausted: exhausted.map(nameOf),
    listed,
    denying: denying.isListed ? listed.find(({ name }) => name === nameOf(denying)) : undefined,
  };
}

/** Whether an entry before has counted the request in the same counter. */
function isCountedBefore(at: number, previous: readonly number[], states: readonly CounterState[]): boolean {
  for (let before = previous[at] ?? -1; before !== -1; before = previous[before] ?? -1) {
    if (states[before]?.isCounted === true) return true;
  }
  return false;
}

/** Gives all entries of a counter the state of the one that has counted the request. */
function copyCounted(previous: readonly number[], states: readonly CounterState[]): void {
  const copy = (from: number, to: number): void => {
    const [source, target] = [states[from], states[to]];
    if (source === undefined || target === undefined) return;
    target.used = source.used;
    target.startMs = source.startMs;
    target.lengthMs = source.lengthMs;
    target.epoch = source.epoch;
    target.subWindowUnits.set(source.subWindowUnits);
  };
  for (const [at, before] of previous.entries()) if (before !== -1 && states[at]?.isCounted === false) copy(before, at);
  for (let at = previous.length - 1; at > 0; at--) {
    const before = previous[at] ?? -1;
    if (before !== -1) copy(at, before);
  }
}

/** A request that has no cost is counted in no entry. */
function withoutPrice({ limit, denied }: LimitEntry): LocalDecision {
  const report = { decisions: [denied], state: undefined, listed: undefined, figures: undefined };
  return { kind: "unavailable", policy: limit.policy, cause: "unpriced", report };
}

/** No entry has decided yet, and none decides without this one. */
function tooCostly({ limit }: LimitEntry): LocalDecision {
  const report = { decisions: [], state: undefined, listed: undefined, figures: undefined };
  return { kind: "unavailable", policy: limit.policy, cause: "costTooCostly", report };
}
