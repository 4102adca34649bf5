/**
 * What all expressions of one request may cost together, however many policies they come from. The policies of the
 * Gateway have an allowance of their own, so that those of a route, which another tenant may write, cannot use it up.
 */
import type { LlmView } from "./llm-view.ts";

/**
 * What one evaluation may cost: half a millisecond on a core of 2026. `charged-work.test.ts` holds the charges against the work,
 * and `test/hardening/cel-cost.test.ts` the work against a plain loop.
 */
export const maxEvaluationUnits = 30_000;

/** About two milliseconds: four expressions that each cost what one evaluation may, or more than a hundred usual ones. */
export const maxAllowanceUnits = 4 * maxEvaluationUnits;

/** What an evaluation has come to. */
export interface Evaluated<Value> {
  /** What was known of the LLM request then. */
  readonly llm: LlmView | undefined;
  readonly value: Value;
}

/** The work that is left, and what it has been spent on: equal expressions are evaluated once. */
export class Allowance {
  /** Units; never below 0. */
  left = maxAllowanceUnits;
  #values: Map<string, Evaluated<unknown>> | undefined;

  /** What an expression came to before. Only the owner of `source` knows the type of its values. */
  recall(source: string): Evaluated<unknown> | undefined {
    return this.#values?.get(source);
  }

  remember(source: string, evaluated: Evaluated<unknown>): void {
    this.#values ??= new Map();
    this.#values.set(source, evaluated);
  }
}

export class RequestWork {
  #gateway: Allowance | undefined;
  #route: Allowance | undefined;

  /** @param target of the policy, such as `Gateway/namespace/name` or `HTTPRoute/namespace/name`. */
  allowanceOf(target: string): Allowance {
    if (target.startsWith("Gateway/")) return (this.#gateway ??= new Allowance());
    return (this.#route ??= new Allowance());
  }
}
