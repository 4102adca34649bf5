/**
 * The versions of the objects of each namespace, in the order in which the objects were read first. Those that were
 * read last are left out first: the same ones stay as where there was no room for them when they were read.
 */
import { LastFirst, type Place } from "./last-first.ts";

export class ReadOrder<Version extends object> {
  readonly #versions = new Map<string, LastFirst<Version>>();
  readonly #places = new WeakMap<Version, Place<Version>>();

  /** A version replaces another one. Undefined is none, or one that takes nothing. */
  replace(namespace: string, before: Version | undefined, after: Version | undefined): void {
    const known = before && this.#places.get(before);
    if (before !== undefined) this.#places.delete(before);
    if (after === undefined) {
      if (known !== undefined) this.#remove(namespace, known);
      return;
    }
    if (known === undefined) {
      const versions = this.#versions.get(namespace) ?? new LastFirst<Version>();
      this.#versions.set(namespace, versions);
      this.#places.set(after, versions.add(after));
      return;
    }
    known.item = after;
    this.#places.set(after, known);
  }

  /**
   * Leaves out the last versions of a namespace, while there is too much.
   *
   * @param leaveOut replaces a version that is left out, or removes it, in this order as well.
   */
  leaveOutLast(namespace: string, isTooMuch: () => boolean, leaveOut: (version: Version) => void): void {
    while (isTooMuch()) {
      const version = this.#versions.get(namespace)?.last();
      if (version === undefined) return;
      leaveOut(version);
    }
  }

  #remove(namespace: string, place: Place<Version>): void {
    const versions = this.#versions.get(namespace);
    versions?.remove(place);
    if (versions?.size === 0) this.#versions.delete(namespace);
  }
}
