/**
 * Decides, for the entries that apply to one rule, whether a request may pass, and counts it: all entries together or
 * none. The only way from a request to the counters.
 *
 * Enforced entries decide. A request that one of them refuses is counted by none, shadow entries included. A shadow
 * entry never refuses: it counts what it would have admitted, so that its figures are those it would have if it were
 * enforced alone, and reports the rest as `shadowDenied`. It does not show in headers.
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
  uncount,
  type Window,
} from "./window.ts";

/** The outcome of one request at the local limits. `decisions` has one item per entry and is never mutated. */
export type Admission = Allowed | Denied;

export interface Allowed {
  readonly kind: "allowed";
  /** Of the enforced entry nearest to exhaustion, after this request; undefined when no entry is enforced. */
  readonly state: LimitState | undefined;
  readonly lease: Lease;
  readonly decisions: readonly LimitDecision[];
}

export interface Denied {
  readonly kind: "denied";
  /** Of the entry that denied; of several the one whose window ends last. */
  readonly state: LimitState;
  /** Whole seconds until that entry admits again, at least 1. */
  readonly retryAfterSeconds: number;
  readonly limit: LocalLimit;
  /** The value of the entry's key for this request; undefined where it has no key, or the request no value. */
  readonly key: string | undefined;
  /** What that entry's counter stands at, and since when its window is open; monotonic. */
  readonly used: number;
  readonly windowStartMs: number;
  readonly decisions: readonly LimitDecision[];
}

/** What one entry's counter stood at in a decision; for operators. */
export interface EntryFigures {
  readonly limit: LocalLimit;
  /** The value of the entry's key. */
  readonly key: string | undefined;
  readonly capacity: number;
  /** After the decision. */
  readonly used: number;
  readonly admits: boolean;
}

/** What an admitted request holds of its counters. Outlives the LimitSet that gave it. */
export interface Lease {
  /**
   * Adds the tokens of the response to the entries that count tokens. `tokens` is a whole number of at least 1;
   * anything else is ignored, so that no report of a backend can corrupt a budget.
   */
  charge(tokens: number, nowMs: number): void;
  /** The same for the entry at that place of its policy alone. */
  chargeEntry(entry: number, tokens: number, nowMs: number): void;
  /**
   * Gives the request's units back, as far as their windows are still open. Later calls give nothing.
   *
   * @param cause of which entries the units: those whose `refundOn` has it; absent: all, since the request was not
   *   admitted after all.
   * @returns the state of the enforced entry nearest to exhaustion now; undefined when no entry is enforced.
   */
  refund(nowMs: number, cause?: RefundCause): LimitState | undefined;
  /** The state of the enforced entry nearest to exhaustion now; undefined when no entry is enforced. */
  state(nowMs: number): LimitState | undefined;
}

/**
 * Prepares the entries of one rule for deciding. An identity that comes twice counts once; enforced wins over shadow.
 * Throws when a key does not parse, which the configuration's own check has ruled out.
 */
export function compileLimits(limits: readonly LocalLimit[], table: CounterTable): LimitSet {
  const entries = new Map<EntryId, Entry>();
  for (const limit of limits) {
    const id = table.entryId(limit);
    const known = entries.get(id);
    if (known === undefined || (known.limit.mode === "Shadow" && limit.mode === "Enforce")) {
      entries.set(id, new Entry(limit, id, table));
    }
  }
  return new LimitSet([...entries.values()], table);
}

/** One entry, with room for its counter while a decision is being made. */
class Entry implements Window {
  readonly limit: LocalLimit;
  readonly id: EntryId;
  readonly budget: Budget;
  readonly key: Expression | undefined;
  /** The counter for all requests, or for those without a value. */
  readonly shared: CounterId;
  readonly isEnforced: boolean;
  readonly countsRequests: boolean;
  /** What must remain for a request to pass: what it counts, or any token. */
  readonly units: number;
  readonly allowed: LimitDecision;
  readonly refused: LimitDecision;

  // Of the request being decided; an admission runs to its end without giving way to another.
  used = 0;
  startMs = 0;
  slot = -1;
  admits = true;

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
    this.refused = { limit, outcome: this.isEnforced ? "denied" : "shadowDenied" };
  }
}

