/**
 * Finds matches of equal precedence that hold for some of the same requests: matches with the same path and method and
 * with equal numbers of headers and of query parameters, but different names. Matches with the same names form a set. A
 * match is compared with a whole set by one look-up of the values of the common names, so that a thousand values of one
 * header cost a thousand look-ups.
 */
import type { Condition, MatchEntry } from "./match-entry.ts";

/** A match with the position of its route in the order of precedence. */
export interface PositionedEntry {
  /** Position of its route, from 0 for the first. */
  readonly route: number;
  readonly entry: MatchEntry;
}

/** The number of sets that each match is compared with: the first sets, usually those of the oldest routes. */
const maxNameSets = 8;

/** The maximum number of names of headers and query parameters in two matches together that are compared. */
const maxNames = 6;

/** The earliest match, and the earliest match of another route. */
interface Earliest {
  readonly first: Numbered;
  other: Numbered | undefined;
}

interface Numbered extends PositionedEntry {
  readonly order: number;
}

/** Matches whose conditions have the same names. */
interface NameSet {
  readonly signature: string;
  readonly names: ReadonlySet<number>;
  readonly members: Numbered[];
  /** By the common names, then by their values. */
  readonly projections: Map<string, Projection>;
}

interface Projection {
  readonly names: readonly number[];
  readonly byValues: Map<string, Earliest>;
}

/** Matches of one path, method, number of headers and number of query parameters. */
export class OverlapIndex {
  readonly #sets = new Map<string, NameSet>();
  #added = 0;

  /** The maximum number of look-ups of the next `add`. */
  get cost(): number {
    return Math.min(this.#sets.size, maxNameSets);
  }

  /**
   * Adds a match. Matches must be added in order of precedence, each identity once.
   *
   * @returns the first match of another route, with other names, that holds for some of the requests of `positioned`.
   */
  add(positioned: PositionedEntry): PositionedEntry | undefined {
    const { conditions } = positioned.entry;
    const signature = conditions.map(({ name }) => name).join(" ");
    let earliest: Numbered | undefined;
    let compared = 0;
    for (const set of this.#sets.values()) {
      if (compared++ === maxNameSets) break;
      if (set.signature === signature) continue;
      const found = earliestAgreeing(set, conditions, positioned.route);
      if (found !== undefined && (earliest === undefined || found.order < earliest.order)) earliest = found;
    }
    this.#put(signature, { ...positioned, order: this.#added++ });
    return earliest;
  }

  #put(signature: string, member: Numbered): void {
    let set = this.#sets.get(signature);
    if (set === undefined) {
      const names = new Set(member.entry.conditions.map(({ name }) => name));
      set = { signature, names, members: [], projections: new Map() };
      this.#sets.set(signature, set);
    }
    set.members.push(member);
    for (const projection of set.projections.values()) project(projection, member);
  }
}

/** Returns the earliest member of another route that has the same values for the names that `conditions` has too. */
function earliestAgreeing(set: NameSet, conditions: readonly Condition[], route: number): Numbered | undefined {
  const common = conditions.filter(({ name }) => set.names.has(name));
  const key = common.map(({ name }) => name).join(" ");
  let projection = set.projections.get(key);
  if (projection === undefined) {
    projection = { names: common.map(({ name }) => name), byValues: new Map() };
    for (const member of set.members) project(projection, member);
    set.projections.set(key, projection);
  }
  const earliest = projection.byValues.get(valuesKey(common));
  return earliest?.first.route === route ? earliest.other : earliest?.first;
}

function project({ names, byValues }: Projection, member: Numbered): void {
  const key = valuesKey(member.entry.conditions.filter(({ name }) => names.includes(name)));
  const earliest = byValues.get(key);
  if (earliest === undefined) byValues.set(key, { first: member, other: undefined });
  else if (earliest.first.route !== member.route) earliest.other ??= member;
}

/** @param conditions sorted by name. */
function valuesKey(conditions: readonly Condition[]): string {
  return conditions.map(({ value }) => value).join(" ");
}

/** Returns the conditions of a request for which both matches hold; undefined if there are too many to compare. */
export function unionOf(a: MatchEntry, b: MatchEntry): readonly Condition[] | undefined {
  const byName = new Map([...a.conditions, ...b.conditions].map((condition) => [condition.name, condition]));
  if (byName.size > maxNames) return undefined;
  return [...byName.values()].sort((one, other) => one.name - other.name);
}

/**
 * Yields every subset of the conditions, in their order. If there are more than `maxNames` conditions, yields only the
 * subsets with none, with one and with all of them.
 */
export function* subsetsOf(conditions: readonly Condition[]): Generator<readonly Condition[]> {
  if (conditions.length > maxNames) {
    // The subsets that most likely belong to a match.
    yield [];
    for (const condition of conditions) yield [condition];
    yield conditions;
    return;
  }
  for (let mask = 0; mask < 1 << conditions.length; mask++) {
    yield conditions.filter((_, at) => (mask & (1 << at)) !== 0);
  }
}
