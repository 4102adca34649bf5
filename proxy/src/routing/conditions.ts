/**
 * The parts of a match beside its path: method, headers, query parameters (Gateway API `HTTPRouteMatch`). A match
 * without any compiles to `undefined`, so that its requests cause no look-up of headers.
 */
import type { Match, ValueMatch } from "../ir/match.ts";
import { type Pattern, patternFor } from "../regex/pattern.ts";
import type { WorkBudget } from "../regex/work-budget.ts";
import { modelHeader, type RequestReading } from "./request-reading.ts";

/** The compiled conditions of a match; all of them must hold. */
export interface Conditions {
  readonly method: string | undefined;
  readonly headers: readonly ValueCondition[];
  readonly query: readonly ValueCondition[];
  /** The condition on the model, as a condition on `modelHeader`. */
  readonly model: ValueCondition | undefined;
}

interface ValueCondition {
  readonly name: string;
  readonly accepts: Pick<Pattern, "test">;
}

/** Units to look up a value. */
const unitsPerCondition = 1;

/** The number of characters compared per unit. */
export const comparedPerUnit = 128;

/** Compiles the method, headers and query parameters of a match; undefined if it has none of them. */
export function compileConditions(match: Match): Conditions | undefined {
  if (match.method === undefined && match.headers.length === 0 && match.query.length === 0) return undefined;
  const model = match.headers.find(isOnModel);
  return {
    method: match.method,
    headers: match.headers.filter((header) => !isOnModel(header)).map(compileValueMatch),
    query: match.query.map(compileValueMatch),
    model: model && compileValueMatch(model),
  };
}

function isOnModel({ name }: ValueMatch): boolean {
  return name === modelHeader;
}

function compileValueMatch({ kind, name, value: expected }: ValueMatch): ValueCondition {
  return { name, accepts: kind === "Exact" ? exactly(expected) : patternFor(expected, "whole") };
}

function exactly(expected: string): ValueCondition["accepts"] {
  const units = expected.length / comparedPerUnit;
  return {
    test(value: string, budget: WorkBudget): boolean {
      if (value.length !== expected.length) return false;
      budget.spend(units);
      return value === expected;
    },
  };
}

/**
 * Whether all conditions hold for the request. Throws `BudgetExceeded` if the budget of the request does not suffice,
 * and `ModelUnread` if only the condition on the model is left and the model is not read.
 */
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
  return conditions.model === undefined || holdsModel(request, conditions.model);
}

/** Last of all, since the model is in the body. */
function holdsModel({ model, budget }: RequestReading, { accepts }: ValueCondition): boolean {
  budget.spend(unitsPerCondition);
  if (model.kind === "any") return true;
  return model.kind === "named" && accepts.test(model.name, budget);
}
