/** The conflicts of one contest. Only rules and routes with a conflict take memory, which the budget bounds. */
import { namespaceOf, type Purse } from "./budget.ts";
import type { Contest } from "./contest.ts";
import { type Conflict, type ListenerConflicts, maxWinners, type RuleReach } from "./findings.ts";

/** A rule, identified by the position of its route and by its index in the route. */
export interface RulePosition {
  readonly route: number;
  readonly rule: number;
}

/** Greater than the number of rules that a route can have. */
const rulesPerRoute = 2 ** 16;

/** The winners that take requests from one rule, or from all rules of one route. */
class Winners<Id> {
  /**
   * For a rule: the number of its matches without requests, summed over groups. For a route: the number of groups in
   * which it gets no request.
   */
  lost = 0;
  /** At most `maxWinners`. */
  readonly conflicts: Conflict[] = [];
  /** The id of the winner of each conflict, in the same order. */
  readonly #ids: Id[] = [];
  #others: Set<Id> | undefined;

  get leftOut(): number {
    return this.#others?.size ?? 0;
  }

  /** Whether the winner is recorded, with at least this extent. */
  has(id: Id, extent: Conflict["extent"]): boolean {
    const recorded = this.conflicts[this.#ids.indexOf(id)];
    return recorded === undefined
      ? this.#others?.has(id) === true
      : recorded.extent === "Whole" || extent === "Overlap";
  }

  /** @param describe creates the conflict; not called if `maxWinners` others are stored. */
  add(id: Id, describe: () => Conflict): void {
    const at = this.#ids.indexOf(id);
    if (at !== -1) {
      this.conflicts[at] = describe();
    } else if (this.#ids.length < maxWinners) {
      this.#ids.push(id);
      this.conflicts.push(describe());
    } else {
      this.#others ??= new Set();
      this.#others.add(id);
    }
  }
}

/** The conflicts of a contest, by the route that loses requests. */
export class Losses implements ListenerConflicts {
  readonly #contest: Contest;
  readonly #stored: Purse;
  /** By position of the route, then by index of the rule. */
  readonly #ofRules = new Map<number, Map<number, Winners<number>>>();
  /** By position of the route. The winners are listeners, identified by their keys. */
  readonly #ofRoutes = new Map<number, Winners<string>>();
  /** Positions of the routes that have a conflict, by their keys. */
  readonly #positions = new Map<string, number>();

  constructor(contest: Contest, stored: Purse) {
    this.#contest = contest;
    this.#stored = stored;
  }

  get isEmpty(): boolean {
    return this.#positions.size === 0;
  }

  get losers(): Iterable<string> {
    return this.#positions.keys();
  }

  /** Records that a match loses to another rule: all of its requests in one group, or those that match both. */
  recordLostMatch(
    loser: RulePosition,
    winner: RulePosition,
    extent: Conflict["extent"],
    describe: () => Conflict,
  ): void {
    const ofRoute = this.#ofRules.get(loser.route);
    const winners = this.#add(
      ofRoute?.get(loser.rule),
      loser.route,
      [rulesPerRoute * winner.route + winner.rule, extent],
      describe,
    );
    if (winners === undefined) return;
    if (extent === "Whole") winners.lost++;
    if (ofRoute === undefined) this.#ofRules.set(loser.route, new Map([[loser.rule, winners]]));
    else ofRoute.set(loser.rule, winners);
  }

  /** Records that all rules of a route lose the hostnames of one group to another listener. */
  recordLostHostname(route: number, hostOwner: string, describe: () => Conflict): void {
    const winners = this.#add(this.#ofRoutes.get(route), route, [hostOwner, "Whole"], describe);
    if (winners === undefined) return;
    winners.lost++;
    this.#ofRoutes.set(route, winners);
  }

  /** @returns undefined if `existing` is undefined and the budget does not allow to store more. */
  #add<Id>(
    existing: Winners<Id> | undefined,
    route: number,
    [id, extent]: readonly [Id, Conflict["extent"]],
    describe: () => Conflict,
  ): Winners<Id> | undefined {
    if (existing?.has(id, extent) === true) return existing;
    const { key } = this.#contest.routes[route] ?? { key: "" };
    if (!this.#stored.spend(namespaceOf(key), 1)) return existing;
    const winners = existing ?? new Winners<Id>();
    winners.add(id, describe);
    this.#positions.set(key, route);
    return winners;
  }

  reachesOf(route: string): readonly RuleReach[] | undefined {
    const position = this.#positions.get(route);
    if (position === undefined) return undefined;
    const winnersOfRoute = this.#ofRoutes.get(position);
    const ofRules = this.#ofRules.get(position);
    const groups = this.#contest.groupCounts[position] ?? 0;
    return this.#contest.routes[position]?.rules.map(({ matches }, rule): RuleReach => {
      const winnersOfRule = ofRules?.get(rule);
      if (winnersOfRoute === undefined && winnersOfRule === undefined) {
        return { isReachable: true, conflicts: [], leftOut: 0 };
      }
      const lost = (winnersOfRule?.lost ?? 0) + matches.length * (winnersOfRoute?.lost ?? 0);
      const winners = [...(winnersOfRoute?.conflicts ?? []), ...(winnersOfRule?.conflicts ?? [])];
      const conflicts = winners.slice(0, maxWinners);
      const leftOut =
        winners.length - conflicts.length + (winnersOfRule?.leftOut ?? 0) + (winnersOfRoute?.leftOut ?? 0);
      return { isReachable: lost < matches.length * groups, conflicts, leftOut };
    });
  }
}
