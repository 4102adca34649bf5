/**
 * The counters of one request while they are decided on, charged or refunded: copied out of the counter table under its
 * locks, and read afterwards for headers and reports.
 */
import type { CounterId } from "./counter-id.ts";
import { countedSubWindows } from "@gatewayproxy/runtime/sliding-window";
import { defaultHeaderFamilies } from "../../ir/limit-response.ts";
import type { LimitEntry } from "./limit-entry.ts";
import type { ShownLimit } from "./shown-limit.ts";
import {
  type Budget,
  type LimitState,
  msToReset,
  remaining,
  wholeSeconds,
  type Window,
  windowSeconds,
} from "./window.ts";

/** The counter of one entry, as last loaded. */
export interface CounterState extends Window {
  /** The part of `used` that requests in progress hold, about; 0 unless the entry reserves. */
  held: number;
  /** Its slot in the table, or -1 if it has none. */
  slot: number;
  isAllowed: boolean;
  /**
   * Whether this entry counts the request in the counter: it allows it, and no entry before it has counted it there.
   */
  isCounted: boolean;
}

/** Other names than their own of entries of a rule, since an entry before has the same. */
export type EntryNames = ReadonlyMap<LimitEntry, string>;

/** The entries that apply to one request, with their counters and the buckets to lock. Lists are in the same order. */
export interface AppliedEntries {
  readonly entries: readonly LimitEntry[];
  readonly ids: readonly CounterId[];
  readonly budgets: readonly Budget[];
  /** The units that the request counts, or that must remain for tokens. */
  readonly units: readonly number[];
  /** The units that the request holds until its response is charged; undefined if no entry reserves any. */
  readonly held: readonly number[] | undefined;
  /**
   * The place of the entry before with the same counter, or -1. Undefined if no two entries share a counter, as without
   * buckets of policies.
   */
  readonly previous: readonly number[] | undefined;
  /** Ascending and distinct, so that no two threads wait for each other. */
  readonly buckets: readonly number[];
  /** Undefined if no policy has a family that lists limits. */
  readonly names: EntryNames | undefined;
}

/**
 * The states of this thread. A decision, a charge and a refund run to their end without a pause, so all of them use the
 * same objects, and none allocates any.
 */
const pool: CounterState[] = [];

/** Returns at least `count` states. Their content is valid until the next call of this function. */
export function borrowStates(count: number): readonly CounterState[] {
  while (pool.length < count) pool.push(newState());
  return pool;
}

function newState(): CounterState {
  const subWindowUnits = new Uint32Array(countedSubWindows);
  return {
    used: 0,
    startMs: 0,
    lengthMs: 0,
    epoch: 0,
    subWindowUnits,
    held: 0,
    slot: -1,
    isAllowed: true,
    isCounted: true,
  };
}

/** Returns the buckets of counters in locking order. */
export function bucketsOf(ids: readonly CounterId[]): readonly number[] {
  const buckets: number[] = [];
  for (const { bucket } of ids) {
    // Insertion sort: a request has few buckets, and Array.sort needs a closure per call.
    let at = buckets.length;
    while (at > 0 && (buckets[at - 1] ?? 0) > bucket) at--;
    if (buckets[at - 1] !== bucket) buckets.splice(at, 0, bucket);
  }
  return buckets;
}

/** Returns the place of the counter before that is the same, or -1, for each. */
export function previousOf(ids: readonly CounterId[]): readonly number[] {
  return ids.map((id, at) => ids.slice(0, at).findLastIndex((other) => isSame(id, other)));
}

function isSame(one: CounterId, other: CounterId): boolean {
  return one.a === other.a && one.b === other.b && one.c === other.c && one.d === other.d;
}

/**
 * Returns the state of the entry nearest to exhaustion of those that `x-ratelimit-*` may show; undefined if there is
 * none.
 */
export function nearestState(
  { entries, budgets }: AppliedEntries,
  states: readonly CounterState[],
  nowMs: number,
): LimitState | undefined {
  let nearest = -1;
  let nearestShare = Infinity;
  for (let at = 0; at < entries.length; at++) {
    const entry = entries[at];
    const state = states[at];
    const budget = budgets[at];
    if (entry === undefined || state === undefined || budget === undefined || !entry.isInHeaders) continue;
    const share = shareOf(state, budget);
    // Of equal shares requests come before tokens, then the order of the entries decides.
    const isNearer =
      share === nearestShare ? entry.countsRequests && !entries[nearest]?.countsRequests : share < nearestShare;
    if (nearest !== -1 && !isNearer) continue;
    nearest = at;
    nearestShare = share;
  }
  const state = states[nearest];
  const budget = budgets[nearest];
  return state === undefined || budget === undefined ? undefined : stateOf(state, budget, nowMs);
}

/**
 * Returns the entries that header families list, with their states; undefined if none of these families is sent.
 *
 * @param wanted The units of a denied request, for each entry.
 */
export function listedStates(
  { entries, budgets, names }: AppliedEntries,
  states: readonly CounterState[],
  nowMs: number,
  wanted?: readonly number[],
): readonly ShownLimit[] | undefined {
  if (names === undefined) return undefined;
  return entries.flatMap((entry, at) => {
    const [state, budget] = [states[at], budgets[at]];
    if (!entry.isListed || state === undefined || budget === undefined) return [];
    const missing = wanted === undefined ? 1 : Math.max(1, missingUnits(state, budget, wanted[at]));
    return {
      name: names.get(entry) ?? entry.name,
      families: entry.limit.headers ?? defaultHeaderFamilies,
      counts: entry.limit.counts,
      windowSeconds: windowSeconds(state, budget.windows, nowMs),
      ...stateOf(state, budget, nowMs, missing),
    };
  });
}

/** Returns the units that a request lacks; 0 or less if it is allowed. */
export function missingUnits({ used }: CounterState, { capacity }: Budget, units = 1): number {
  return used + units - capacity;
}

/**
 * Returns the figures of one counter for headers.
 *
 * @param missing Units that a denied request lacks.
 */
export function stateOf(state: CounterState, budget: Budget, nowMs: number, missing = 1): LimitState {
  return {
    limit: budget.capacity,
    remaining: remaining(state, budget),
    resetSeconds: wholeSeconds(msToReset(state, budget.windows, nowMs, missing)),
  };
}

/** Returns remaining ÷ limit; a limit of 0 is exhausted. */
function shareOf(state: CounterState, budget: Budget): number {
  return budget.capacity === 0 ? 0 : remaining(state, budget) / budget.capacity;
}
