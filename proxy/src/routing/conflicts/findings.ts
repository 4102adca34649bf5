/** What the search for route conflicts reads, and what it finds. */
import type { Match } from "../../ir/match.ts";
import type { Listener, Route } from "../../ir/snapshot.ts";

/** A route as a listener has it. */
export interface ConflictRoute extends Pick<Route, "key" | "creationTimestamp" | "hostnames"> {
  readonly rules: readonly { readonly matches: readonly Match[] }[];
}

export interface ConflictListener extends Pick<Listener, "key" | "hostname"> {
  /** Names of the socket addresses that it is served at. Listeners of one address share its requests by hostname. */
  readonly sockets: readonly string[];
  readonly routes: readonly ConflictRoute[];
}

/** Requests that a rule does not get at one listener, and who gets them. */
export interface Conflict {
  /** Hosts of the requests; absent: all of the listener. */
  readonly hostname?: string;
  /** Place of the match in its rule, from 0; absent: all of them. */
  readonly match?: number;
  readonly winner: Winner;
  readonly decidedBy: Decision;
  /** Whole: all requests of the match at these hosts. Overlap: those that the winner's match holds for, too. */
  readonly extent: "Whole" | "Overlap";
}

/**
 * What puts the winner first: another listener's or its own more specific hostname, its age, its name, or its place among
 * the rules of one route. No other step of the order of precedence can decide a conflict.
 */
export type Decision = "Listener" | "Hostname" | "Age" | "Name" | "RuleOrder";

/** A rule, by its place in its route, or another listener that has the hosts. */
export type Winner =
  | { readonly kind: "rule"; readonly route: string; readonly rule: number }
  | { readonly kind: "listener"; readonly listener: string };

/** How a rule fares at one listener. */
export interface RuleReach {
  /** False: no request can reach the rule there. */
  readonly isReachable: boolean;
  /** Each winner once, at most `maxWinners` of them. */
  readonly conflicts: readonly Conflict[];
  /** How many winners are not among them. */
  readonly leftOut: number;
}

/** What the routes of a listener lose there. Listeners at which the same routes compete have the same object. */
export interface ListenerConflicts {
  /** Keys of the routes that lose requests. */
  readonly losers: Iterable<string>;

  /** One for each rule of a route; undefined for a route that loses nothing. Made anew at each call. */
  reachesOf(route: string): readonly RuleReach[] | undefined;
}

export interface FoundConflicts {
  /** By key of the listener; without the listeners that have no conflict. */
  readonly byListener: ReadonlyMap<string, ListenerConflicts>;
  /** Hostnames, over all listeners, at which some routes were not compared or some losses not kept: see `budget.ts`. */
  readonly unexamined: number;
}

/** Of one rule at one listener. */
export const maxWinners = 4;
