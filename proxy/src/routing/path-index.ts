/**
 * The matches of one listener by path, each with a rank: its place in an order in which the matches of every path follow
 * each other by precedence. Exact paths come first, by path; then regular expressions, longest first; then prefixes, in
 * the order in which a walk through the tree of their segments meets them. A hostname has a sorted list of ranks, so a
 * match takes four bytes for each hostname that it is for.
 *
 * A request meets the matches of its hostname in their order of precedence: exact paths, regular expressions, prefixes
 * from the longest to the shortest. What that costs depends on the matches of this hostname alone: branches of the tree
 * that only others have are not entered. Each candidate and each branch is charged to the request's budget.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Match } from "../ir/match.ts";
import { type Pattern, patternFor } from "../regex/pattern.ts";
import { comparedPerUnit, type Conditions, satisfies } from "./conditions.ts";
import type { Pace } from "./pace.ts";
import { conditionRank } from "./precedence.ts";
import type { RequestReading } from "./request-reading.ts";

/** A match, and what to return where it holds. */
export interface Candidate<T> {
  /** Its path is normalised. */
  readonly match: Match;
  readonly conditions: Conditions | undefined;
  /** Place of its route among those of the listener, in their order. */
  readonly route: number;
  readonly result: T;
}

/** The matches of one hostname, or of several that have the same routes. */
export interface HostMatches {
  /** Sorted. */
  readonly ranks: Uint32Array;
  /** Where those of regular expressions begin in `ranks`; those of exact paths come before. */
  readonly regexesFrom: number;
  /** Where those of prefixes begin. */
  readonly prefixesFrom: number;
}

/** Ranks from `from` up to, and without, `to`. */
interface Span {
  readonly from: number;
  readonly to: number;
}

/** A prefix, or what several have in common. */
interface PrefixNode {
  /** The segments that it has more than its parent, such as `a/b`; empty for the root. */
  label: string;
  /** By the first segment of their labels; absent on a leaf, which most nodes are. */
  children: Map<string, PrefixNode> | undefined;
  /** Ranks from `from` up to `to` are its own matches; up to `end`, those of the nodes below it. */
  from: number;
  to: number;
  end: number;
}

/** For a candidate that is looked at, and for a branch that is tried. */
const unitsPerStep = 1;

export class PathIndex<T> {
  /** By rank. */
  readonly #candidates: readonly Candidate<T>[];
  readonly #exact: ReadonlyMap<string, Span>;
  readonly #regexes: Span;
  /** By rank, from the first of `#regexes`. */
  readonly #patterns: readonly Pattern[];
  readonly #root: PrefixNode;

  /** For `PathIndexBuilder`. */
  constructor(parts: {
    readonly candidates: readonly Candidate<T>[];
    readonly exact: ReadonlyMap<string, Span>;
    readonly patterns: readonly Pattern[];
    readonly root: PrefixNode;
  }) {
    this.#candidates = parts.candidates;
    this.#exact = parts.exact;
    this.#patterns = parts.patterns;
    this.#root = parts.root;
    const to = parts.root.from;
    this.#regexes = { from: to - parts.patterns.length, to };
  }

