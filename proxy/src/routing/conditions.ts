/**
 * The parts of a match beside its path: method, headers, query parameters (Gateway API `HTTPRouteMatch`). Compiled to
 * `undefined` where a match has none, so that a plain route never looks at a header.
 */
import type { Match, ValueMatch } from "../ir/match.ts";
import { type Pattern, patternFor } from "../regex/pattern.ts";
import type { WorkBudget } from "../regex/work-budget.ts";
import type { RequestReading } from "./request-reading.ts";

/** The compiled conditions of a match; all of them must hold. */
export interface Conditions {
  readonly method: string | undefined;
  readonly headers: readonly ValueCondition[];
  readonly query: readonly ValueCondition[];
}

interface ValueCondition {
  readonly name: string;
  readonly accepts: Pick<Pattern, "test">;
}

/** For looking a value up. */
const unitsPerCondition = 1;

/** Characters that are compared in a unit. */
export const comparedPerUnit = 128;

/** Compiles the method, headers and query parameters of a match; undefined if it has none of them. */
export function compileConditions(match: Match): Conditions | undefined {
  if (match.method === undefined && match.headers.length === 0 && match.query.length === 0) return undefined;
  return {
    method: match.method,
    headers: match.headers.map(compileValueMatch),
    query: match.query.map(compileValueMatch),
  };
}

function compileValueMatch({ kind, name, value: wanted }: ValueMatch): ValueCondition {
  return { name, accepts: kind === "Exact" ? exactly(wanted) : patternFor(wanted, "whole") };
}

function exactly(wanted: string): ValueCondition["accepts"] {
  const units = wanted.length / comparedPerUnit;
  return {
    test(value: string, budget: WorkBudget): boolean {
      if (value.length !== wanted.length) return false;
      budget.spend(units);
      return value === wanted;
    },
  };
}

/** Whether all conditions hold for the request. Throws `BudgetExceeded` where the request's budget does not suffice. */
export function satisfies(request: RequestReading, conditions: Conditions): boolean {
  const { budget } = request;
  if (conditions.method !== undefined && conditions.method !== request.method) return false;
  for (const { name, accepts } of conditions.headers) {
    budget.spend(unitsPerCondition);
    const value = request.header(name);
    if (value === undefined || !accepts.test(value, budget)) return false;
  }
  for (const { name, accepts } of conditions.query) {
    budget.spend(unitsPerCondition);
    const value = request.query(name);
    if (value === undefined || !accepts.test(value, budget)) return false;
  }
  return true;
}
