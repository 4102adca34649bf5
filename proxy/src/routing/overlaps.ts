/**
 * Matches of equal precedence that hold for some of the same requests: the same path and method, as many headers and as
 * many query parameters, but not the same ones. Sets of names are compared, and within two sets the values of the names
 * that both have, by look-up, so that a thousand versions of one header cost a thousand look-ups.
 */
import type { Condition, MatchEntry } from "./match-entry.ts";

/** A match with its place in the order of precedence. */
export interface PlacedEntry {
  /** Place of its route, from 0 for the first. */
  readonly route: number;
  readonly entry: MatchEntry;
}

/** Sets of names that each match is compared with: the first ones, so most often those of the oldest routes. */
const maxNameSets = 8;

/** Names that are compared, in headers and query parameters of a request that two matches hold for. */
const maxNames = 6;

/** The earliest, and the earliest of another route than that. */
interface Earliest {
  readonly first: Numbered;
  other: Numbered | undefined;
}

interface Numbered extends PlacedEntry {
  readonly order: number;
}

/** Matches whose conditions have the same names. */
interface NameSet {
  readonly signature: string;
  readonly names: ReadonlySet<number>;
  readonly members: Numbered[];
  /** By the names that are compared, then by their values. */
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

  /** How many look-ups the next `add` makes at most. */
  get cost(): number {
    return Math.min(this.#sets.size, maxNameSets);
  }

  /**
   * Adds a match; to be called in order of precedence, with each identity once.
   *
   * @returns the first match of another route, with other names, that holds for some of its requests.
   */
  add(placed: PlacedEntry): PlacedEntry | undefined {
    const { conditions } = placed.entry;
    const signature = conditions.map(({ name }) => name).join(" ");
    let earliest: Numbered | undefined;
    let compared = 0;
    for (const set of this.#sets.values()) {
      if (compared++ === maxNameSets) break;
      if (set.signature === signature) continue;
      const found = earliestAgreeing(set, conditions, placed.route);
      if (found !== undefined && (earliest === undefined || found.order < earliest.order)) earliest = found;
    }
    this.#put(signature, { ...placed, order: this.#added++ });
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

/** The earliest member of another route that has no other value for a name of `conditions`. */
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

/** What a request has that both matches hold for; undefined where that is more than can be compared. */
export function together(a: MatchEntry, b: MatchEntry): readonly Condition[] | undefined {
  const byName = new Map([...a.conditions, ...b.conditions].map((condition) => [condition.name, condition]));
  if (byName.size > maxNames) return undefined;
  return [...byName.values()].sort((one, other) => one.name - other.name);
}

/** Every choice of some of the conditions, in their order; all, and none, too. Only those with few are asked for. */
export function* subsetsOf(conditions: readonly Condition[]): Generator<readonly Condition[]> {
  if (conditions.length > maxNames) {
    // Those that are likely to be there.
    yield [];
    for (const condition of conditions) yield [condition];
    yield conditions;
    return;
  }
  for (let chosen = 0; chosen < 1 << conditions.length; chosen++) {
    yield conditions.filter((_, at) => (chosen & (1 << at)) !== 0);
  }
}
