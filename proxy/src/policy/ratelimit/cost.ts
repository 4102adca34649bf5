/**
 * The cost of a request or of its response by an expression, for local and global limits: a whole number of units,
 * fractions rounded up.
 */
import type { Expression } from "../../cel/expression.ts";
import type { RequestView } from "../../cel/request-view.ts";
import { RequestWork } from "../../cel/request-work.ts";
import { isChargedLater, type LocalLimit } from "../../ir/limit.ts";
import type { TokenUsage } from "../../ir/usage.ts";

/**
 * The most units that one request costs. No service has a larger limit (`requests_per_unit` is a uint32), and it cannot
 * make a counter of 64 bits overflow, which would make the service fail.
 */
export const maxUnits = 0xffff_ffff;

/**
 * Returns a whole number from 0 to `maxUnits`, fractions rounded up; undefined for a negative number, for no number,
 * and without an expression.
 *
 * @param target of the policy, whose allowance the work is charged to.
 */
export function unitsOf(cost: Expression | undefined, view: RequestView, target: string): number | undefined {
  const value = cost?.tryEvaluate(view, view.work?.allowanceOf(target));
  const units = typeof value === "string" && value.trim() !== "" ? Math.ceil(Number(value)) : Number.NaN;
  return units >= 0 ? Math.min(units, maxUnits) : undefined;
}

/**
 * Returns whether the cost takes too much work to compute, of the request, or of its response as far as the request
 * determines it. Such a request must be denied, since its cost could be any number.
 */
export function isCostTooCostly(
  cost: Expression | undefined,
  counts: LocalLimit["counts"],
  view: RequestView,
  target: string,
): boolean {
  if (cost === undefined) return false;
  const sample = isChargedLater(counts) ? { ...view, llm: { ...view.llm, ...anyUsage } } : view;
  return cost.exceedsBudget(sample, view.work?.allowanceOf(target));
}

/** Placeholders for the usage that a response will report. */
const anyUsage = {
  inputTokens: 1,
  outputTokens: 1,
  totalTokens: 2,
  cachedInputTokens: 1,
  cacheCreationTokens: 1,
  reasoningTokens: 1,
  cost: 1,
  responseModel: "x".repeat(256),
};

/**
 * Returns the view of a request with the usage of its response. Its work has an allowance of its own: that of the cost
 * expressions was checked before the request was forwarded, and no others are evaluated after the response.
 */
export function viewWithUsage(view: RequestView, usage: TokenUsage): RequestView {
  const { input, output, total, model, cachedInputTokens, cacheCreationTokens, reasoningTokens, cost } = usage;
  const ofResponse = { inputTokens: input, outputTokens: output, totalTokens: total, responseModel: model };
  const llm = { ...view.llm, ...ofResponse, cachedInputTokens, cacheCreationTokens, reasoningTokens, cost };
  return { ...view, llm, work: new RequestWork() };
}