function keyExpression(source: string): Expression {
  const parsed = parseExpression(source);
  if (!parsed.ok) throw new Error(`limit key ${source}: ${parsed.problems.map(({ message }) => message).join("; ")}`);
  return parsed.value;
}

/** The limits of one rule, ready to decide. One thread's own. */
export class LimitSet {
  readonly #entries: readonly Entry[];
  readonly #table: CounterTable;
  readonly #allAllowed: readonly LimitDecision[];
  /** The counters and their buckets, where no entry has a key. */
  readonly #fixed: Counters | undefined;
  /** Whether responses must be read for their token usage. */
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

  /** True when nothing limits; `admit` then allows everything. */
  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  /** Every entry, in the order of the decisions. */
  get limits(): readonly LocalLimit[] {
    return this.#entries.map(({ limit }) => limit);
  }

  /** What each entry's counter stood at in the decision just made about `view`; to be asked before the next one. */
  figures(view: RequestView): readonly EntryFigures[] {
    return this.#entries.map(({ limit, key, budget: { capacity }, used, admits }) => {
      return { limit, key: key?.evaluate(view, view.work?.allowanceOf(limit.target)), capacity, used, admits };
    });
  }

  /** Decides one request and, if it may pass, counts it. `nowMs` is monotonic, one clock for all threads. */
  admit(view: RequestView, nowMs: number): Admission {
    const counters = this.#fixed ?? this.#locate(view);
    let denier: Entry | undefined;
    this.#table.lock(counters.buckets);
    try {
      denier = this.#judge(counters.ids, nowMs);
      if (denier === undefined) this.#count(counters.ids, nowMs);
      else this.#touch(nowMs);
    } finally {
      this.#table.unlock(counters.buckets);
    }
    return denier === undefined ? this.#allow(counters.ids, nowMs) : this.#deny(denier, counters.ids, nowMs);
  }

  #locate(view: RequestView): Counters {
    const ids: CounterId[] = [];
    for (const entry of this.#entries) {
      const key = entry.key?.evaluate(view, view.work?.allowanceOf(entry.limit.target));
      ids.push(key === undefined ? entry.shared : this.#table.counterId(entry.id, key));
    }
    return countersOf(ids);
  }

  /** Brings every entry's counter up to `nowMs`; returns the enforced one that refuses longest, if any does. */
  #judge(ids: readonly CounterId[], nowMs: number): Entry | undefined {
    let denier: Entry | undefined;
    for (let at = 0; at < ids.length; at++) {
      const entry = this.#entries[at];
      const id = ids[at];
      if (entry === undefined || id === undefined) continue;
      entry.slot = this.#table.find(id);
      this.#table.load(entry.slot, entry);
      settle(entry, entry.budget.givenBack, entry.budget.windowMs, nowMs);
      entry.admits = hasBudget(entry, entry.budget, entry.units);
      if (entry.admits || !entry.isEnforced) continue;
      if (denier === undefined || windowEnd(entry) > windowEnd(denier)) denier = entry;
    }
    return denier;
  }

  #count(ids: readonly CounterId[], nowMs: number): void {
    for (const entry of this.#entries) {
      if (entry.countsRequests && entry.admits && entry.units > 0) count(entry, entry.units, nowMs);
      if (entry.slot !== -1) this.#table.store(entry.slot, entry, nowMs);
    }
    // Only now that all others are stored: a claim cannot take a slot that this very request counted in.
    for (let at = 0; at < ids.length; at++) {
      const entry = this.#entries[at];
      const id = ids[at];
      if (entry === undefined || id === undefined || entry.slot !== -1 || entry.used === 0) continue;
      this.#table.claim(id, entry.budget, entry, nowMs);
    }
  }

  /** A counter that only refuses is in use all the same, and others are forgotten before it. */
  #touch(nowMs: number): void {
    for (const { slot } of this.#entries) if (slot !== -1) this.#table.touch(slot, nowMs);
  }

  #allow(ids: readonly CounterId[], nowMs: number): Allowed {
    const startsMs: number[] = [];
    let isAllAllowed = true;
    for (const entry of this.#entries) {
      startsMs.push(entry.admits ? entry.startMs : notCounted);
      isAllAllowed &&= entry.admits;
    }
    return {
      kind: "allowed",
      state: nearestState(this.#entries, nowMs),
      lease: new CounterLease(this.#table, this.#entries, ids, startsMs),
      decisions: isAllAllowed ? this.#allAllowed : this.#decisions(),
    };
  }

  #deny(denier: Entry, ids: readonly CounterId[], nowMs: number): Denied {
    const state = stateOf(denier, nowMs);
    return {
      kind: "denied",
      state,
      retryAfterSeconds: state.resetSeconds,
      limit: denier.limit,
      key: ids[this.#entries.indexOf(denier)]?.key,
      used: denier.used,
      windowStartMs: denier.startMs,
      decisions: this.#decisions(),
    };
  }

  #decisions(): readonly LimitDecision[] {
    return this.#entries.map((entry) => (entry.admits ? entry.allowed : entry.refused));
  }
}

