/**
 * A set of frequently changing items, which are linked through themselves. A `Set` hashes each item and recreates its table
 * every few hundred changes, and each old table is garbage. A change here writes only to the neighbors.
 */

/** A member's own part of the set; of no use to anybody else. */
export interface Linked<T> {
  before: T | undefined;
  after: T | undefined;
}

/** Iterates in the order in which the members came. A member is in one set at most, and once. */
export class LinkedSet<T extends Linked<T>> implements Iterable<T> {
  #first: T | undefined;
  #last: T | undefined;

  /** `member` is in no set. */
  add(member: T): void {
    member.before = this.#last;
    if (this.#last === undefined) this.#first = member;
    else this.#last.after = member;
    this.#last = member;
  }

  /** `member` is in this set. */
  delete(member: T): void {
    const { before, after } = member;
    if (before === undefined) this.#first = after;
    else before.after = after;
    if (after === undefined) this.#last = before;
    else after.before = before;
    member.before = undefined;
    member.after = undefined;
  }

  *[Symbol.iterator](): Generator<T> {
    for (let member = this.#first; member !== undefined; member = member.after) yield member;
  }
}
