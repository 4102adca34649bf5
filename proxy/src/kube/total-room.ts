/**
 * What all namespaces take together, against a maximum. Where it is reached, the largest namespaces lose first: each
 * may take as much as the same level, which is as high as the maximum permits (max-min fairness). A namespace below an
 * equal share loses nothing, whatever others take. The parts of a namespace share its level in the same way: who may
 * write one kind must not take all room of another.
 */
import { fairLevel } from "@gatewayproxy/runtime/fair-level";
import { NumbersByKey } from "./numbers-by-key.ts";

/** A part of what namespaces take. */
export interface TotalPart {
  /** Leaves objects of a namespace out until this part takes at most `maxBytes` there, and counts them. */
  readonly leaveOut: (namespace: string, maxBytes: number) => void;
  /** There may be more room, in any namespace. */
  readonly freed: () => void;
}

/** What a part takes in each namespace. */
interface PartUse {
  readonly part: TotalPart;
  readonly used: NumbersByKey;
}

/** The room that all namespaces have together. */
export class TotalRoom {
  readonly maxBytes: number;
  readonly #parts = new Map<TotalPart, PartUse>();
  /** By namespace. */
  readonly #used = new NumbersByKey();
  #total = 0;
  /** The largest change so far. */
  #largest = 0;

  /** @param maxBytes of all namespaces. */
  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /** What all namespaces take. */
  get total(): number {
    return this.#total;
  }

  /** Adds a part. */
  add(part: TotalPart): void {
    this.#parts.set(part, { part, used: new NumbersByKey() });
  }

  /**
   * Whether a part may take so much more in a namespace, for which larger ones lose what is beyond their level.
   *
   * @param isAgain whether the object had no room before. Then others lose theirs only if they keep more than its
   *   namespace has: each such change makes the smaller one larger, so that the changes end, and no two namespaces take
   *   the room from each other in turns.
   */
  has(part: TotalPart, namespace: string, change: number, isAgain: boolean): boolean {
    if (change <= 0 || this.#total + change <= this.maxBytes) return true;
    const sum = this.#used.of(namespace) + change;
    const level = this.#level(this.#total + change, [sum, ...this.#sumsBut(namespace)]);
    // A namespace that is cut has less than the level by an object at most.
    if (isAgain) return sum <= level - Math.max(this.#largest, change);
    if (sum <= level) return true;
    const amounts = Array.from(
      this.#parts.values(),
      (each) => each.used.of(namespace) + (each.part === part ? change : 0),
    );
    return (this.#parts.get(part)?.used.of(namespace) ?? 0) + change <= fairLevel(amounts, level);
  }

  /** Counts a change of what a part takes in a namespace. What is beyond the level is left out. */
  count(part: TotalPart, namespace: string, change: number): void {
    if (change === 0) return;
    this.#parts.get(part)?.used.add(namespace, change);
    this.#used.add(namespace, change);
    this.#total += change;
    this.#largest = Math.max(this.#largest, change);
    if (change < 0) for (const each of this.#parts.keys()) each.freed();
    else if (this.#total > this.maxBytes) this.#cut();
  }

  #cut(): void {
    const level = this.#level(this.#total, this.#sumsBut(undefined));
    const large = [...this.#used.keys()].filter((namespace) => this.#used.of(namespace) > level);
    for (const namespace of large) {
      const parts = [...this.#parts.values()];
      const levelOfParts = fairLevel(
        parts.map(({ used }) => used.of(namespace)),
        level,
      );
      for (const { part, used } of parts) {
        if (used.of(namespace) > levelOfParts) part.leaveOut(namespace, levelOfParts);
      }
    }
  }

  #sumsBut(namespace: string | undefined): number[] {
    const sums: number[] = [];
    for (const each of this.#used.keys()) if (each !== namespace) sums.push(this.#used.of(each));
    return sums;
  }

  /** Returns the level of these amounts. Those that an equal share covers are not sorted: there may be thousands. */
  #level(total: number, amounts: readonly number[]): number {
    const share = this.maxBytes / amounts.length;
    const large = amounts.filter((amount) => amount > share);
    const small = total - large.reduce((sum, amount) => sum + amount, 0);
    return fairLevel(large, this.maxBytes - small);
  }
}
