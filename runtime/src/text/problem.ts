/**
 * Problems in input from outside. Input may have problems in several places, and all are reported: parsers return a
 * `Result` with all problems instead of throwing the first.
 */
import { memoised } from "../values/memoised.ts";

/** The position of a problem in its file; line and column count from 1. */
export interface SourceLocation {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** One problem, with its place. */
export interface Problem {
  /** Says what was attempted, what was found and what is accepted; lower case, no full stop, no secret. */
  readonly message: string;
  /** The resource as `Kind namespace/name`; absent if the text could not be read that far. */
  readonly resource?: string;
  /** The field, such as `spec.traffic.rateLimit.local[0].unit`. */
  readonly path?: string;
  readonly location?: SourceLocation;
}

/** A parsed value, or all problems of the input. */
export type Result<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/**
 * Renders one line: `limits.yaml:12:9 ProxyPolicy default/chat spec.traffic.rateLimit.local[0].unit: …`. The line is
 * memoised, since each change compares those of all rejected objects.
 */
export const renderProblem = memoised((problem: Problem): string => {
  const where = problem.location;
  const head = [
    where === undefined ? undefined : `${where.file}:${where.line}:${where.column}`,
    problem.resource,
    problem.path,
  ].filter((part) => part !== undefined);
  return head.length === 0 ? problem.message : `${head.join(" ")}: ${problem.message}`;
});
