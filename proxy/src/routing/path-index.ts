/**
 * The matches of all routes by path, each with a rank: its place in an order in which the matches of every path follow each
 * other by precedence. Exact paths come first, by path; then regular expressions, longest first; then prefixes, in the
 * order in which a walk through the tree of their segments meets them. A set of routes, such as those of one hostname at
 * one listener, is a sorted list of ranks: four bytes for each match, whatever the match consists of.
 *
 * A request meets the matches of its hostname in their order of precedence: exact paths, regular expressions, prefixes
 * from the longest to the shortest. What that costs depends on the matches of this hostname alone: branches of the tree
 * that only others have are not entered. Each candidate and each branch is charged to the request's budget.
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
  /** Of a path that is a regular expression. */
  readonly pattern: Pattern | undefined;
  /** Place of its route among all routes, in their order of precedence. */
  readonly route: number;
  /** Place of its rule in the route, from 0. */
  readonly rule: number;
}

/** The matches of one set of routes. */
export interface MatchSet {
  /** Sorted. */
  readonly ranks: Uint32Array;
  /** Where those of regular expressions begin in `ranks`; those of exact paths come before. */
  readonly regexesFrom: number;
  /** Where those of prefixes begin. */
  readonly prefixesFrom: number;
}

/** Ranks from `from` up to, and without, `to`. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** For a candidate that is looked at, and for a branch that is tried. */
const unitsPerStep = 1;

/** The matches of all routes of a snapshot. `select` makes a set of them, and `find` searches in such a set. */
export class PathIndex {
  /** By rank. */
  readonly #candidates: readonly Candidate[];
  readonly #exact: ReadonlyMap<string, Span>;
  readonly #regexes: Span;
  readonly #root: PrefixNode;

  /** For `PathIndexBuilder`. */
  constructor(parts: {
    readonly candidates: readonly Candidate[];
    readonly exact: ReadonlyMap<string, Span>;
    readonly regexes: Span;
    readonly root: PrefixNode;
  }) {
    this.#candidates = parts.candidates;
    this.#exact = parts.exact;
    this.#regexes = parts.regexes;
    this.#root = parts.root;
  }

  /**
   * The matches of each of several sets of routes.
   *
   * @param sets places of routes, each once in a set.
   */
  *select(sets: readonly (readonly number[])[], pace: Pace): Steps<readonly MatchSet[]> {
    const sizes: number[] = [];
    for (const { route } of this.#candidates) {
      sizes[route] = (sizes[route] ?? 0) + 1;
      if (pace.isOver(1 / 8)) yield;
    }
    /** By place of a route: the lists that get its ranks. */
    const listsOf: RankList[][] = [];
    const lists: RankList[] = [];
    for (const routes of sets) {
      const list = { ranks: new Uint32Array(routes.reduce((sum, route) => sum + (sizes[route] ?? 0), 0)), size: 0 };
      lists.push(list);
      for (const route of routes) (listsOf[route] ??= []).push(list);
      if (pace.isOver(1 + routes.length / 4)) yield;
    }
    for (const [rank, { route }] of this.#candidates.entries()) {
      const takers = listsOf[route] ?? [];
      for (const list of takers) list.ranks[list.size++] = rank;
      if (pace.isOver((1 + takers.length) / 16)) yield;
    }
    return lists.map(({ ranks }) => {
      const regexesFrom = lowerBound(ranks, this.#regexes.from, 0, ranks.length);
      return { ranks, regexesFrom, prefixesFrom: lowerBound(ranks, this.#regexes.to, regexesFrom, ranks.length) };
    });
  }

  /** Finds the first match by precedence. Throws `BudgetExceeded` where the request's budget does not suffice. */
  find(matches: MatchSet, request: RequestReading): Candidate | undefined {
    const { ranks, regexesFrom, prefixesFrom } = matches;
    const { pathname, budget } = request;
    const exact = regexesFrom === 0 ? undefined : this.#exact.get(pathname);
    if (exact !== undefined) {
      const from = lowerBound(ranks, exact.from, 0, regexesFrom);
      const found = this.#firstSatisfied(ranks, from, lowerBound(ranks, exact.to, from, regexesFrom), request);
      if (found !== undefined) return found;
    }
    for (let at = regexesFrom; at < prefixesFrom; at++) {
      const candidate = this.#candidates[ranks[at] ?? 0];
      if (candidate === undefined || !isSatisfied(candidate, request)) continue;
      if (candidate.pattern?.test(pathname, budget) === true) return candidate;
    }
    // Only an absolute path has segments (`OPTIONS *` has none, and no prefix matches it).
    if (prefixesFrom === ranks.length || pathname.charCodeAt(0) !== 0x2f) return undefined;
    return this.#findPrefix(this.#root, 1, ranks, prefixesFrom, ranks.length, request);
  }

  /**
   * Finds the first match of the prefixes at `node` and below it, the longest first.
   *
   * @param start of the segment behind the node's prefix in the path; beyond its end where there is none.
   * @param from where the ranks of the node and of those below it begin in `ranks`, and `to` where they end.
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
        if (first < last && leadsOn(child, pathname, start, budget)) {
          const found = this.#findPrefix(child, start + child.label.length + 1, ranks, first, last, request);
          if (found !== undefined) return found;
        }
      }
    }
    return this.#firstSatisfied(ranks, from, below, request);
  }

  /** Of the matches at `from` up to `to` in `ranks`. */
  #firstSatisfied(ranks: Uint32Array, from: number, to: number, request: RequestReading): Candidate | undefined {
    for (let at = from; at < to; at++) {
      const candidate = this.#candidates[ranks[at] ?? 0];
      if (candidate !== undefined && isSatisfied(candidate, request)) return candidate;
    }
    return undefined;
  }
}

/** A list that is being filled. */
interface RankList {
  readonly ranks: Uint32Array;
  size: number;
}

/** Whether the path goes on with the segments of a node; of the first one that is known. */
function leadsOn({ label }: PrefixNode, pathname: string, start: number, budget: RequestReading["budget"]): boolean {
  budget.spend(label.length / comparedPerUnit);
  return hasSegments(pathname, start, label);
}

function isSatisfied({ conditions }: Candidate, request: RequestReading): boolean {
  request.budget.spend(unitsPerStep);
  return conditions === undefined || satisfies(request, conditions);
}

/** The place of the first rank that is `wanted` or more, among those at `from` up to `to`. */
function lowerBound(ranks: Uint32Array, wanted: number, from: number, to: number): number {
  if (from === to || (ranks[from] ?? 0) >= wanted) return from;
  let low = from + 1;
  let high = to;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ranks[middle] ?? 0) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}
