/**
 * Ranks the matches of routes and builds their `PathIndex`. Matches of one path are ranked by their conditions first,
 * then in the order in which they were added (Gateway API `HTTPRouteRule.matches`).
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import { comparedPerUnit } from "./conditions.ts";
import type { Pace } from "./pace.ts";
import { type Candidate, PathIndex, type Span } from "./path-index.ts";
import { conditionRank } from "./precedence.ts";
import { createNode, findOrCreateNode, type PrefixNode, unranked } from "./prefix-tree.ts";

export class PathIndexBuilder {
  /** By `conditionRank`. */
  readonly #byConditions = new Map<number, Candidate[]>();
  readonly #exact = new Map<string, Candidate[]>();
  /** By the length of the pattern. */
  readonly #regexes = new Map<number, Candidate[]>();
  /** Those that yield to prefixes, by the length of the pattern. */
  readonly #lateRegexes = new Map<number, Candidate[]>();
  readonly #root = createNode("");
  readonly #prefixes = new Map<PrefixNode, Candidate[]>();
  readonly #ranked: Candidate[] = [];
  readonly #pace: Pace;

  constructor(pace: Pace) {
    this.#pace = pace;
  }

  /** Adds a match. Matches must be added in the order of routes, of their rules, and of their matches. */
  add(candidate: Candidate): void {
    append(this.#byConditions, conditionRank(candidate.match), candidate);
  }

  /** Builds the index of all added matches. Must be called once, at the end. */
  *build(): Steps<PathIndex> {
    for (const rank of numbers(this.#byConditions.keys())) {
      for (const candidate of this.#byConditions.get(rank) ?? []) {
        this.#addToPath(candidate);
        if (this.#pace.endsStep(1 + candidate.match.path.value.length / comparedPerUnit)) yield;
      }
      this.#byConditions.delete(rank);
    }
    const exact = new Map<string, Span>();
    for (const [path, candidates] of this.#exact) {
      const from = this.#ranked.length;
      yield* this.#rank(candidates);
      exact.set(path, { from, to: this.#ranked.length });
    }
    const from = this.#ranked.length;
    yield* this.#rankRegexes(this.#regexes);
    const regexes = { from, to: this.#ranked.length };
    yield* this.#rankPrefixes();
    const lateRegexes = this.#ranked.length;
    yield* this.#rankRegexes(this.#lateRegexes);
    return new PathIndex({ candidates: this.#ranked, exact, regexes, lateRegexes, root: this.#root });
  }

  *#rankRegexes(byLength: ReadonlyMap<number, readonly Candidate[]>): Steps<void> {
    for (const length of numbers(byLength.keys()).reverse()) yield* this.#rank(byLength.get(length) ?? []);
  }

  #addToPath(candidate: Candidate): void {
    const { path } = candidate.match;
    const { kind, value } = path;
    switch (kind) {
      case "Exact":
        append(this.#exact, value, candidate);
        break;
      case "RegularExpression":
        append(path.yieldsToPrefixes === true ? this.#lateRegexes : this.#regexes, value.length, candidate);
        break;
      case "PathPrefix":
        append(this.#prefixes, findOrCreateNode(this.#root, value), candidate);
        break;
    }
  }

  *#rank(candidates: readonly Candidate[]): Steps<void> {
    for (const candidate of candidates) {
      this.#ranked.push(candidate);
      if (this.#pace.endsStep(1 / 4)) yield;
    }
  }

  /** Ranks the matches of each node before those of the nodes below it. */
  *#rankPrefixes(): Steps<void> {
    /** Nodes whose matches are not ranked yet, and nodes below which this is so. */
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
      // One call for each, because a node may have more children than the maximum number of arguments.
      for (const child of node.children?.values() ?? []) {
        open.push(child);
        if (this.#pace.endsStep(1 / 16)) yield;
      }
    }
  }
}

function append<Key, Value>(lists: Map<Key, Value[]>, key: Key, value: Value): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [value]);
  else list.push(value);
}

function numbers(keys: Iterable<number>): number[] {
  return [...keys].sort((a, b) => a - b);
}
