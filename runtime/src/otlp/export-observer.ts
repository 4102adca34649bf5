/** What a program learns about an export of spans or log records. */

/** What became of items for export. */
export type ExportOutcome = "exported" | "failed" | "dropped";

/** Observes an export. */
export interface ExportObserver {
  /** Items were exported, could not be exported, or found the queue full. */
  ended(outcome: ExportOutcome, count: number): void;
  /** A problem of the export. It contains no data of requests. */
  problem(message: string): void;
}

/** The number of items with each outcome. */
export type ExportCounts = Record<ExportOutcome, number>;
