/**
 * The parts of snapshots that a worker has: what to send to it, and what it can forget, with each snapshot
 * (`snapshot-parts.ts`).
 */
import type { PartBatch, PartGroup, PartKey } from "./snapshot-parts.ts";

/** The difference between two snapshots in parts. */
export interface PartChange {
  /** Parts that the last snapshot did not have, each before those that refer to it. */
  readonly added: PartBatch;
  /** Parts that only the last snapshot had. */
  readonly removed: readonly PartKey[];
}

/** The parts of the last snapshot. A group that both snapshots have costs nothing. */
export class SentParts {
  #groups: ReadonlySet<PartGroup> = new Set();
  /** The number of groups with a part. */
  readonly #uses = new Map<PartKey, number>();

  /** Returns the difference between the last snapshot and the next one, which becomes the last. */
  next(groups: readonly PartGroup[]): PartChange {
    const before = this.#groups;
    this.#groups = new Set(groups);
    const added: (readonly [PartKey, string])[] = [];
    for (const group of this.#groups) if (!before.has(group)) this.#add(group, added);
    const removed: PartKey[] = [];
    for (const group of before) if (!this.#groups.has(group)) this.#remove(group, removed);
    return { added, removed };
  }

  #add(group: PartGroup, added: (readonly [PartKey, string])[]): void {
    for (const part of group) {
      const [key] = part;
      const uses = this.#uses.get(key) ?? 0;
      if (uses === 0) added.push(part);
      this.#uses.set(key, uses + 1);
    }
  }

  #remove(group: PartGroup, removed: PartKey[]): void {
    for (const [key] of group) {
      const uses = (this.#uses.get(key) ?? 0) - 1;
      if (uses > 0) {
        this.#uses.set(key, uses);
      } else {
        this.#uses.delete(key);
        removed.push(key);
      }
    }
  }
}

/** The length of a batch in characters, which takes a few milliseconds to parse. A longer part is a separate batch. */
const batchLength = 128 * 1024;

/** Divides parts into batches. */
export function* batchesOf(parts: PartBatch): Generator<PartBatch> {
  let batch: (readonly [PartKey, string])[] = [];
  let length = 0;
  for (const part of parts) {
    batch.push(part);
    length += part[1].length;
    if (length < batchLength) continue;
    yield batch;
    batch = [];
    length = 0;
  }
  if (batch.length > 0) yield batch;
}
