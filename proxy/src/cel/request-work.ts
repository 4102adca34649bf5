/**
 * Bounds the work of all expressions of one request together, over all policies. The policies of the Gateway have a
 * separate allowance, so that the policies of a route, which another tenant may write, cannot exhaust it.
 */
import type { PolicyOwner } from "./identity.ts";
import type { LlmView } from "./llm-view.ts";

/**
 * The maximum cost of one evaluation in units: half a millisecond on a core of 2026. `charged-work.test.ts` compares
 * the charges with the work, and `test/hardening/cel-cost.test.ts` compares the work with a plain loop.
 */
export const maxEvaluationUnits = 30_000;

/** About two milliseconds: four expressions of the maximum cost, or more than a hundred usual ones. */
export const maxAllowanceUnits = 4 * maxEvaluationUnits;

/** The outcome of an evaluation. */
export interface Evaluated<Value> {
  /** The view of the LLM request at the time of the evaluation. */
  readonly llm: LlmView | undefined;
  readonly value: Value;
}

/** The remaining work, and the values of the expressions evaluated so far: equal expressions are evaluated once. */
export class Allowance {
  /** Whose policies have this allowance. */
  readonly owner: PolicyOwner;
  /** Remaining units; never below 0. */
  left = maxAllowanceUnits;
  #values: Map<string, Evaluated<unknown>> | undefined;

  constructor(owner: PolicyOwner = "route") {
    this.owner = owner;
  }

  /** The previous outcome of an expression. Only the owner of `source` knows the type of its value. */
  cached(source: string): Evaluated<unknown> | undefined {
    return this.#values?.get(source);
  }

  cache(source: string, evaluated: Evaluated<unknown>): void {
    this.#values ??= new Map();
    this.#values.set(source, evaluated);
  }
}

/** The two allowances of one request, each created at its first use. */
export class RequestWork {
  #gateway: Allowance | undefined;
  #route: Allowance | undefined;

  /** @param target the target of the policy, such as `Gateway/namespace/name` or `HTTPRoute/namespace/name`. */
  allowanceOf(target: string): Allowance {
    if (target.startsWith("Gateway/")) return (this.#gateway ??= new Allowance("gateway"));
    return (this.#route ??= new Allowance("route"));
  }
}
