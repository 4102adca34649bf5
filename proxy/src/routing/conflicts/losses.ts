/** The conflicts of one contest. Only rules and routes with a conflict take memory, and the budget bounds how much. */
import { type Allowance, namespaceOf } from "./budget.ts";
import type { Contest } from "./contest.ts";
import { type Conflict, type ListenerConflicts, maxWinners, type RuleReach } from "./findings.ts";

/** A rule, by the place of its route and its own index. */
export interface RulePlace {
  readonly route: number;
  readonly rule: number;
}

/** Greater than the number of rules that a route can have. */
const rulesPerRoute = 2 ** 16;

/** The winners over one rule, or over all rules of one route. */
class Winners<Id> {
  /** For a rule: its matches without requests, summed over groups. For a route: groups in which it gets no request. */
  lost = 0;
  /** At most `maxWinners`. */
  readonly conflicts: Conflict[] = [];
  /** The id of the winner of each conflict, in the same order. */
  readonly #ids: Id[] = [];
  #others: Set<Id> | undefined;

  get leftOut(): number {
    return this.#others?.size ?? 0;
  }

  /** Whether the winner is known already, with at least this extent. */
  has(id: Id, extent: Conflict["extent"]): boolean {
    const known = this.conflicts[this.#ids.indexOf(id)];
    return known === undefined ? this.#others?.has(id) === true : known.extent === "Whole" || extent === "Overlap";
  }

  /** @param describe makes the conflict; not called if `maxWinners` others are stored. */
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

/** The conflicts of a contest, by the route that gets fewer requests than it asks for. */
export class Losses implements ListenerConflicts {
  readonly #contest: Contest;
  readonly #kept: Allowance;
  /** By place of the route, then by index of the rule. */
  readonly #ofRules = new Map<number, Map<number, Winners<number>>>();
  /** By place of the route. The winners are listeners, identified by their keys. */
  readonly #ofRoutes = new Map<number, Winners<string>>();
  /** Places of the routes that have a conflict, by their keys. */
  readonly #places = new Map<string, number>();

  constructor(contest: Contest, kept: Allowance) {
    this.#contest = contest;
    this.#kept = kept;
  }

  get isEmpty(): boolean {
    return this.#places.size === 0;
  }

  get losers(): Iterable<string> {
    return this.#places.keys();
  }

  /** Records that a match loses to another rule: all of its requests in one group, or those that match both. */
  recordLostMatch(loser: RulePlace, winner: RulePlace, extent: Conflict["extent"], describe: () => Conflict): void {
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

  /** @returns undefined if there was nothing before and the budget does not allow to store more. */
  #add<Id>(
    known: Winners<Id> | undefined,
    route: number,
    [id, extent]: readonly [Id, Conflict["extent"]],
    describe: () => Conflict,
  ): Winners<Id> | undefined {
    if (known?.has(id, extent) === true) return known;
    const { key } = this.#contest.routes[route] ?? { key: "" };
    if (!this.#kept.spend(namespaceOf(key), 1)) return known;
    const winners = known ?? new Winners<Id>();
    winners.add(id, describe);
    this.#places.set(key, route);
    return winners;
  }

  reachesOf(route: string): readonly RuleReach[] | undefined {
    const place = this.#places.get(route);
    if (place === undefined) return undefined;
    const hosts = this.#ofRoutes.get(place);
    const ofRules = this.#ofRules.get(place);
    const groups = this.#contest.groupCounts[place] ?? 0;
    return this.#contest.routes[place]?.rules.map(({ matches }, rule): RuleReach => {
      const own = ofRules?.get(rule);
      if (hosts === undefined && own === undefined) return { isReachable: true, conflicts: [], leftOut: 0 };
      const lost = (own?.lost ?? 0) + matches.length * (hosts?.lost ?? 0);
      const winners = [...(hosts?.conflicts ?? []), ...(own?.conflicts ?? [])];
      const conflicts = winners.slice(0, maxWinners);
      const leftOut = winners.length - conflicts.length + (own?.leftOut ?? 0) + (hosts?.leftOut ?? 0);
      return { isReachable: lost < matches.length * groups, conflicts, leftOut };
    });
  }
}
