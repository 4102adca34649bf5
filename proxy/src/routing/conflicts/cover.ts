/**
 * Finds matches at a more specific hostname that take all requests of a match at a wider hostname. Matches at the more
 * specific hostname precede for all paths and headers.
 */
import type { Match } from "../../ir/match.ts";
import { type Condition, identityOf, type MatchEntry, type MatchReader } from "../match-entry.ts";
import { type PositionedEntry, subsetsOf } from "../overlaps.ts";
import type { Purse } from "./budget.ts";

/** Whether `a` precedes `b`. Both must have the same path, method and hostname. */
export function isStronger(a: PositionedEntry, b: PositionedEntry): boolean {
  const [one, other] = [a.entry, b.entry];
  if (one.headerCount !== other.headerCount) return one.headerCount > other.headerCount;
  if (one.conditions.length !== other.conditions.length) return one.conditions.length > other.conditions.length;
  return (a.route - b.route || one.rule - other.rule || one.match - other.match) < 0;
}

/** A match at a more specific hostname. */
interface CoverEntry extends PositionedEntry {
  /** Index of its hostname's tier. A lower index precedes. */
  readonly tier: number;
}

/** All matches at the more specific hostnames, indexed for `find`. */
export class Cover {
  readonly #reader: MatchReader;
  readonly #lookUps: Purse;
  /** By path, then by identity. */
  readonly #byPath = new Map<number, Map<string, CoverEntry>>();

  constructor(reader: MatchReader, lookUps: Purse) {
    this.#reader = reader;
    this.#lookUps = lookUps;
  }

  add(positioned: PositionedEntry, tier: number): void {
    const { pathNumber, identity } = positioned.entry;
    const ofPath = this.#byPath.get(pathNumber) ?? new Map<string, CoverEntry>();
    this.#byPath.set(pathNumber, ofPath);
    if (!ofPath.has(identity)) ofPath.set(identity, { ...positioned, tier });
  }

  /**
   * Returns the match of highest precedence that takes all requests that have the path and method of the entry and
   * satisfy all of `conditions`. Undefined if there is none, or if the namespace has no look-ups left.
   */
  find({ path, method }: MatchEntry, conditions: readonly Condition[], namespace: string): PositionedEntry | undefined {
    if (this.#byPath.size === 0) return undefined;
    let first: CoverEntry | undefined;
    for (const covering of coveringPaths(path)) {
      if (!this.#lookUps.spend(namespace, 1)) return first;
      const number = this.#reader.pathNumber(covering);
      const ofPath = number === undefined ? undefined : this.#byPath.get(number);
      if (number === undefined || ofPath === undefined) continue;
      for (const found of this.#findIn(ofPath, [number, method], conditions, namespace)) {
        // The order of paths is from the longest to the shortest, so at one hostname the first match found precedes.
        const isEqual = first?.tier === found.tier && first.entry.pathNumber === number;
        if (first === undefined || found.tier < first.tier || (isEqual && isStrongerAbove(found, first))) first = found;
      }
    }
    return first;
  }

  *#findIn(
    ofPath: ReadonlyMap<string, CoverEntry>,
    [path, method]: readonly [number, number],
    conditions: readonly Condition[],
    namespace: string,
  ): Generator<CoverEntry> {
    for (const subset of subsetsOf(conditions)) {
      if (!this.#lookUps.spend(namespace, 1)) return;
      for (const methodNumber of method === 0 ? [0] : [method, 0]) {
        const found = ofPath.get(identityOf(path, methodNumber, subset));
        if (found !== undefined) yield found;
      }
    }
  }
}

/** Whether `a` precedes `b`. Both must have the same path and hostname. */
function isStrongerAbove(a: PositionedEntry, b: PositionedEntry): boolean {
  const [one, other] = [a.entry.method !== 0, b.entry.method !== 0];
  return one === other ? isStronger(a, b) : one;
}

/** Yields the path, and every prefix of it in whole segments unless it is a regular expression. */
function* coveringPaths(path: Match["path"]): Generator<Match["path"]> {
  yield path;
  if (path.kind === "RegularExpression") return;
  const { kind, value } = path;
  if (kind === "Exact" && value !== "/" && !value.endsWith("/")) yield { kind: "PathPrefix", value };
  for (let slash = value.lastIndexOf("/"); slash > 0; slash = value.lastIndexOf("/", slash - 1)) {
    yield { kind: "PathPrefix", value: value.slice(0, slash) };
  }
  if (value !== "/" || kind === "Exact") yield { kind: "PathPrefix", value: "/" };
}
