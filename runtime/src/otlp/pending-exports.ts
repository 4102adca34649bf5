/** What the exports of all signals have in common: the bound of a queue, the outcomes, and an end in time. */
import type { ExportObserver } from "./export-observer.ts";

/** The items of one thread that are queued or being exported. */
export class PendingExports {
  #max: number;
  readonly #onEnded: ExportObserver["ended"];
  #count = 0;

  /** @param onEnded called with the number of items that were exported, failed, or found the queue full. */
  constructor(max: number, onEnded: ExportObserver["ended"]) {
    this.#max = max;
    this.#onEnded = onEnded;
  }

  /** Takes all of `count` items, or drops them. @param hasMemory whether they may be taken. @returns whether they are to be queued. */
  take(count: number, hasMemory: boolean): boolean {
    if (!hasMemory || this.#count + count > this.#max) {
      this.#onEnded("dropped", count);
      return false;
    }
    this.#count += count;
    return true;
  }

  /** Drops all items from now on. */
  close(): void {
    this.#max = 0;
  }

  /** Releases `count` items, whose export has ended. */
  ended(outcome: "exported" | "failed", count: number): void {
    this.#count -= count;
    this.#onEnded(outcome, count);
  }
}

/** Waits for the end of an exporter, at most for `timeoutMs`. Never rejects: what fails was reported by an export. */
export async function endWithin(timeoutMs: number, shutdown: Promise<void>): Promise<void> {
  const { promise: timeout, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => resolve(undefined), timeoutMs);
  await Promise.race([shutdown.catch(() => undefined), timeout]);
  clearTimeout(timer);
}