  /**
   * The matches of each of several sets of routes.
   *
   * @param sets places of routes, each once in a set.
   */
  *select(sets: readonly (readonly number[])[], pace: Pace): Steps<readonly HostMatches[]> {
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
  find(matches: HostMatches, request: RequestReading): Candidate<T> | undefined {
    const { ranks, regexesFrom, prefixesFrom } = matches;
    const { pathname, budget } = request;
    const exact = regexesFrom === 0 ? undefined : this.#exact.get(pathname);
    if (exact !== undefined) {
      const from = lowerBound(ranks, exact.from, 0, regexesFrom);
      const found = this.#firstSatisfied(ranks, from, lowerBound(ranks, exact.to, from, regexesFrom), request);
      if (found !== undefined) return found;
    }
    for (let at = regexesFrom; at < prefixesFrom; at++) {
      const rank = ranks[at] ?? 0;
      const candidate = this.#candidates[rank];
      const pattern = this.#patterns[rank - this.#regexes.from];
      if (candidate === undefined || !isSatisfied(candidate, request)) continue;
      if (pattern?.test(pathname, budget) === true) return candidate;
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
  ): Candidate<T> | undefined {
    const { pathname, budget } = request;
    const below = lowerBound(ranks, node.to, from, to);
    if (below < to && start <= pathname.length) {
      budget.spend(unitsPerStep);
      const child = node.children?.get(segmentAt(pathname, start));
      if (child !== undefined) {
        const first = lowerBound(ranks, child.from, below, to);
        const last = lowerBound(ranks, child.end, first, to);
        if (first < last && hasSegments(pathname, start, child.label, budget)) {
          const found = this.#findPrefix(child, start + child.label.length + 1, ranks, first, last, request);
          if (found !== undefined) return found;
        }
      }
    }
    return this.#firstSatisfied(ranks, from, below, request);
  }

  /** Of the matches at `from` up to `to` in `ranks`. */
  #firstSatisfied(ranks: Uint32Array, from: number, to: number, request: RequestReading): Candidate<T> | undefined {
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

/** Takes the matches of a listener, and ranks them. */
export class PathIndexBuilder<T> {
  /** By `conditionRank`. */
  readonly #byConditions = new Map<number, Candidate<T>[]>();
  readonly #exact = new Map<string, Candidate<T>[]>();
  /** By the length of the pattern. */
  readonly #regexes = new Map<number, Candidate<T>[]>();
  readonly #root = createNode("");
  readonly #prefixes = new Map<PrefixNode, Candidate<T>[]>();
  readonly #ranked: Candidate<T>[] = [];
  readonly #pace: Pace;

  constructor(pace: Pace) {
    this.#pace = pace;
  }

  /** Adds a match; to be called in the order of routes, of their rules, and of their matches. */
  add(candidate: Candidate<T>): void {
    append(this.#byConditions, conditionRank(candidate.match), candidate);
  }

  /** To be called once, at the end. */
  *build(): Steps<PathIndex<T>> {
    for (const rank of numbers(this.#byConditions.keys())) {
      for (const candidate of this.#byConditions.get(rank) ?? []) {
        this.#place(candidate);
        if (this.#pace.isOver(1 + candidate.match.path.value.length / comparedPerUnit)) yield;
      }
      this.#byConditions.delete(rank);
    }
    const exact = new Map<string, Span>();
    for (const [path, sharing] of this.#exact) {
      const from = this.#ranked.length;
      yield* this.#rank(sharing);
      exact.set(path, { from, to: this.#ranked.length });
    }
    const patterns: Pattern[] = [];
    for (const length of numbers(this.#regexes.keys()).reverse()) {
      const sharing = this.#regexes.get(length) ?? [];
      yield* this.#rank(sharing);
      for (const { match } of sharing) patterns.push(patternFor(match.path.value, "whole"));
    }
    yield* this.#rankPrefixes();
    return new PathIndex({ candidates: this.#ranked, exact, patterns, root: this.#root });
  }

  #place(candidate: Candidate<T>): void {
    const { kind, value } = candidate.match.path;
    switch (kind) {
      case "Exact":
        append(this.#exact, value, candidate);
        break;
      case "RegularExpression":
        append(this.#regexes, value.length, candidate);
        break;
      case "PathPrefix":
        append(this.#prefixes, growTo(this.#root, value), candidate);
        break;
    }
  }

  *#rank(candidates: readonly Candidate<T>[]): Steps<void> {
    for (const candidate of candidates) {
      this.#ranked.push(candidate);
      if (this.#pace.isOver(1 / 4)) yield;
    }
  }

  /** A node before those below it. */
  *#rankPrefixes(): Steps<void> {
    /** Nodes that are to be entered, and those that are entered and not left. */
    const open = [this.#root];
    for (let node = open.pop(); node !== undefined; node = open.pop()) {
      if (node.end !== unranked) continue;
      if (node.from !== unranked) {
        node.end = this.#ranked.length;
        continue;
      }
      node.from = this.#ranked.length;
      yield* this.#rank(this.#prefixes.get(node) ?? []);
      node.to = this.#ranked.length;
      open.push(node);
      // One at a time: a node may have more children than a call takes arguments.
      for (const child of node.children?.values() ?? []) {
        open.push(child);
        if (this.#pace.isOver(1 / 16)) yield;
      }
    }
  }
}

/** Of a node that has no ranks yet. */
const unranked = -1;

function createNode(label: string): PrefixNode {
  return { label, children: undefined, from: unranked, to: unranked, end: unranked };
}

/** The node of a prefix such as `/`, `/a` or `/a/b`, made where it is missing. */
function growTo(root: PrefixNode, prefix: string): PrefixNode {
  if (prefix === "/") return root;
  let node = root;
  for (let start = 1; start <= prefix.length; ) {
    const segment = segmentAt(prefix, start);
    const child = node.children?.get(segment);
    if (child === undefined) return addChild(node, segment, createNode(prefix.slice(start)));
    const common = commonLength(child.label, prefix, start);
    node = common === child.label.length ? child : split(node, segment, child, common);
    start += common + 1;
  }
  return node;
}

function addChild(node: PrefixNode, segment: string, child: PrefixNode): PrefixNode {
  node.children ??= new Map();
  node.children.set(segment, child);
  return child;
}

/** Puts a node for the first `length` characters of a child's label between the two. */
function split(parent: PrefixNode, segment: string, child: PrefixNode, length: number): PrefixNode {
  const upper = addChild(parent, segment, createNode(child.label.slice(0, length)));
  child.label = child.label.slice(length + 1);
  addChild(upper, segmentAt(child.label, 0), child);
  return upper;
}

/** How many characters of `label` come at `start` of `prefix`, in whole segments. The first segment does. */
function commonLength(label: string, prefix: string, start: number): number {
  const longest = Math.min(label.length, prefix.length - start);
  let length = 0;
  while (length < longest && label.charCodeAt(length) === prefix.charCodeAt(start + length)) length++;
  const endsInBoth = endsSegment(label, length) && endsSegment(prefix, start + length);
  return endsInBoth ? length : label.lastIndexOf("/", length - 1);
}

function endsSegment(path: string, at: number): boolean {
  return at === path.length || path.charCodeAt(at) === 0x2f;
}

function segmentAt(path: string, start: number): string {
  const slash = path.indexOf("/", start);
  return path.slice(start, slash === -1 ? undefined : slash);
}

/** Whether the segments of `label` come at `start` of a path of which the first is known to. */
function hasSegments(path: string, start: number, label: string, budget: RequestReading["budget"]): boolean {
  budget.spend(label.length / comparedPerUnit);
  return path.startsWith(label, start) && endsSegment(path, start + label.length);
}

function isSatisfied<T>({ conditions }: Candidate<T>, request: RequestReading): boolean {
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

function append<Key, Value>(lists: Map<Key, Value[]>, key: Key, value: Value): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [value]);
  else list.push(value);
}

function numbers(keys: Iterable<number>): number[] {
  return [...keys].sort((a, b) => a - b);
}
