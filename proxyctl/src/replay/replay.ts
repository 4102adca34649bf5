/**
 * Puts requests through limits on a clock of their own: each is decided when it began, and its tokens are charged when
 * it ended, in the order in which that happened.
 */
import type { GlobalLimit } from "@gatewayproxy/proxy/ir/global-limit";
import type { LocalLimit } from "@gatewayproxy/proxy/ir/limit";
import type { TokenUsage } from "@gatewayproxy/proxy/ir/usage";
import type { LimitReplay, Replayed, ReplayRequest } from "@gatewayproxy/proxy/app/limit-replay";

/** A request that was made, or is made up. */
export interface ReplayedRequest extends ReplayRequest {
  /** Wall time, ms since the epoch. */
  readonly startMs: number;
  readonly endMs: number;
  /** What it cost; undefined where nobody counted. */
  readonly usage: TokenUsage | undefined;
  /** It was refused when it was made, so that what it would have cost is not known. */
  readonly wasRefused: boolean;
}

/** What is counted by itself: an entry of `local`, or a global limit with all its descriptors. */
export type ReplayedLimit =
  | { readonly kind: "local"; readonly limit: LocalLimit }
  | { readonly kind: "global"; readonly limit: GlobalLimit };

/** What one entry did. */
export interface EntryOutcome {
  readonly entry: ReplayedLimit;
  readonly countsTokens: boolean;
  admitted: number;
  /** Refused by this entry; in shadow: would have been. */
  denied: number;
  /** Charged by answers of admitted requests. */
  tokens: number;
  /** Wall time of the first refusal. */
  firstDeniedMs: number | undefined;
}

export interface ReplayOutcome {
  readonly requests: number;
  readonly admitted: number;
  readonly denied: number;
  /** Requests that no rule serves; counted as admitted by nobody. */
  readonly unserved: number;
  /** From the first request's start to the last one's end. */
  readonly spanMs: number;
  /** Refused requests whose cost was taken to be that of the others. */
  readonly estimated: number;
  /** In the order of `LimitReplay.limits`, then of its `globalLimits`. */
  readonly entries: readonly EntryOutcome[];
}

/** An end of a request that is still to come. */
interface PendingCharge {
  readonly atMs: number;
  readonly charge: () => void;
}

/** `requests` are in the order of their starts. */
export function replayRequests(replay: LimitReplay, requests: readonly ReplayedRequest[]): ReplayOutcome {
  const entries = new Map<string, EntryOutcome>([
    ...replay.limits.map((limit) => [limit.counter, localOutcome(limit)] as const),
    ...replay.globalLimits.map((limit) => [limit.id, globalOutcome(limit)] as const),
  ]);
  const meanTokens = meanOf(requests);
  const pending = new PendingCharges();
  const sums = { admitted: 0, denied: 0, unserved: 0, estimated: 0 };
  for (const request of requests) {
    pending.runUntil(request.startMs);
    const replayed = replay.admit(request, request.startMs);
    if (replayed === undefined) {
      sums.unserved += 1;
      continue;
    }
    const { isAdmitted, charge } = replayed;
    const outcomes = outcomesOf(replayed, entries);
    for (const { entry, outcome } of outcomes) tally(entry, outcome, isAdmitted, request.startMs);
    if (!isAdmitted) {
      sums.denied += 1;
      continue;
    }
    sums.admitted += 1;
    const isEstimated = request.usage === undefined && request.wasRefused && meanTokens > 0;
    if (isEstimated) sums.estimated += 1;
    const usage = isEstimated ? { total: meanTokens, estimated: true } : request.usage;
    if (usage === undefined || usage.total === 0) continue;
    pending.add(request.endMs, () => {
      charge(usage, request.endMs);
      for (const { entry } of outcomes) if (entry.countsTokens) entry.tokens += usage.total;
    });
  }
  pending.runUntil(Infinity);
  return { requests: requests.length, ...sums, spanMs: spanOf(requests), entries: [...entries.values()] };
}

function localOutcome(limit: LocalLimit): EntryOutcome {
  return { ...noOutcome, entry: { kind: "local", limit }, countsTokens: limit.counts === "tokens" };
}

function globalOutcome(limit: GlobalLimit): EntryOutcome {
  const countsTokens = limit.descriptors.some(({ counts }) => counts === "tokens");
  return { ...noOutcome, entry: { kind: "global", limit }, countsTokens };
}

const noOutcome = { admitted: 0, denied: 0, tokens: 0, firstDeniedMs: undefined };

/** What each entry that applies said of a request. */
function outcomesOf({ decisions, globalDecisions }: Replayed, entries: ReadonlyMap<string, EntryOutcome>) {
  const named = [
    ...decisions.map(({ limit, outcome }) => ({ id: limit.counter, outcome })),
    ...globalDecisions.filter(({ by }) => by !== "none").map(({ limit, outcome }) => ({ id: limit.id, outcome })),
  ];
  return named.flatMap(({ id, outcome }) => {
    const entry = entries.get(id);
    return entry === undefined ? [] : [{ entry, outcome }];
  });
}

function tally(entry: EntryOutcome, outcome: string, isAdmitted: boolean, atMs: number): void {
  if (outcome !== "allowed") {
    entry.denied += 1;
    entry.firstDeniedMs ??= atMs;
  } else if (isAdmitted) entry.admitted += 1;
}

/** Whole tokens that a request cost on average, of those that anything is known of. */
function meanOf(requests: readonly ReplayedRequest[]): number {
  const known = requests.flatMap(({ usage }) => usage?.total ?? []);
  return known.length === 0 ? 0 : Math.round(known.reduce((sum, tokens) => sum + tokens, 0) / known.length);
}

function spanOf(requests: readonly ReplayedRequest[]): number {
  const first = requests[0]?.startMs ?? 0;
  return requests.reduce((last, { endMs }) => Math.max(last, endMs), first) - first;
}

/** A queue by time; few are open at once, so that the next is looked for. */
class PendingCharges {
  readonly #pending: PendingCharge[] = [];

  add(atMs: number, charge: () => void): void {
    let at = this.#pending.length;
    while (at > 0 && (this.#pending[at - 1]?.atMs ?? 0) > atMs) at -= 1;
    this.#pending.splice(at, 0, { atMs, charge });
  }

  /** Charges what has ended by then. */
  runUntil(nowMs: number): void {
    for (let next = this.#pending[0]; next !== undefined && next.atMs <= nowMs; next = this.#pending[0]) {
      this.#pending.shift();
      next.charge();
    }
  }
}
