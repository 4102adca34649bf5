/**
 * A set for items that are frequently added and deleted, as an intrusive linked list. A `Set` hashes each item and
 * recreates its table every few hundred changes, and each old table is garbage. A change here writes only to the
 * neighbors.
 */

/** The links of a member, which only `LinkedSet` uses. */
export interface Linked<T> {
  before: T | undefined;
  after: T | undefined;
}

/** A set that iterates in the order of insertion. A member may be in at most one set. */
export class LinkedSet<T extends Linked<T>> implements Iterable<T> {
  #first: T | undefined;
  #last: T | undefined;

  /** Adds a member, which must not be in any set. */
  add(member: T): void {
    member.before = this.#last;
    if (this.#last === undefined) this.#first = member;
    else this.#last.after = member;
    this.#last = member;
  }

  /** Deletes a member, which must be in this set. */
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
