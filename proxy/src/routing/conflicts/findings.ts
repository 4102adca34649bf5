/** The input and the result of the search for route conflicts. */
import type { Match } from "../../ir/match.ts";
import type { Listener, Route } from "../../ir/snapshot.ts";

/** A route at one listener, with the hostnames that it has there. */
export interface ConflictRoute extends Pick<Route, "key" | "creationTimestamp" | "hostnames"> {
  readonly rules: readonly { readonly matches: readonly Match[] }[];
}

/** A listener with its attached routes. */
export interface ConflictListener extends Pick<Listener, "key" | "hostname"> {
  /** The socket addresses of the listener. Listeners with the same address divide its requests by hostname. */
  readonly sockets: readonly string[];
  readonly routes: readonly ConflictRoute[];
}

/** Requests that match a rule at one listener but go to another rule or listener, the winner. */
export interface Conflict {
  /** Hostname of the requests; absent: every hostname of the listener. */
  readonly hostname?: string;
  /** Index of the match in its rule; absent: every match. */
  readonly match?: number;
  readonly winner: Winner;
  readonly decidedBy: Decision;
  /** Whole: all requests of the match at the hostname. Overlap: only those that also match the winner. */
  readonly extent: "Whole" | "Overlap";
}

/**
 * Why the winner precedes: a more specific hostname of another listener (`Listener`) or of its own route (`Hostname`),
 * an older route (`Age`), a route whose name sorts first (`Name`), or an earlier rule of the same route (`RuleOrder`).
 * The other criteria of precedence decide between matches that differ, which is no conflict.
 */
export type Decision = "Listener" | "Hostname" | "Age" | "Name" | "RuleOrder";

/** A rule, by its index in its route, or another listener that owns the hostname. */
export type Winner =
  | { readonly kind: "rule"; readonly route: string; readonly rule: number }
  | { readonly kind: "listener"; readonly listener: string };

/** Whether requests reach a rule at one listener, and its conflicts there. */
export interface RuleReach {
  /** False if no request can reach the rule. */
  readonly isReachable: boolean;
  /** One conflict for each winner, at most `maxWinners`. */
  readonly conflicts: readonly Conflict[];
  /** The number of winners that are not in `conflicts`. */
  readonly leftOut: number;
}

/** The conflicts of one listener. Listeners that share a contest have the same object. */
export interface ListenerConflicts {
  /** Keys of the routes that have a conflict. */
  readonly losers: Iterable<string>;

  /** One item for each rule of a route; undefined if the route has no conflict. Computed at each call. */
  reachesOf(route: string): readonly RuleReach[] | undefined;
}

/** The conflicts of all listeners. */
export interface FoundConflicts {
  /** By key of the listener. Listeners without a conflict are absent. */
  readonly byListener: ReadonlyMap<string, ListenerConflicts>;
  /**
   * The number of hostnames, summed over all listeners, for which the budget was too small to compare all routes and
   * store all conflicts.
   */
  readonly unexamined: number;
}

/** Conflicts that are stored for one rule at one listener. */
export const maxWinners = 4;
