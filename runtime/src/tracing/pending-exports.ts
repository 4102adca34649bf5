/** What the exporters of the OpenTelemetry SDK have in common: a bounded queue, the outcomes of exports, and an end in time. */

/** What became of items for export. */
export type ExportOutcome = "exported" | "failed" | "dropped";

/** The result of an export of the SDK (`ExportResult` of `@opentelemetry/core`). */
interface ExportResult {
  readonly code: number;
}

/** An exporter of the SDK. */
interface Exporter<Item, Result extends ExportResult> {
  export(items: Item[], done: (result: Result) => void): void;
  shutdown(): Promise<void>;
  forceFlush?(): Promise<void>;
}

/** `ExportResultCode.SUCCESS` of `@opentelemetry/core`. */
const succeeded = 0;

/** Whether the collector has taken what was exported. */
export function hasSucceeded({ code }: ExportResult): boolean {
  return code === succeeded;
}

/** The items of one thread that are queued or being exported. */
export class PendingExports {
  #max: number;
  readonly #onEnded: (outcome: ExportOutcome, count: number) => void;
  #count = 0;

  /** @param onEnded called with the number of items that were exported, failed, or found the queue full. */
  constructor(max: number, onEnded: (outcome: ExportOutcome, count: number) => void) {
    this.#max = max;
    this.#onEnded = onEnded;
  }

  /** Takes all of `count` items, or drops them. @returns whether they are to be queued. */
  take(count: number): boolean {
    if (this.#count + count > this.#max) {
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

  /** Returns an exporter that reports the outcome of each export. */
  counted<Item, Result extends ExportResult>(exporter: Exporter<Item, Result>): Required<Exporter<Item, Result>> {
    return {
      export: (items, done) =>
        exporter.export(items, (result) => {
          this.ended(hasSucceeded(result) ? "exported" : "failed", items.length);
          done(result);
        }),
      shutdown: () => exporter.shutdown(),
      forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
    };
  }
}

/** Waits for the end of an exporter, at most for `timeoutMs`. Never rejects: what fails was reported by an export. */
export async function endWithin(timeoutMs: number, shutdown: Promise<void>): Promise<void> {
  const { promise: timeout, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => resolve(undefined), timeoutMs);
  await Promise.race([shutdown.catch(() => undefined), timeout]);
  clearTimeout(timer);
}
