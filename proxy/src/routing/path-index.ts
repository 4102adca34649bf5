/**
 * The matches of routes by path. Each match has a rank: its position in an order in which the matches of each path are
 * sorted by precedence. Exact paths come first, by path; then regular expressions, the longest first; then prefixes, in
 * depth-first order of the tree of their segments; then regular expressions that yield to prefixes. A set of routes,
 * such as those of one hostname at one listener, is a sorted list of ranks, which takes four bytes for each match.
 *
 * A search tries the matches of the hostname of the request in their order of precedence: exact paths, regular
 * expressions, prefixes from the longest to the shortest, with the expressions that yield to prefixes before the prefix
 * `/`. Its cost depends on the matches of this hostname alone: it does not enter branches of the tree that have matches
 * of other hostnames only. Each candidate and each branch is charged to the request's budget.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Match } from "../ir/match.ts";
import type { Pattern } from "../regex/pattern.ts";
import { comparedPerUnit, type Conditions, satisfies } from "./conditions.ts";
import type { Pace } from "./pace.ts";
import { hasSegments, type PrefixNode, segmentAt } from "./prefix-tree.ts";
import type { RequestReading } from "./request-reading.ts";

/** A match of a rule. */
export interface Candidate {
  /** Its path is normalised. */
  readonly match: Match;
  readonly conditions: Conditions | undefined;
  /** The compiled path if it is a regular expression. */
  readonly pattern: Pattern | undefined;
  /** Position of its route among the routes of the index, in their order of precedence. */
  readonly route: number;
  /** Index of its rule in the route. */
  readonly rule: number;
}

/** The matches of one set of routes. */
export interface MatchSet {
  /** Sorted. */
  readonly ranks: Uint32Array;
  /** The index in `ranks` of the first rank of a regular expression; the ranks of exact paths are before it. */
  readonly regexesFrom: number;
  /** The index in `ranks` of the first rank of a prefix. */
  readonly prefixesFrom: number;
  /** The index in `ranks` of the first rank of a regular expression that yields to prefixes. */
  readonly lateFrom: number;
}

/** Ranks from `from` up to `to`, which is excluded. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** Units to check one candidate, or to try one branch. */
const unitsPerStep = 1;

/** The matches of several routes. `select` creates a set of them, and `find` searches in such a set. */
export class PathIndex {
  /** By rank. */
  readonly #candidates: readonly Candidate[];
  readonly #exact: ReadonlyMap<string, Span>;
  readonly #regexes: Span;
  /** The first rank of the expressions that yield to prefixes. */
  readonly #lateRegexes: number;
  readonly #root: PrefixNode;

  /** Only `PathIndexBuilder` calls this. */
  constructor(parts: {
    readonly candidates: readonly Candidate[];
    readonly exact: ReadonlyMap<string, Span>;
    readonly regexes: Span;
    readonly lateRegexes: number;
    readonly root: PrefixNode;
  }) {
    this.#candidates = parts.candidates;
    this.#exact = parts.exact;
    this.#regexes = parts.regexes;
    this.#lateRegexes = parts.lateRegexes;
    this.#root = parts.root;
  }

