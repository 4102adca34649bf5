/** What a program learns about an export of spans or log records. */

/** What became of items for export. */
export type ExportOutcome = "exported" | "failed" | "dropped";

/** Observes an export. */
export interface ExportObserver {
  /** Items were exported, could not be exported, or found the queue full. */
  ended(outcome: ExportOutcome, count: number): void;
  problem: ReportProblem;
}

/** Receives a problem of an export. It contains no data of requests. */
export type ReportProblem = (message: string) => void;

/** The number of items with each outcome. */
export type ExportCounts = Record<ExportOutcome, number>;
