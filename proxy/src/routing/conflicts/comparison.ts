/** Compares the routes of one contest with each other, one group of hostnames at a time, and records the conflicts. */
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

  /** @returns false if the budget did not allow to compare the whole group. */
  *examine({ hostOwner, tiers }: Group): Steps<boolean> {
    const { lookUps, kept } = this.#tools.budget;
    const before = lookUps.refusals + kept.refusals;
    if (hostOwner === undefined) yield* this.#examineTiers(tiers);
    else for (const tier of tiers) yield* this.#recordLostHostnames(tier, hostOwner);
    return lookUps.refusals + kept.refusals === before;
  }

  /** All rules of a route lose the hostname, so this is recorded once for the route and not once for each rule. */
  *#recordLostHostnames({ hostname, routes }: Tier, hostOwner: ConflictListener): Steps<void> {
    const describe = (): Conflict => ({
      ...(hostname !== undefined && { hostname }),
      winner: { kind: "listener", listener: hostOwner.key },
      decidedBy: "Listener",
      extent: "Whole",
    });
    for (const place of routes) {
      this.losses.recordLostHostname(place, hostOwner.key, describe);
      if (this.#tools.pace.isOver(1)) yield;
    }
  }

  *#examineTiers(tiers: readonly Tier[]): Steps<void> {
    const above = new Cover(this.#tools.reader, this.#tools.budget.lookUps);
    for (const [at, tier] of tiers.entries()) {
      const unbeaten = yield* this.#examineTier(tier, above);
      if (at < tiers.length - 1) for (const placed of unbeaten) above.add(placed, at);
    }
  }

  /** @returns the matches for which no conflict was found that takes all of their requests. */
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
        if (over !== undefined) this.#recordLoss(over, placed, hostname, "Hostname");
        else if (same === undefined) byIdentity.set(entry.identity, placed);
        // A match that comes twice in one rule is no conflict.
        else if (same.route !== route || same.entry.rule !== entry.rule) this.#recordLoss(same, placed, hostname);
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
      // `together` bounds the number of conditions, and so the number of subsets.
      if (!lookUps.spend(namespace, 2 ** both.length)) continue;
      // If a match of higher precedence takes all requests that both match, the two do not compete for any.
      const isDecided =
        [...subsetsOf(both)].some((some) => {
          const other = byIdentity.get(identityOf(pathNumber, method, some));
          return other !== undefined && isStronger(other, winner);
        }) || above.find(placed.entry, both, namespace) !== undefined;
      if (!isDecided) this.#recordLoss(winner, placed, hostname);
    }
  }

  /** @param decision absent: decided by age, name or rule order, as between matches at one hostname. */
  #recordLoss(winner: PlacedEntry, loser: PlacedEntry, hostname: string | undefined, decision?: Decision): void {
    const { identity, rule, match } = loser.entry;
    const extent = decision === "Hostname" || identity === winner.entry.identity ? "Whole" : "Overlap";
    const [losing, winning] = [
      { route: loser.route, rule },
      { route: winner.route, rule: winner.entry.rule },
    ];
    this.losses.recordLostMatch(losing, winning, extent, () => {
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
