/** What the routes of one contest have lost so far. Only losses take memory, and each is paid for from the budget. */
import { type Allowance, namespaceOf } from "./budget.ts";
import type { Contest } from "./contest.ts";
import { type Conflict, type ListenerConflicts, maxWinners, type RuleReach } from "./findings.ts";

/** A rule of a route, both by their places. */
export interface RulePlace {
  readonly route: number;
  readonly rule: number;
}

/** More than a route has of rules. */
const manyRules = 2 ** 16;

/** Who wins requests of one rule, or of all rules of one route. */
class Winners<Id> {
  /** Matches of a rule, each once per group; of a route, groups. */
  lost = 0;
  /** At most `maxWinners`. */
  readonly conflicts: Conflict[] = [];
  /** Of the winner of each conflict. */
  readonly #ids: Id[] = [];
  #others: Set<Id> | undefined;

  get leftOut(): number {
    return this.#others?.size ?? 0;
  }

  /** Whether a conflict with the winner would change nothing. */
  has(id: Id, extent: Conflict["extent"]): boolean {
    const known = this.conflicts[this.#ids.indexOf(id)];
    return known === undefined ? this.#others?.has(id) === true : known.extent === "Whole" || extent === "Overlap";
  }

  /** @param describe is not called where there are enough others. */
  add(id: Id, describe: () => Conflict): void {
    const at = this.#ids.indexOf(id);
    if (at !== -1) this.conflicts[at] = describe();
    else if (this.#ids.length < maxWinners) {
      this.#ids.push(id);
      this.conflicts.push(describe());
    } else {
      this.#others ??= new Set();
      this.#others.add(id);
    }
  }
}

export class Losses implements ListenerConflicts {
  readonly #contest: Contest;
  readonly #kept: Allowance;
  /** By place of the route, then of the rule. */
  readonly #ofRules = new Map<number, Map<number, Winners<number>>>();
  /** By place of the route; the ids are keys of listeners. */
  readonly #ofRoutes = new Map<number, Winners<string>>();
  /** Places of the routes that have lost something, by their key. */
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

  /** A match of a rule loses to another rule: all of its requests at a hostname, or those that both match. */
  loseMatch(loser: RulePlace, winner: RulePlace, extent: Conflict["extent"], describe: () => Conflict): void {
    const ofRoute = this.#ofRules.get(loser.route);
    const winners = this.#add(
      ofRoute?.get(loser.rule),
      loser.route,
      [manyRules * winner.route + winner.rule, extent],
      describe,
    );
    if (winners === undefined) return;
    if (extent === "Whole") winners.lost++;
    if (ofRoute === undefined) this.#ofRules.set(loser.route, new Map([[loser.rule, winners]]));
    else ofRoute.set(loser.rule, winners);
  }

  /** A route loses a hostname to another listener, with all of its rules. */
  loseHostname(route: number, taker: string, describe: () => Conflict): void {
    const winners = this.#add(this.#ofRoutes.get(route), route, [taker, "Whole"], describe);
    if (winners === undefined) return;
    winners.lost++;
    this.#ofRoutes.set(route, winners);
  }

  /** @returns undefined where nothing is known and nothing more may be kept. */
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
