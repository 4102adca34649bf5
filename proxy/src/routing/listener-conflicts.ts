/** The search for conflicts among the routes of one listener, and what each rule has lost. */
import type { Steps } from "@gatewayproxy/runtime/steps";
import {
  type Conflict,
  type ConflictListener,
  type ConflictRoute,
  type Decision,
  maxWinners,
  type RuleReach,
} from "./conflict.ts";
import { Cover, isStronger } from "./conflict-cover.ts";
import type { Group, Tier } from "./conflict-groups.ts";
import type { Meter } from "./conflict-meter.ts";
import { identityOf, type MatchEntry, type MatchReader } from "./match-entry.ts";
import { OverlapIndex, type PlacedEntry, subsetsOf, together } from "./overlaps.ts";
import type { Pace } from "./pace.ts";
import { decisionBetween } from "./precedence.ts";

/** What a rule has lost so far to other rules. */
interface Losses {
  /** Matches, each once per group. */
  count: number;
  readonly byWinner: Map<string, Conflict>;
  readonly leftOut: Set<string>;
}

/** What a route has lost to other listeners, with all of its rules. */
interface LostHosts {
  /** Groups. */
  count: number;
  /** By key of the other listener; at most `maxWinners`. */
  readonly byTaker: Map<string, Conflict>;
  readonly leftOut: Set<string>;
}

export interface AnalysisParts {
  readonly listener: ConflictListener;
  /** In the order of precedence between matches of one rank. */
  readonly routes: readonly ConflictRoute[];
  /** By place of the route. */
  readonly entries: readonly (readonly MatchEntry[])[];
  readonly inputSize: number;
  readonly groups: readonly Group[];
  /** In how many groups each route is. */
  readonly groupCounts: readonly number[];
  readonly reader: MatchReader;
  readonly pace: Pace;
}

/** The routes of one listener, compared with each other. */
export class ListenerAnalysis {
  readonly listener: ConflictListener;
  readonly groups: readonly Group[];
  /** Matches and hostnames of the routes. */
  readonly inputSize: number;
  readonly #routes: readonly ConflictRoute[];
  readonly #entries: readonly (readonly MatchEntry[])[];
  readonly #groupCounts: readonly number[];
  /** By place of the route, then of the rule. */
  readonly #losses = new Map<number, Map<number, Losses>>();
  /** By place of the route. */
  readonly #lostHosts = new Map<number, LostHosts>();
  readonly #reader: MatchReader;
  readonly #pace: Pace;

  /** @param parts the routes of the listener in groups (`conflict-groups.ts`). */
  constructor(parts: AnalysisParts) {
    this.listener = parts.listener;
    this.groups = parts.groups;
    this.inputSize = parts.inputSize;
    this.#routes = parts.routes;
    this.#entries = parts.entries;
    this.#groupCounts = parts.groupCounts;
    this.#reader = parts.reader;
    this.#pace = parts.pace;
  }

  *examine({ taker, tiers }: Group, meter: Meter): Steps<void> {
    if (taker !== undefined) {
      for (const tier of tiers) yield* this.#loseHost(tier, taker);
      return;
    }
    const above = new Cover(this.#reader, meter);
    for (const [at, tier] of tiers.entries()) {
      const standing = yield* this.#examineTier(tier, above, meter);
      if (at < tiers.length - 1) for (const placed of standing) above.add(placed, at);
    }
  }

  /** A route loses the host with all of its rules; so the rules are not gone through for each host. */
  *#loseHost({ hostname, routes }: Tier, taker: ConflictListener): Steps<void> {
    const host = hostname === undefined ? {} : { hostname };
    const winner = { kind: "listener", listener: taker.key } as const;
    for (const place of routes) {
      const lost = this.#lostHosts.get(place) ?? { count: 0, byTaker: new Map(), leftOut: new Set() };
      this.#lostHosts.set(place, lost);
      lost.count++;
      const { byTaker, leftOut } = lost;
      if (!byTaker.has(taker.key)) {
        if (byTaker.size >= maxWinners) leftOut.add(taker.key);
        else
          byTaker.set(taker.key, {
            listener: this.listener.key,
            ...host,
            winner,
            decidedBy: "Listener",
            extent: "Whole",
          });
      }
      if (this.#pace.isOver(1)) yield;
    }
  }

  /** @returns the matches that get requests, as far as is known. */
  *#examineTier({ hostname, routes }: Tier, above: Cover, meter: Meter): Steps<readonly PlacedEntry[]> {
    const byIdentity = new Map<string, PlacedEntry>();
    for (const route of routes) {
      for (const entry of this.#entries[route] ?? []) {
        const placed = { route, entry };
        const over = above.find(entry, entry.conditions);
        const same = byIdentity.get(entry.identity);
        if (over !== undefined) this.#loseTo(over, placed, hostname, "Hostname");
        else if (same === undefined) byIdentity.set(entry.identity, placed);
        // Twice in one rule is the same as once.
        else if (same.route !== route || same.entry.rule !== entry.rule) this.#loseTo(same, placed, hostname);
      }
      yield;
    }
    if (routes.length > 1) yield* this.#findOverlaps({ hostname, routes }, byIdentity, above, meter);
    return [...byIdentity.values()];
  }

