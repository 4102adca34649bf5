/** Compares the routes of one contest with each other, group by group. */
import type { Steps } from "@gatewayproxy/runtime/steps";
import { identityOf, type MatchReader } from "../match-entry.ts";
import { OverlapIndex, type PlacedEntry, subsetsOf, together } from "../overlaps.ts";
import type { Pace } from "../pace.ts";
import { decisionBetween } from "../precedence.ts";
import { type Budget, namespaceOf } from "./budget.ts";
import type { Contest, Group, Tier } from "./contest.ts";
import { Cover, isStronger } from "./cover.ts";
import type { Conflict, ConflictListener, Decision } from "./findings.ts";
import { Losses } from "./losses.ts";

interface Tools {
  readonly budget: Budget;
  readonly reader: MatchReader;
  readonly pace: Pace;
}

export class Comparison {
  readonly contest: Contest;
  readonly losses: Losses;
  readonly #tools: Tools;

  constructor(contest: Contest, tools: Tools) {
    this.losses = new Losses(contest, tools.budget.kept);
    this.contest = contest;
    this.#tools = tools;
  }

  /** @returns whether all of it was done, and not only what the budget allows. */
  *examine({ taker, tiers }: Group): Steps<boolean> {
    const { lookUps, kept } = this.#tools.budget;
    const before = lookUps.refusals + kept.refusals;
    if (taker === undefined) yield* this.#examineTiers(tiers);
    else for (const tier of tiers) yield* this.#loseHostname(tier, taker);
    return lookUps.refusals + kept.refusals === before;
  }

  /** A route loses the host with all of its rules; so the rules are not gone through for each host. */
  *#loseHostname({ hostname, routes }: Tier, taker: ConflictListener): Steps<void> {
    const describe = (): Conflict => ({
      ...(hostname !== undefined && { hostname }),
      winner: { kind: "listener", listener: taker.key },
      decidedBy: "Listener",
      extent: "Whole",
    });
    for (const place of routes) {
      this.losses.loseHostname(place, taker.key, describe);
      if (this.#tools.pace.isOver(1)) yield;
    }
  }

  *#examineTiers(tiers: readonly Tier[]): Steps<void> {
    const above = new Cover(this.#tools.reader, this.#tools.budget.lookUps);
    for (const [at, tier] of tiers.entries()) {
      const standing = yield* this.#examineTier(tier, above);
      if (at < tiers.length - 1) for (const placed of standing) above.add(placed, at);
    }
  }

  /** @returns the matches that get requests, as far as is known. */
  *#examineTier({ hostname, routes }: Tier, above: Cover): Steps<Iterable<PlacedEntry>> {
    const byIdentity = new Map<string, PlacedEntry>();
    for (const route of routes) {
      const entries = this.contest.entries[route] ?? [];
      const namespace = this.#namespaceAt(route);
      if (this.#tools.pace.isOver(1)) yield;
      if (!this.#tools.budget.lookUps.spend(namespace, entries.length)) continue;
      for (const entry of entries) {
        const placed = { route, entry };
        const over = above.find(entry, entry.conditions, namespace);
        const same = byIdentity.get(entry.identity);
        if (over !== undefined) this.#loseTo(over, placed, hostname, "Hostname");
        else if (same === undefined) byIdentity.set(entry.identity, placed);
        // Twice in one rule is the same as once.
        else if (same.route !== route || same.entry.rule !== entry.rule) this.#loseTo(same, placed, hostname);
      }
      yield;
    }
    if (routes.length > 1) yield* this.#findOverlaps(hostname, byIdentity, above);
    return byIdentity.values();
  }

  *#findOverlaps(
    hostname: string | undefined,
    byIdentity: ReadonlyMap<string, PlacedEntry>,
    above: Cover,
  ): Steps<void> {
    const { lookUps } = this.#tools.budget;
    const indexes = new Map<string, OverlapIndex>();
    for (const placed of byIdentity.values()) {
      const { pathNumber, method, conditions, headerCount } = placed.entry;
      if (conditions.length === 0) continue;
      const namespace = this.#namespaceAt(placed.route);
      const rank = `${conditions.length} ${headerCount} ${identityOf(pathNumber, method, [])}`;
      const index = indexes.get(rank) ?? new OverlapIndex();
      indexes.set(rank, index);
      yield;
      if (!lookUps.spend(namespace, index.cost)) continue;
      const winner = index.add(placed);
      const both = winner && together(winner.entry, placed.entry);
      if (winner === undefined || both === undefined) continue;
      // `together` bounds how many conditions there are.
      if (!lookUps.spend(namespace, 2 ** both.length)) continue;
      // A stronger match that holds for all of these requests gets them, whichever of the two goes first.
      const isDecided =
        [...subsetsOf(both)].some((some) => {
          const other = byIdentity.get(identityOf(pathNumber, method, some));
          return other !== undefined && isStronger(other, winner);
        }) || above.find(placed.entry, both, namespace) !== undefined;
      if (!isDecided) this.#loseTo(winner, placed, hostname);
    }
  }

  /** @param decision undefined: what decides between routes at one hostname. */
  #loseTo(winner: PlacedEntry, loser: PlacedEntry, hostname: string | undefined, decision?: Decision): void {
    const { identity, rule, match } = loser.entry;
    const extent = decision === "Hostname" || identity === winner.entry.identity ? "Whole" : "Overlap";
    const [losing, winning] = [
      { route: loser.route, rule },
      { route: winner.route, rule: winner.entry.rule },
    ];
    this.losses.loseMatch(losing, winning, extent, () => {
      const [route, own] = [this.contest.routes[winner.route], this.contest.routes[loser.route]];
      const decidedBy = decision ?? (route && own ? decisionBetween(route, own) : "RuleOrder");
      return {
        ...(hostname !== undefined && { hostname }),
        match,
        winner: { kind: "rule", route: route?.key ?? "", rule: winner.entry.rule },
        decidedBy,
        extent,
      };
    });
  }

  #namespaceAt(route: number): string {
    return namespaceOf(this.contest.routes[route]?.key ?? "");
  }
}
