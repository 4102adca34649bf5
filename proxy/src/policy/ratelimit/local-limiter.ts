/**
 * Decides for the entries of one rule whether a request is allowed, and counts it: in all entries or in none. All
 * access of requests to the local counters goes through here.
 *
 * Enforced entries decide. A request that one of them denies is not counted at all, not even by shadow entries. A
 * shadow entry never denies. It counts the requests that it would allow, so that its figures equal those of the same
 * entry enforced alone, and reports the others as `shadowDenied`. It does not appear in headers.
 */
import { defaultRefundOn, type LimitDecision, type LocalLimit, type RefundCause } from "../../ir/limit.ts";
import { type Expression, parseExpression } from "../../cel/expression.ts";
import type { RequestView } from "../../cel/request-view.ts";
import type { CounterId, EntryId } from "./counter-id.ts";
import type { CounterTable } from "./counter-table.ts";
import {
  type Budget,
  budgetOf,
  count,
  hasBudget,
  type LimitState,
  remaining,
  resetSeconds,
  settle,
  refund,
  type Window,
} from "./window.ts";

/** The result of one request at the local limits. `decisions` has one item per entry and is never mutated. */
export type LocalResult = Allowed | Denied;

/** All enforced entries allow the request, and it is counted. */
export interface Allowed {
  readonly kind: "allowed";
  /** The state of the enforced entry nearest to exhaustion, after this request; undefined if no entry is enforced. */
  readonly state: LimitState | undefined;
  readonly reservation: Reservation;
  readonly decisions: readonly LimitDecision[];
}

/** An enforced entry denies the request, and no entry has counted it. */
export interface Denied {
  readonly kind: "denied";
  /** The state of the entry that denied; of several the one whose window ends last. */
  readonly state: LimitState;
  /** Whole seconds until that entry allows requests again, at least 1. */
  readonly retryAfterSeconds: number;
  readonly limit: LocalLimit;
  /** The value of the entry's key for this request; undefined if the entry has no key or the request no value. */
  readonly key: string | undefined;
  /** The value of that entry's counter, and the start of its window on the monotonic clock. */
  readonly used: number;
  readonly windowStartMs: number;
  readonly decisions: readonly LimitDecision[];
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

/** The units that an allowed request holds in its counters. Stays valid after its LimitSet is replaced. */
export interface Reservation {
  /**
   * Adds the tokens of the response to the entries that count tokens. `tokens` is a whole number of at least 1; any
   * other value is ignored, so that a backend's report cannot corrupt a budget.
   */
  charge(tokens: number, nowMs: number): void;
  /** Adds tokens only to the entry at index `entry` of its policy. */
  chargeEntry(entry: number, tokens: number, nowMs: number): void;
  /**
   * Refunds the request's units in windows that are still open. Later calls refund nothing.
   *
   * @param cause Refunds only entries whose `refundOn` contains it; absent: refunds all, since the request was not
   *   allowed after all.
   * @returns the current state of the enforced entry nearest to exhaustion; undefined if no entry is enforced.
   */
  refund(nowMs: number, cause?: RefundCause): LimitState | undefined;
  /** Returns the current state of the enforced entry nearest to exhaustion; undefined if no entry is enforced. */
  state(nowMs: number): LimitState | undefined;
}

/**
 * Compiles the entries of one rule. An identity that occurs twice counts once, enforced if either occurrence is. Throws
 * if a key does not parse, which the configuration's validation excludes.
 */
export function compileLimits(limits: readonly LocalLimit[], table: CounterTable): LimitSet {
  const entries = new Map<EntryId, Entry>();
  for (const limit of limits) {
    const id = table.entryId(limit);
    const existing = entries.get(id);
    if (existing === undefined || (existing.limit.mode === "Shadow" && limit.mode === "Enforce")) {
      entries.set(id, entryOf(limit, id, table));
    }
  }
  return new LimitSet([...entries.values()], table);
}

/**
 * Entries by table and limit. A policy on a Gateway applies to every rule, so that thousands of rules share its entries. A
 * decision is synchronous, so that rules can share the scratch space, too.
 */
const entriesByTable = new WeakMap<CounterTable, WeakMap<LocalLimit, Entry>>();

function entryOf(limit: LocalLimit, id: EntryId, table: CounterTable): Entry {
  const ofTable = entriesByTable.get(table) ?? new WeakMap<LocalLimit, Entry>();
  entriesByTable.set(table, ofTable);
  const entry = ofTable.get(limit) ?? new Entry(limit, id, table);
  ofTable.set(limit, entry);
  return entry;
}

/** One entry, with scratch space for its counter during a decision. */
class Entry implements Window {
  readonly limit: LocalLimit;
  readonly id: EntryId;
  readonly budget: Budget;
  readonly key: Expression | undefined;
  /** The counter for all requests, or for those without a key value. */
  readonly shared: CounterId;
  readonly isEnforced: boolean;
  readonly countsRequests: boolean;
  /** The units that must remain for a request to be allowed: those that it counts, or 1 for tokens. */
  readonly units: number;
  readonly allowed: LimitDecision;
  readonly denied: LimitDecision;

