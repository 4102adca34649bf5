/**
 * Replays requests through limits on their own clock: each is decided at its start, and its tokens are charged at its
 * end, in the order of these times.
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
  /** Whether it counts what responses cost. */
  readonly countsSpend: boolean;
  allowed: number;
  /** Requests denied by this entry; in shadow mode, that would have been. */
  denied: number;
  /** Tokens charged by responses of allowed requests. */
  tokens: number;
  /** What these responses cost, in micro-units. */
  cost: number;
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
  /** What the responses of allowed requests cost, in micro-units; undefined if no response has a cost. */
  readonly cost: number | undefined;
  /** What all responses cost, also those of requests that the limits deny. */
  readonly costWithoutLimits: number | undefined;
  /** The currency of the first cost; undefined if it has no name. */
  readonly currency: string | undefined;
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
export function replayRequests(replay: LimitReplay, recorded: readonly ReplayedRequest[]): ReplayOutcome {
  const requests = recorded.map((request) => priced(replay, request));
  const entries = new Map<string, EntryOutcome>([
    ...replay.limits.map((limit) => [limit.counter, localOutcome(limit)] as const),
    ...replay.globalLimits.map((limit) => [limit.id, globalOutcome(limit)] as const),
  ]);
  const mean = meanUsage(requests);
  const pending = new PendingCharges();
  const sums = { allowed: 0, denied: 0, unmatched: 0, estimated: 0, cost: 0 };
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
    const isEstimated = request.usage === undefined && request.wasDenied && mean.total > 0;
    if (isEstimated) sums.estimated += 1;
    const usage = isEstimated ? mean : request.usage;
    if (usage === undefined || usage.total === 0) continue;
    pending.add(request.endMs, () => {
      charge(usage, request.endMs);
      sums.cost += usage.cost ?? 0;
      for (const { entry } of outcomes) {
        if (entry.countsTokens) entry.tokens += usage.total;
        if (entry.countsSpend) entry.cost += usage.cost ?? 0;
      }
    });
  }
  pending.runUntil(Infinity);
  const costs = requests.flatMap(({ usage }) => (usage?.cost === undefined ? [] : { ...usage, cost: usage.cost }));
  const hasCosts = costs.length > 0;
  return {
    ...{ requests: requests.length, ...sums, spanMs: spanOf(requests), entries: [...entries.values()] },
    cost: hasCosts ? sums.cost : undefined,
    costWithoutLimits: hasCosts ? sumOf(costs.map(({ cost }) => cost)) : undefined,
    currency: costs[0]?.currency,
  };
}

/** Returns the request with the cost of its response, and whether its model has a price. */
function priced(replay: LimitReplay, request: ReplayedRequest): ReplayedRequest {
  if (request.usage === undefined) return request;
  const usage = replay.priced(request, request.usage);
  // A log does not have what a request allowed, so entries that reserve hold what it used.
  const estimated = { ...request.view.llm, estimate: usage };
  if (request.backend === undefined) return { ...request, usage, view: { ...request.view, llm: estimated } };
  const llm = { ...estimated, isPriced: usage.cost !== undefined };
  return { ...request, usage, view: { ...request.view, llm } };
}

function localOutcome(limit: LocalLimit): EntryOutcome {
  const { counts } = limit;
  return {
    ...noOutcome,
    entry: { kind: "local", limit },
    countsTokens: counts === "tokens",
    countsSpend: counts === "spend",
  };
}

function globalOutcome(limit: GlobalLimit): EntryOutcome {
  const countsTokens = limit.descriptors.some(({ counts }) => counts === "tokens");
  return { ...noOutcome, entry: { kind: "global", limit }, countsTokens, countsSpend: false };
}

const noOutcome = { allowed: 0, denied: 0, tokens: 0, cost: 0, firstDeniedMs: undefined };

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

/** Returns the average tokens and cost of the requests with known usage, as whole numbers. */
function meanUsage(requests: readonly ReplayedRequest[]): TokenUsage {
  const known = requests.flatMap(({ usage }) => usage ?? []);
  const costs = known.flatMap(({ cost }) => cost ?? []);
  const total = meanOf(known.map((usage) => usage.total));
  return { total, ...(costs.length > 0 && { cost: meanOf(costs) }), estimated: true };
}

function meanOf(values: readonly number[]): number {
  return values.length === 0 ? 0 : Math.round(sumOf(values) / values.length);
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
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
