/**
 * The matches of one host, laid out so that a request meets them in their order of precedence: exact paths by a map,
 * then regular expressions one after the other, then prefixes by a tree of path segments, deepest first. A path of a thousand
 * segments walks only as deep as a prefix does. Each candidate and each segment is charged to the request's budget.
 */
import type { PathMatch } from "../ir/match.ts";
import { type Pattern, patternFor } from "../regex/pattern.ts";
import { satisfies, type Conditions } from "./conditions.ts";
import type { RequestReading } from "./request-reading.ts";

/** For a candidate that is looked at, and for a segment that is walked. */
const unitsPerStep = 1;

/** What to return when the path and the conditions hold. Several indexes may share one. */
export interface Candidate<T> {
  readonly conditions: Conditions | undefined;
  readonly result: T;
}

interface PrefixNode<T> {
  readonly parent: PrefixNode<T> | undefined;
  /** By the next path segment; absent on a leaf, which most nodes are. */
  children: Map<string, PrefixNode<T>> | undefined;
  readonly candidates: Candidate<T>[];
}

export class PathIndex<T> {
  readonly #exact = new Map<string, Candidate<T>[]>();
  readonly #regexes: { readonly pattern: Pattern; readonly candidate: Candidate<T> }[] = [];
  readonly #root: PrefixNode<T> = createNode(undefined);

  /** Adds a match; to be called in order of precedence. */
  add({ kind, value }: PathMatch, candidate: Candidate<T>): void {
    switch (kind) {
      case "Exact": {
        const sharing = this.#exact.get(value);
        if (sharing === undefined) this.#exact.set(value, [candidate]);
        else sharing.push(candidate);
        break;
      }
      case "RegularExpression":
        this.#regexes.push({ pattern: patternFor(value, "whole"), candidate });
        break;
      case "PathPrefix":
        growTo(this.#root, value).candidates.push(candidate);
        break;
    }
  }

  /** Finds the first match by precedence. Throws `BudgetExceeded` where the request's budget does not suffice. */
  find(request: RequestReading): T | undefined {
    const { pathname, budget } = request;
    if (this.#exact.size > 0) {
      const sharing = this.#exact.get(pathname);
      const found = sharing === undefined ? undefined : firstSatisfied(sharing, request);
      if (found !== undefined) return found;
    }
    for (const { pattern, candidate } of this.#regexes) {
      if (isSatisfied(candidate, request) && pattern.test(pathname, budget)) return candidate.result;
    }
    let node: PrefixNode<T> | undefined = deepestNode(this.#root, request);
    for (; node !== undefined; node = node.parent) {
      const found = firstSatisfied(node.candidates, request);
      if (found !== undefined) return found;
    }
    return undefined;
  }
}

function isSatisfied<T>({ conditions }: Candidate<T>, request: RequestReading): boolean {
  request.budget.spend(unitsPerStep);
  return conditions === undefined || satisfies(request, conditions);
}

function firstSatisfied<T>(candidates: readonly Candidate<T>[], request: RequestReading): T | undefined {
  for (const candidate of candidates) {
    if (isSatisfied(candidate, request)) return candidate.result;
  }
  return undefined;
}

function createNode<T>(parent: PrefixNode<T> | undefined): PrefixNode<T> {
  return { parent, children: undefined, candidates: [] };
}

/** The node of a prefix such as `/`, `/a` or `/a/b`, made where it is missing. */
function growTo<T>(root: PrefixNode<T>, prefix: string): PrefixNode<T> {
  let node = root;
  if (prefix === "/") return node;
  for (const segment of prefix.slice(1).split("/")) {
    node.children ??= new Map();
    let child = node.children.get(segment);
    if (child === undefined) {
      child = createNode(node);
      node.children.set(segment, child);
    }
    node = child;
  }
  return node;
}

function deepestNode<T>(root: PrefixNode<T>, { pathname, budget }: RequestReading): PrefixNode<T> | undefined {
  // Only an absolute path has segments (`OPTIONS *` has none, and no prefix matches it).
  if (pathname.charCodeAt(0) !== 0x2f) return undefined;
  let node = root;
  let from = 1;
  while (node.children !== undefined) {
    budget.spend(unitsPerStep);
    const slash = pathname.indexOf("/", from);
    const child = node.children.get(pathname.slice(from, slash === -1 ? undefined : slash));
    if (child === undefined) break;
    node = child;
    if (slash === -1) break;
    from = slash + 1;
  }
  return node;
}
