/** Compares the routes of one contest with each other, one group of hostnames at a time, and records the conflicts. */
import type { Steps } from "@gatewayproxy/runtime/steps";
import { identityOf, type MatchReader } from "../match-entry.ts";
import { OverlapIndex, type PositionedEntry, subsetsOf, unionOf } from "../overlaps.ts";
import type { Pace } from "../pace.ts";
import { decisionBetween } from "../precedence.ts";
import { type Budget, namespaceOf } from "./budget.ts";
import type { Contest, Group, Tier } from "./contest.ts";
import { Cover, isStronger } from "./cover.ts";
import type { Conflict, Decision } from "./findings.ts";
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
    this.losses = new Losses(contest, tools.budget.stored);
    this.contest = contest;
    this.#tools = tools;
  }

  /**
   * Compares the routes of a group.
   *
   * @returns false if the budget was too small for the whole group.
   */
  *examine({ hostOwner, tiers }: Group): Steps<boolean> {
    const { lookUps, stored } = this.#tools.budget;
    const before = lookUps.denials + stored.denials;
    if (hostOwner === undefined) yield* this.#examineTiers(tiers);
    else for (const tier of tiers) yield* this.#recordLostHostnames(tier, hostOwner);
    return lookUps.denials + stored.denials === before;
  }

  /** Records once per route that all of its rules lose the hostname. */
  *#recordLostHostnames({ hostname, routes }: Tier, hostOwner: string): Steps<void> {
    const describe = (): Conflict => ({
      ...(hostname !== undefined && { hostname }),
      winner: { kind: "listener", listener: hostOwner },
      decidedBy: "Listener",
      extent: "Whole",
    });
    for (const position of routes) {
      this.losses.recordLostHostname(position, hostOwner, describe);
      if (this.#tools.pace.endsStep(1)) yield;
    }
  }

  *#examineTiers(tiers: readonly Tier[]): Steps<void> {
    const above = new Cover(this.#tools.reader, this.#tools.budget.lookUps);
    for (const [at, tier] of tiers.entries()) {
      const unbeaten = yield* this.#examineTier(tier, above);
      if (at < tiers.length - 1) for (const positioned of unbeaten) above.add(positioned, at);
    }
  }

  /**
   * Compares the matches of one hostname with each other and with those in `above`.
   *
   * @returns the matches that do not lose all of their requests.
   */
  *#examineTier({ hostname, routes }: Tier, above: Cover): Steps<Iterable<PositionedEntry>> {
    const byIdentity = new Map<string, PositionedEntry>();
    for (const route of routes) {
      const entries = this.contest.entries[route] ?? [];
      const namespace = this.#namespaceOfRoute(route);
      if (this.#tools.pace.endsStep(1)) yield;
      if (!this.#tools.budget.lookUps.spend(namespace, entries.length)) continue;
      for (const entry of entries) {
        const positioned = { route, entry };
        const covering = above.find(entry, entry.conditions, namespace);
        const identical = byIdentity.get(entry.identity);
        if (covering !== undefined) this.#recordLoss(covering, positioned, hostname, "Hostname");
        else if (identical === undefined) byIdentity.set(entry.identity, positioned);
        // A match that occurs twice in one rule is no conflict.
        else if (!isSameRule(identical, positioned)) this.#recordLoss(identical, positioned, hostname);
      }
      yield;
    }
    if (routes.length > 1) yield* this.#findOverlaps(hostname, byIdentity, above);
    return byIdentity.values();
  }

  *#findOverlaps(
    hostname: string | undefined,
    byIdentity: ReadonlyMap<string, PositionedEntry>,
    above: Cover,
  ): Steps<void> {
    const { lookUps } = this.#tools.budget;
    const indexes = new Map<string, OverlapIndex>();
    for (const positioned of byIdentity.values()) {
      const { pathNumber, method, conditions, headerCount } = positioned.entry;
      if (conditions.length === 0) continue;
      const namespace = this.#namespaceOfRoute(positioned.route);
      const rank = `${conditions.length} ${headerCount} ${identityOf(pathNumber, method, [])}`;
      const index = indexes.get(rank) ?? new OverlapIndex();
      indexes.set(rank, index);
      yield;
      if (!lookUps.spend(namespace, index.cost)) continue;
      const winner = index.add(positioned);
      const both = winner && unionOf(winner.entry, positioned.entry);
      if (winner === undefined || both === undefined) continue;
      // `unionOf` bounds the number of conditions, and so the number of subsets.
      if (!lookUps.spend(namespace, 2 ** both.length)) continue;
      // If a match of higher precedence takes all requests that both match, the two do not compete for any.
      const isDecided =
        [...subsetsOf(both)].some((subset) => {
          const other = byIdentity.get(identityOf(pathNumber, method, subset));
          return other !== undefined && isStronger(other, winner);
        }) || above.find(positioned.entry, both, namespace) !== undefined;
      if (!isDecided) this.#recordLoss(winner, positioned, hostname);
    }
  }

  /** @param decision absent: decided by age, name or rule order, as between matches at one hostname. */
  #recordLoss(
    winner: PositionedEntry,
    loser: PositionedEntry,
    hostname: string | undefined,
    decision?: Decision,
  ): void {
    const { identity, rule, match } = loser.entry;
    const extent = decision === "Hostname" || identity === winner.entry.identity ? "Whole" : "Overlap";
    const [losing, winning] = [
      { route: loser.route, rule },
      { route: winner.route, rule: winner.entry.rule },
    ];
    this.losses.recordLostMatch(losing, winning, extent, () => {
      const [winningRoute, losingRoute] = [this.contest.routes[winner.route], this.contest.routes[loser.route]];
      const decidedBy =
        decision ?? (winningRoute && losingRoute ? decisionBetween(winningRoute, losingRoute) : "RuleOrder");
      return {
        ...(hostname !== undefined && { hostname }),
        match,
        winner: { kind: "rule", route: winningRoute?.key ?? "", rule: winner.entry.rule },
        decidedBy,
        extent,
      };
    });
  }

  #namespaceOfRoute(route: number): string {
    return namespaceOf(this.contest.routes[route]?.key ?? "");
  }
}

function isSameRule(a: PositionedEntry, b: PositionedEntry): boolean {
  return a.route === b.route && a.entry.rule === b.entry.rule;
}
