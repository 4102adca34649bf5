/**
 * Replays requests through limits on their own clock: each is decided at its start, and its tokens are charged at its end,
 * in the order of these times.
 */
import type { GlobalLimit } from "@gatewayproxy/proxy/global-limit";
import type { LocalLimit } from "@gatewayproxy/proxy/limit";
import type { TokenUsage } from "@gatewayproxy/proxy/usage";
import type { LimitReplay, Replayed, ReplayRequest } from "@gatewayproxy/proxy/limit-replay";

/** A recorded or synthetic request. */
export interface ReplayedRequest extends ReplayRequest {
  /** Wall time in ms since the epoch. */
  readonly startMs: number;
  readonly endMs: number;
  /** Its usage; undefined if it was not counted. */
  readonly usage: TokenUsage | undefined;
  /** Whether it was denied when it was recorded, so that its usage is not known. */
  readonly wasDenied: boolean;
}

/** A limit with its own counter: an entry of `local`, or a global limit with all its descriptors. */
export type ReplayedLimit =
  | { readonly kind: "local"; readonly limit: LocalLimit }
  | { readonly kind: "global"; readonly limit: GlobalLimit };

/** The result of one entry. */
export interface EntryOutcome {
  readonly entry: ReplayedLimit;
  readonly countsTokens: boolean;
  allowed: number;
  /** Requests denied by this entry; in shadow mode, that would have been. */
  denied: number;
  /** Tokens charged by responses of allowed requests. */
  tokens: number;
  /** Wall time of the first denial. */
  firstDeniedMs: number | undefined;
}

/** The result of a replay. */
export interface ReplayOutcome {
  readonly requests: number;
  readonly allowed: number;
  readonly denied: number;
  /** Requests that match no rule; neither allowed nor denied. */
  readonly unmatched: number;
  /** The time from the start of the first request to the end of the last. */
  readonly spanMs: number;
  /** Denied requests whose usage was estimated as the average of the others. */
  readonly estimated: number;
  /** In the order of `LimitReplay.limits`, then of its `globalLimits`. */
  readonly entries: readonly EntryOutcome[];
}

/** A charge at the end of a request. */
interface PendingCharge {
  readonly atMs: number;
  readonly charge: () => void;
}

/** Replays requests that are sorted by their start. */
export function replayRequests(replay: LimitReplay, requests: readonly ReplayedRequest[]): ReplayOutcome {
  const entries = new Map<string, EntryOutcome>([
    ...replay.limits.map((limit) => [limit.counter, localOutcome(limit)] as const),
    ...replay.globalLimits.map((limit) => [limit.id, globalOutcome(limit)] as const),
  ]);
  const meanTokens = meanOf(requests);
  const pending = new PendingCharges();
  const sums = { allowed: 0, denied: 0, unmatched: 0, estimated: 0 };
  for (const request of requests) {
    pending.runUntil(request.startMs);
    const replayed = replay.decide(request, request.startMs);
    if (replayed === undefined) {
      sums.unmatched += 1;
      continue;
    }
    const { isAllowed, charge } = replayed;
    const outcomes = outcomesOf(replayed, entries);
    for (const { entry, outcome } of outcomes) tally(entry, outcome, isAllowed, request.startMs);
    if (!isAllowed) {
      sums.denied += 1;
      continue;
    }
    sums.allowed += 1;
    const isEstimated = request.usage === undefined && request.wasDenied && meanTokens > 0;
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

const noOutcome = { allowed: 0, denied: 0, tokens: 0, firstDeniedMs: undefined };

/** Returns the decision of each entry that applies to a request. */
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

function tally(entry: EntryOutcome, outcome: string, isAllowed: boolean, atMs: number): void {
  if (outcome === "notApplied") return;
  if (outcome !== "allowed") {
    entry.denied += 1;
    entry.firstDeniedMs ??= atMs;
  } else if (isAllowed) {
    entry.allowed += 1;
  }
}

/** Returns the average number of tokens of the requests with known usage, as a whole number. */
function meanOf(requests: readonly ReplayedRequest[]): number {
  const known = requests.flatMap(({ usage }) => usage?.total ?? []);
  return known.length === 0 ? 0 : Math.round(known.reduce((sum, tokens) => sum + tokens, 0) / known.length);
}

function spanOf(requests: readonly ReplayedRequest[]): number {
  const first = requests[0]?.startMs ?? 0;
  return requests.reduce((last, { endMs }) => Math.max(last, endMs), first) - first;
}

/** A queue by time, searched linearly, since few requests are open at one time. */
class PendingCharges {
  readonly #pending: PendingCharge[] = [];

  add(atMs: number, charge: () => void): void {
    let at = this.#pending.length;
    while (at > 0 && (this.#pending[at - 1]?.atMs ?? 0) > atMs) at -= 1;
    this.#pending.splice(at, 0, { atMs, charge });
  }

  /** Charges the requests that have ended by then. */
  runUntil(nowMs: number): void {
    for (let next = this.#pending[0]; next !== undefined && next.atMs <= nowMs; next = this.#pending[0]) {
      this.#pending.shift();
      next.charge();
    }
  }
}