  // Scratch space of the current decision, which runs synchronously.
  used = 0;
  startMs = 0;
  slot = -1;
  isAllowed = true;

  constructor(limit: LocalLimit, id: EntryId, table: CounterTable) {
    this.limit = limit;
    this.id = id;
    this.budget = budgetOf(limit);
    this.key = limit.key === undefined ? undefined : keyExpression(limit.key);
    this.shared = table.counterId(id, undefined);
    this.isEnforced = limit.mode === "Enforce";
    this.countsRequests = limit.counts === "requests";
    this.units = limit.units ?? 1;
    this.allowed = { limit, outcome: "allowed" };
    this.denied = { limit, outcome: this.isEnforced ? "denied" : "shadowDenied" };
  }
}

function keyExpression(source: string): Expression {
  const parsed = parseExpression(source);
  if (!parsed.ok) throw new Error(`limit key ${source}: ${parsed.problems.map(({ message }) => message).join("; ")}`);
  return parsed.value;
}

/** The compiled limits of one rule. Owned by one thread. */
export class LimitSet {
  readonly #entries: readonly Entry[];
  readonly #table: CounterTable;
  readonly #allAllowed: readonly LimitDecision[];
  /** The counters and their buckets if no entry has a key. */
  readonly #fixed: Counters | undefined;
  /** Whether responses must be parsed for their token usage. */
  readonly countsTokens: boolean;

  constructor(entries: readonly Entry[], table: CounterTable) {
    this.#entries = entries;
    this.#table = table;
    this.#allAllowed = entries.map((entry) => entry.allowed);
    this.#fixed = entries.some((entry) => entry.key !== undefined)
      ? undefined
      : countersOf(entries.map((entry) => entry.shared));
    this.countsTokens = entries.some((entry) => !entry.countsRequests);
  }

  /** True if there is no entry; `admit` then allows everything. */
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