/** Counters of one request in the order of the entries, and their buckets in the order of locking. */
interface Counters {
  readonly ids: readonly CounterId[];
  readonly buckets: readonly number[];
}

/** Buckets ascend and are distinct, so that no two threads ever wait for each other. */
function countersOf(ids: readonly CounterId[]): Counters {
  const buckets: number[] = [];
  for (const { bucket } of ids) {
    // Insertion sort: there are few, and an array sort would cost a closure and more.
    let at = buckets.length;
    while (at > 0 && (buckets[at - 1] ?? 0) > bucket) at--;
    if (buckets[at - 1] !== bucket) buckets.splice(at, 0, bucket);
  }
  return { ids, buckets };
}

function windowEnd(entry: Entry): number {
  return entry.startMs + entry.budget.windowMs;
}

/** Of the enforced entry nearest to exhaustion, with each entry's counter as it was last loaded. */
function nearestState(entries: readonly Entry[], nowMs: number): LimitState | undefined {
  let nearest: Entry | undefined;
  for (const entry of entries) {
    if (entry.isEnforced && (nearest === undefined || isNearer(entry, nearest))) nearest = entry;
  }
  return nearest === undefined ? undefined : stateOf(nearest, nowMs);
}

/** Smallest remaining ÷ limit; requests before tokens, then the order of the entries. */
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

/** In place of a window's start: the entry (a shadow one) did not count the request. No monotonic time is negative. */
const notCounted = -1;

class CounterLease implements Lease {
  readonly #table: CounterTable;
  readonly #entries: readonly Entry[];
  readonly #ids: readonly CounterId[];
  /** When the window began that counted the request, by entry. */
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
      const isMeant = cause === undefined || (entry.limit.refundOn ?? defaultRefundOn).includes(cause);
      const gives = isMeant && entry.countsRequests && startMs !== notCounted && !this.#isRefunded;
      this.#update(entry, id, nowMs, () => {
        if (gives) uncount(entry, entry.units, startMs);
      });
    }
    this.#isRefunded = true;
    return nearestState(this.#entries, nowMs);
  }

  state(nowMs: number): LimitState | undefined {
    for (let at = 0; at < this.#ids.length; at++) {
      const entry = this.#entries[at];
      const id = this.#ids[at];
      if (entry !== undefined && id !== undefined) this.#update(entry, id, nowMs, nothingMore);
    }
    return nearestState(this.#entries, nowMs);
  }

  /** Settles one counter, lets `change` at it, and stores it. */
  #update(entry: Entry, id: CounterId, nowMs: number, change: () => void): void {
    const buckets = [id.bucket];
    this.#table.lock(buckets);
    try {
      entry.slot = this.#table.find(id);
      this.#table.load(entry.slot, entry);
      settle(entry, entry.budget.givenBack, entry.budget.windowMs, nowMs);
      change();
      if (entry.slot !== -1) this.#table.store(entry.slot, entry, nowMs);
      else if (entry.used > 0) this.#table.claim(id, entry.budget, entry, nowMs);
    } finally {
      this.#table.unlock(buckets);
    }
  }
}

function nothingMore(): void {
  // To be settled is all that is wanted.
}
