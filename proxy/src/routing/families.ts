/**
 * Families of routes: routes that have a name in common, such as a hostname, directly or by way of other routes. What
 * depends only on the routes of each name is computed for each family, and kept while its routes stay, whatever routes
 * are added elsewhere.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { ListChange } from "@gatewayproxy/runtime/lists";
import type { Pace } from "./pace.ts";

/** How the items of lists, such as the routes of listeners, are related. */
export interface Kinship<Item> {
  /** Unique in a list. Items of several lists with one key are versions of one route, and belong together. */
  readonly keyOf: (item: Item) => string;
  /** The names of an item in a list. */
  readonly namesOf: (item: Item, list: number) => readonly string[];
  /** Whether an item may take the place of the last one with its key without a computation. */
  readonly isAlike: (before: Item, after: Item) => boolean;
}

/** All items with one key. */
interface Member<Item, Value> {
  readonly key: string;
  /** By the index of the list; few lists have it. */
  readonly items: Map<number, Item>;
  names: readonly string[];
  family: Family<Item, Value> | undefined;
}

/** Members that are connected by names. */
export interface Family<Item, Value> {
  readonly members: readonly Pick<Member<Item, Value>, "items">[];
  /** What the owner of the families computes for a new one. */
  value: Value | undefined;
}

/** Returns the items of a family by the index of their list. */
export function* itemsByList<Item>(
  { members }: Pick<Family<Item, unknown>, "members">,
  pace: Pace,
): Steps<ReadonlyMap<number, readonly Item[]>> {
  const lists = new Map<number, Item[]>();
  for (const { items } of members) {
    for (const [list, item] of items) {
      const known = lists.get(list);
      if (known === undefined) lists.set(list, [item]);
      else known.push(item);
    }
    if (pace.endsStep(items.size / 4)) yield;
  }
  return lists;
}

/** The families that a change removes and creates. */
export interface FamilyChange<Item, Value> {
  readonly removed: ReadonlySet<Family<Item, Value>>;
  readonly added: readonly Family<Item, Value>[];
}

/** The families of several lists of items, which changes of the lists update. */
export class Families<Item, Value> {
  readonly #kinship: Kinship<Item>;
  readonly #members = new Map<string, Member<Item, Value>>();
  readonly #byName = new Map<string, Member<Item, Value>[]>();

  constructor(kinship: Kinship<Item>) {
    this.#kinship = kinship;
  }

  /** @param changes the change of each list, by its index. */
  *update(changes: readonly ListChange<Item>[], pace: Pace): Steps<FamilyChange<Item, Value>> {
    const changed = yield* this.#apply(changes, pace);
    const removed = new Set<Family<Item, Value>>();
    const open = new Set(changed);
    // Thousands of new members may have a name in common, and none of them has a family yet.
    const searched = new Set<string>();
    for (const member of changed) {
      if (pace.endsStep(1)) yield;
      if (member.family !== undefined) removed.add(member.family);
      this.#rename(member);
      for (const name of member.names) {
        if (searched.has(name)) continue;
        searched.add(name);
        // All others with the name are of one family. A member that gets the name later is a changed one, too.
        for (const { family } of this.#byName.get(name) ?? []) {
          if (family === undefined) continue;
          removed.add(family);
          break;
        }
      }
    }
    for (const { members } of removed) {
      for (const member of members as readonly Member<Item, Value>[]) {
        member.family = undefined;
        open.add(member);
        if (pace.endsStep(1 / 4)) yield;
      }
    }
    return { removed, added: yield* this.#connect(open, pace) };
  }

  /** Puts changed items into their members. Returns the members of which a computation depends on the change. */
  *#apply(changes: readonly ListChange<Item>[], pace: Pace): Steps<ReadonlySet<Member<Item, Value>>> {
    const { keyOf, isAlike } = this.#kinship;
    const changed = new Set<Member<Item, Value>>();
    const before = new Map<Member<Item, Value>, Item>();
    for (const [list, { removed, added }] of changes.entries()) {
      before.clear();
      for (const item of removed) {
        const member = this.#members.get(keyOf(item));
        if (member?.items.delete(list) === true) before.set(member, item);
        if (pace.endsStep(1)) yield;
      }
      for (const item of added) {
        const key = keyOf(item);
        let member = this.#members.get(key);
        if (member === undefined) {
          member = { key, items: new Map(), names: [], family: undefined };
          this.#members.set(key, member);
        }
        member.items.set(list, item);
        const last = before.get(member);
        before.delete(member);
        if (last === undefined || !isAlike(last, item)) changed.add(member);
        if (pace.endsStep(1)) yield;
      }
      for (const member of before.keys()) changed.add(member);
    }
    return changed;
  }

  /** Computes the names of a member again. Forgets a member without items. */
  #rename(member: Member<Item, Value>): void {
    const { key, items, names: before } = member;
    const names = new Set<string>();
    for (const [list, item] of items) for (const name of this.#kinship.namesOf(item, list)) names.add(name);
    for (const name of before) {
      if (names.has(name)) continue;
      const others = this.#byName.get(name) ?? [];
      if (others.length === 1) this.#byName.delete(name);
      else others.splice(others.indexOf(member), 1);
    }
    const known = new Set(before);
    for (const name of names) {
      if (known.has(name)) continue;
      const others = this.#byName.get(name);
      if (others === undefined) this.#byName.set(name, [member]);
      else others.push(member);
    }
    member.names = [...names];
    if (items.size === 0) this.#members.delete(key);
  }

  /** Creates the families of members of which none has one. */
  *#connect(open: Iterable<Member<Item, Value>>, pace: Pace): Steps<readonly Family<Item, Value>[]> {
    const families: Family<Item, Value>[] = [];
    const seen = new Set<string>();
    for (const first of open) {
      if (first.family !== undefined || first.items.size === 0) continue;
      const members = [first];
      const family: Family<Item, Value> = { members, value: undefined };
      first.family = family;
      // The list grows while it is walked.
      for (const { names } of members) {
        for (const name of names) {
          if (seen.has(name)) continue;
          seen.add(name);
          for (const other of this.#byName.get(name) ?? []) {
            if (other.family !== undefined) continue;
            other.family = family;
            members.push(other);
            if (pace.endsStep(1 / 4)) yield;
          }
        }
        if (pace.endsStep(1 / 4)) yield;
      }
      families.push(family);
    }
    return families;
  }
}