  *#findOverlaps(
    { hostname }: Tier,
    byIdentity: ReadonlyMap<string, PlacedEntry>,
    above: Cover,
    meter: Meter,
  ): Steps<void> {
    const indexes = new Map<string, OverlapIndex>();
    for (const placed of byIdentity.values()) {
      const { pathNumber, method, conditions, headerCount } = placed.entry;
      if (conditions.length === 0) continue;
      const rank = `${conditions.length} ${headerCount} ${identityOf(pathNumber, method, [])}`;
      const index = indexes.get(rank) ?? new OverlapIndex();
      indexes.set(rank, index);
      if (!meter.spend(index.cost)) return;
      yield;
      const winner = index.add(placed);
      const both = winner && together(winner.entry, placed.entry);
      if (winner === undefined || both === undefined) continue;
      // Where a match decides about the requests that both hold for, somebody has thought of them.
      const isDecided =
        [...subsetsOf(both)].some((some) => {
          const other = byIdentity.get(identityOf(pathNumber, method, some));
          return other !== undefined && isStronger(other, winner);
        }) || above.find(placed.entry, both) !== undefined;
      if (!isDecided) this.#loseTo(winner, placed, hostname, undefined);
    }
  }

  /** @param decision undefined: what decides between routes at one hostname. */
  #loseTo(winner: PlacedEntry, loser: PlacedEntry, hostname: string | undefined, decision?: Decision): void {
    const { identity, rule, match } = loser.entry;
    const isWhole = decision === "Hostname" || identity === winner.entry.identity;
    const losses = this.#lossesOf(loser.route, rule);
    if (isWhole) losses.count++;
    this.#tell(losses, `${winner.route} ${winner.entry.rule}`, isWhole ? "Whole" : "Overlap", () => {
      const [route, own] = [this.#routes[winner.route], this.#routes[loser.route]];
      const decidedBy = decision ?? (route && own ? decisionBetween(route, own) : "RuleOrder");
      return { hostname, match, winner: { kind: "rule", route: route?.key ?? "", rule: winner.entry.rule }, decidedBy };
    });
  }

  #lossesOf(place: number, rule: number): Losses {
    const ofRoute = this.#losses.get(place) ?? new Map<number, Losses>();
    this.#losses.set(place, ofRoute);
    const losses = ofRoute.get(rule) ?? { count: 0, byWinner: new Map<string, Conflict>(), leftOut: new Set<string>() };
    ofRoute.set(rule, losses);
    return losses;
  }

  /** Most losses are to a winner that is known; `describe` is called for the others. */
  #tell(
    { byWinner, leftOut }: Losses,
    winner: string,
    extent: Conflict["extent"],
    describe: () => Omit<Conflict, "listener" | "hostname" | "extent"> & { readonly hostname: string | undefined },
  ): void {
    const known = byWinner.get(winner);
    if (known !== undefined && (known.extent === "Whole" || extent === "Overlap")) return;
    if (known === undefined && byWinner.size >= maxWinners) {
      leftOut.add(winner);
      return;
    }
    const { hostname, ...conflict } = describe();
    const host = hostname === undefined ? {} : { hostname };
    byWinner.set(winner, { listener: this.listener.key, ...host, ...conflict, extent });
  }

  /** Of the routes that have lost something, by their key. */
  *results(): Steps<ReadonlyMap<string, readonly RuleReach[]>> {
    const byRoute = new Map<string, readonly RuleReach[]>();
    for (const [place, { key, rules }] of this.#routes.entries()) {
      const hosts = this.#lostHosts.get(place);
      const ofRoute = this.#losses.get(place);
      if (hosts !== undefined || ofRoute !== undefined) {
        const takers = [...(hosts?.byTaker.values() ?? [])];
        const reaches = rules.map(({ matches }, rule): RuleReach => {
          const losses = ofRoute?.get(rule);
          if (hosts === undefined && losses === undefined) return { isReachable: true, conflicts: [], leftOut: 0 };
          const lost = (losses?.count ?? 0) + matches.length * (hosts?.count ?? 0);
          const winners = losses === undefined ? takers : [...takers, ...losses.byWinner.values()];
          const conflicts = winners.length > maxWinners ? winners.slice(0, maxWinners) : winners;
          const leftOut = winners.length - conflicts.length + (losses?.leftOut.size ?? 0) + (hosts?.leftOut.size ?? 0);
          return { isReachable: lost < matches.length * (this.#groupCounts[place] ?? 0), conflicts, leftOut };
        });
        byRoute.set(key, reaches);
      }
      if (this.#pace.isOver(1 + rules.length)) yield;
    }
    return byRoute;
  }
}
