/**
 * What is wrong with input from outside. Input may be wrong in several places at once and every place is reported, so
 * parsers return a `Result` with all problems instead of throwing the first.
 */

/** Where a problem's text stands; line and column count from 1. */
export interface SourceLocation {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

export interface Problem {
  /** What was attempted, what was found and what is accepted; lower case, no full stop, no secret. */
  readonly message: string;
  /** The resource, as `Kind namespace/name`; absent when the text could not be read that far. */
  readonly resource?: string;
  /** The field, as `spec.traffic.rateLimit.local[0].unit`. */
  readonly path?: string;
  readonly location?: SourceLocation;
}

/** A parsed value, or everything that is wrong with the input. */
export type Result<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** One line for people: `limits.yaml:12:9 ProxyPolicy default/chat spec.traffic.rateLimit.local[0].unit: …`. */
export function renderProblem(problem: Problem): string {
  const where = problem.location;
  const head = [
    where === undefined ? undefined : `${where.file}:${where.line}:${where.column}`,
    problem.resource,
    problem.path,
  ].filter((part) => part !== undefined);
  return head.length === 0 ? problem.message : `${head.join(" ")}: ${problem.message}`;
}