  /** Returns the figures of each entry's counter in the latest decision, which must be about `view`. */
  figures(view: RequestView): readonly EntryFigures[] {
    return this.#entries.map(({ limit, key, budget: { capacity }, used, isAllowed }) => {
      return { limit, key: key?.evaluate(view, view.work?.allowanceOf(limit.target)), capacity, used, isAllowed };
    });
  }

  /**
   * Decides one request and counts it if it is allowed.
   *
   * @param nowMs Monotonic, of one clock for all threads.
   */
  decide(view: RequestView, nowMs: number): LocalResult {
    const counters = this.#fixed ?? this.#findCounters(view);
    let denyingEntry: Entry | undefined;
    this.#table.lock(counters.buckets);
    try {
      denyingEntry = this.#evaluate(counters.ids, nowMs);
      if (denyingEntry === undefined) this.#count(counters.ids, nowMs);
      else this.#touch(nowMs);
    } finally {
      this.#table.unlock(counters.buckets);
    }
    return denyingEntry === undefined
      ? this.#allow(counters.ids, nowMs)
      : this.#deny(denyingEntry, counters.ids, nowMs);
  }

  #findCounters(view: RequestView): Counters {
    const ids: CounterId[] = [];
    for (const entry of this.#entries) {
      const key = entry.key?.evaluate(view, view.work?.allowanceOf(entry.limit.target));
      ids.push(key === undefined ? entry.shared : this.#table.counterId(entry.id, key));
    }
    return countersOf(ids);
  }

  /**
   * Settles every entry's counter at `nowMs`. Returns the enforced entry that denies for the longest time, if any
   * denies.
   */
  #evaluate(ids: readonly CounterId[], nowMs: number): Entry | undefined {
    let denyingEntry: Entry | undefined;
    for (let at = 0; at < ids.length; at++) {
      const entry = this.#entries[at];
      const id = ids[at];
      if (entry === undefined || id === undefined) continue;
      entry.slot = this.#table.find(id);
      this.#table.load(entry.slot, entry);
      settle(entry, entry.budget.refill, entry.budget.windowMs, nowMs);
      entry.isAllowed = hasBudget(entry, entry.budget, entry.units);
      if (entry.isAllowed || !entry.isEnforced) continue;
      if (denyingEntry === undefined || windowEnd(entry) > windowEnd(denyingEntry)) denyingEntry = entry;
    }
    return denyingEntry;
  }

  #count(ids: readonly CounterId[], nowMs: number): void {
    for (const entry of this.#entries) {
      if (entry.countsRequests && entry.isAllowed && entry.units > 0) count(entry, entry.units, nowMs);
      if (entry.slot !== -1) this.#table.store(entry.slot, entry, nowMs);
    }
    // Claims come last: they cannot take a slot that this request counted in.
    for (let at = 0; at < ids.length; at++) {
      const entry = this.#entries[at];
      const id = ids[at];
      if (entry === undefined || id === undefined || entry.slot !== -1 || entry.used === 0) continue;
      this.#table.claim(id, entry.budget, entry, nowMs);
    }
  }

  /** A counter that only denies is in use too, and must not be evicted before others. */
  #touch(nowMs: number): void {
    for (const { slot } of this.#entries) if (slot !== -1) this.#table.touch(slot, nowMs);
  }

  #allow(ids: readonly CounterId[], nowMs: number): Allowed {
    const startsMs: number[] = [];
    let isAllAllowed = true;
    for (const entry of this.#entries) {
      startsMs.push(entry.isAllowed ? entry.startMs : notCounted);
      isAllAllowed &&= entry.isAllowed;
    }
    return {
      kind: "allowed",
      state: nearestState(this.#entries, nowMs),
      reservation: new CounterReservation(this.#table, this.#entries, ids, startsMs),
      decisions: isAllAllowed ? this.#allAllowed : this.#decisions(),
    };
  }

  #deny(denyingEntry: Entry, ids: readonly CounterId[], nowMs: number): Denied {
    const state = stateOf(denyingEntry, nowMs);
    return {
      kind: "denied",
      state,
      retryAfterSeconds: state.resetSeconds,
      limit: denyingEntry.limit,
      key: ids[this.#entries.indexOf(denyingEntry)]?.key,
      used: denyingEntry.used,
      windowStartMs: denyingEntry.startMs,
      decisions: this.#decisions(),
    };
  }

  #decisions(): readonly LimitDecision[] {
    return this.#entries.map((entry) => (entry.isAllowed ? entry.allowed : entry.denied));
  }
}

/** The counters of one request in the order of the entries, and their buckets in locking order. */
interface Counters {
  readonly ids: readonly CounterId[];
  readonly buckets: readonly number[];
}

/** Returns the buckets in ascending order without duplicates, so that no two threads wait for each other. */
function countersOf(ids: readonly CounterId[]): Counters {
  const buckets: number[] = [];
  for (const { bucket } of ids) {
    // Insertion sort: a request has few buckets, and Array.sort needs a closure per call.
    let at = buckets.length;
    while (at > 0 && (buckets[at - 1] ?? 0) > bucket) at--;
    if (buckets[at - 1] !== bucket) buckets.splice(at, 0, bucket);
  }
  return { ids, buckets };
}

function windowEnd(entry: Entry): number {
  return entry.startMs + entry.budget.windowMs;
}