  /**
   * Returns the matches of each of several sets of routes.
   *
   * @param sets positions of routes, without duplicates within a set.
   */
  *select(sets: readonly (readonly number[])[], pace: Pace): Steps<readonly MatchSet[]> {
    const sizes: number[] = [];
    for (const { route } of this.#candidates) {
      sizes[route] = (sizes[route] ?? 0) + 1;
      if (pace.endsStep(1 / 8)) yield;
    }
    /** The lists that get the ranks of a route, by the position of the route. */
    const listsOf: RankList[][] = [];
    const lists: RankList[] = [];
    for (const routes of sets) {
      const list = { ranks: new Uint32Array(routes.reduce((sum, route) => sum + (sizes[route] ?? 0), 0)), size: 0 };
      lists.push(list);
      for (const route of routes) (listsOf[route] ??= []).push(list);
      if (pace.endsStep(1 + routes.length / 4)) yield;
    }
    for (const [rank, { route }] of this.#candidates.entries()) {
      const targets = listsOf[route] ?? [];
      for (const list of targets) list.ranks[list.size++] = rank;
      if (pace.endsStep((1 + targets.length) / 16)) yield;
    }
    return lists.map(({ ranks }) => {
      const regexesFrom = lowerBound(ranks, this.#regexes.from, 0, ranks.length);
      const prefixesFrom = lowerBound(ranks, this.#regexes.to, regexesFrom, ranks.length);
      const lateFrom = lowerBound(ranks, this.#lateRegexes, prefixesFrom, ranks.length);
      return { ranks, regexesFrom, prefixesFrom, lateFrom };
    });
  }

  /** Finds the first match by precedence. Throws `BudgetExceeded` if the budget of the request does not suffice. */
  find(matches: MatchSet, request: RequestReading): Candidate | undefined {
    const { ranks, regexesFrom, prefixesFrom, lateFrom } = matches;
    const { pathname } = request;
    const exact = regexesFrom === 0 ? undefined : this.#exact.get(pathname);
    if (exact !== undefined) {
      const from = lowerBound(ranks, exact.from, 0, regexesFrom);
      const found = this.#firstSatisfied(ranks, from, lowerBound(ranks, exact.to, from, regexesFrom), request);
      if (found !== undefined) return found;
    }
    const matched = this.#firstMatched(ranks, regexesFrom, prefixesFrom, request);
    if (matched !== undefined) return matched;
    // Only an absolute path has segments (`OPTIONS *` has none, and no prefix matches it).
    const hasPrefixes = prefixesFrom < lateFrom && pathname.charCodeAt(0) === 0x2f;
    const found = hasPrefixes ? this.#findPrefix(this.#root, 1, ranks, prefixesFrom, lateFrom, request) : undefined;
    if (lateFrom === ranks.length || (found !== undefined && found.match.path.value !== "/")) return found;
    return this.#firstMatched(ranks, lateFrom, ranks.length, request) ?? found;
  }

  /** Returns the first regular expression that matches among those at `from` up to `to` in `ranks`. */
  #firstMatched(ranks: Uint32Array, from: number, to: number, request: RequestReading): Candidate | undefined {
    for (let at = from; at < to; at++) {
      const candidate = this.#candidates[ranks[at] ?? 0];
      if (candidate === undefined || !isSatisfied(candidate, request)) continue;
      if (candidate.pattern?.test(request.pathname, request.budget) === true) return candidate;
    }
    return undefined;
  }

  /**
   * Finds the first match of the prefixes at `node` and below it, the longest first.
   *
   * @param start the start of the segment after the node's prefix in the path; beyond its end if there is none.
   * @param from the index in `ranks` of the first rank of the node and of the nodes below it.
   * @param to the index after their last rank.
   */
  #findPrefix(
    node: PrefixNode,
    start: number,
    ranks: Uint32Array,
    from: number,
    to: number,
    request: RequestReading,
  ): Candidate | undefined {
    const { pathname, budget } = request;
    const below = lowerBound(ranks, node.to, from, to);
    if (below < to && start <= pathname.length) {
      budget.spend(unitsPerStep);
      const child = node.children?.get(segmentAt(pathname, start));
      if (child !== undefined) {
        const first = lowerBound(ranks, child.from, below, to);
        const last = lowerBound(ranks, child.end, first, to);
        if (first < last && continuesWith(child, pathname, start, budget)) {
          const found = this.#findPrefix(child, start + child.label.length + 1, ranks, first, last, request);
          if (found !== undefined) return found;
        }
      }
    }
    return this.#firstSatisfied(ranks, from, below, request);
  }

  /** Returns the first match that holds among those at `from` up to `to` in `ranks`. */
  #firstSatisfied(ranks: Uint32Array, from: number, to: number, request: RequestReading): Candidate | undefined {
    for (let at = from; at < to; at++) {
      const candidate = this.#candidates[ranks[at] ?? 0];
      if (candidate !== undefined && isSatisfied(candidate, request)) return candidate;
    }
    return undefined;
  }
}

/** A list of ranks that is not complete yet. */
interface RankList {
  readonly ranks: Uint32Array;
  size: number;
}

/** Whether the path continues at `start` with the segments of a node. Its first segment was compared before. */
function continuesWith(
  { label }: PrefixNode,
  pathname: string,
  start: number,
  budget: RequestReading["budget"],
): boolean {
  budget.spend(label.length / comparedPerUnit);
  return hasSegments(pathname, start, label);
}

function isSatisfied({ conditions }: Candidate, request: RequestReading): boolean {
  request.budget.spend(unitsPerStep);
  return conditions === undefined || satisfies(request, conditions);
}

/** Returns the index of the first rank that is at least `minRank`, among those at `from` up to `to`. */
function lowerBound(ranks: Uint32Array, minRank: number, from: number, to: number): number {
  if (from === to || (ranks[from] ?? 0) >= minRank) return from;
  let low = from + 1;
  let high = to;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ranks[middle] ?? 0) < minRank) low = middle + 1;
    else high = middle;
  }
  return low;
}