/** Returns the state of the enforced entry nearest to exhaustion, from the counters as last loaded. */
function nearestState(entries: readonly Entry[], nowMs: number): LimitState | undefined {
  let nearest: Entry | undefined;
  for (const entry of entries) {
    if (entry.isEnforced && (nearest === undefined || isNearer(entry, nearest))) nearest = entry;
  }
  return nearest === undefined ? undefined : stateOf(nearest, nowMs);
}

/** Orders by remaining ÷ limit; then requests before tokens, then by the order of the entries. */
function isNearer(entry: Entry, other: Entry): boolean {
  const share = remaining(entry, entry.budget) / entry.budget.capacity;
  const otherShare = remaining(other, other.budget) / other.budget.capacity;
  if (share !== otherShare) return share < otherShare;
  return entry.countsRequests && !other.countsRequests;
}

function stateOf(entry: Entry, nowMs: number): LimitState {
  return {
    limit: entry.budget.capacity,
    remaining: remaining(entry, entry.budget),
    resetSeconds: resetSeconds(entry, entry.budget.windowMs, nowMs),
  };
}

/** The window start of a shadow entry that did not count the request. Monotonic times are never negative. */
const notCounted = -1;

class CounterReservation implements Reservation {
  readonly #table: CounterTable;
  readonly #entries: readonly Entry[];
  readonly #ids: readonly CounterId[];
  /** The start of the window that counted the request, by entry. */
  readonly #startsMs: readonly number[];
  #isRefunded = false;

  constructor(table: CounterTable, entries: readonly Entry[], ids: readonly CounterId[], startsMs: readonly number[]) {
    this.#table = table;
    this.#entries = entries;
    this.#ids = ids;
    this.#startsMs = startsMs;
  }

  charge(tokens: number, nowMs: number): void {
    for (let at = 0; at < this.#ids.length; at++) this.#charge(at, tokens, nowMs);
  }

  chargeEntry(entry: number, tokens: number, nowMs: number): void {
    for (let at = 0; at < this.#ids.length; at++) {
      if (this.#entries[at]?.limit.entry === entry) this.#charge(at, tokens, nowMs);
    }
  }

  #charge(at: number, tokens: number, nowMs: number): void {
    const entry = this.#entries[at];
    const id = this.#ids[at];
    if (!Number.isSafeInteger(tokens) || tokens < 1 || this.#startsMs[at] === notCounted) return;
    if (entry === undefined || id === undefined || entry.countsRequests) return;
    this.#update(entry, id, nowMs, () => count(entry, tokens, nowMs));
  }

  refund(nowMs: number, cause?: RefundCause): LimitState | undefined {
    for (let at = 0; at < this.#ids.length; at++) {
      const entry = this.#entries[at];
      const id = this.#ids[at];
      const startMs = this.#startsMs[at] ?? notCounted;
      if (entry === undefined || id === undefined) continue;
      const hasCause = cause === undefined || (entry.limit.refundOn ?? defaultRefundOn).includes(cause);
      const isRefunding = hasCause && entry.countsRequests && startMs !== notCounted && !this.#isRefunded;
      this.#update(entry, id, nowMs, () => {
        if (isRefunding) refund(entry, entry.units, startMs);
      });
    }
    this.#isRefunded = true;
    return nearestState(this.#entries, nowMs);
  }

  state(nowMs: number): LimitState | undefined {
    for (let at = 0; at < this.#ids.length; at++) {
      const entry = this.#entries[at];
      const id = this.#ids[at];
      if (entry !== undefined && id !== undefined) this.#update(entry, id, nowMs, leaveUnchanged);
    }
    return nearestState(this.#entries, nowMs);
  }

  /** Settles one counter, applies `change`, and stores it. */
  #update(entry: Entry, id: CounterId, nowMs: number, change: () => void): void {
    const buckets = [id.bucket];
    this.#table.lock(buckets);
    try {
      entry.slot = this.#table.find(id);
      this.#table.load(entry.slot, entry);
      settle(entry, entry.budget.refill, entry.budget.windowMs, nowMs);
      change();
      if (entry.slot !== -1) this.#table.store(entry.slot, entry, nowMs);
      else if (entry.used > 0) this.#table.claim(id, entry.budget, entry, nowMs);
    } finally {
      this.#table.unlock(buckets);
    }
  }
}

function leaveUnchanged(): void {
  // Settling suffices.
}
