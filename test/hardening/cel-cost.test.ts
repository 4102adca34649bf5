/**
 * Every unit of work takes about the same time: the most expensive expressions over the largest requests take a few
 * times as long as a plain loop. `proxy/src/cel/charged-work.test.ts` counts the work itself.
 */
import { expect, test } from "vitest";
import { maxEvaluationUnits } from "../../proxy/src/cel/request-work.ts";
import { parseExpression } from "../../proxy/src/cel/expression.ts";
import { costlyExpressions, largeRequests } from "../../proxy/src/cel/testing/costly.ts";
import { hardeningSeconds } from "./support/fuzz.ts";
import { relativeCost } from "./support/relative-cost.ts";

/** The most expensive take 2 to 4 once they are compiled. A function without a cost takes hundreds. */
const usual = 5;
const max = 15;

/** The cost for the request with the longest evaluation. */
function worst(source: string): number {
  const parsed = parseExpression(source, { phase: "response", result: "text" });
  if (!parsed.ok) throw new Error(source);
  const { tryEvaluate } = parsed.value;
  return Math.max(...largeRequests.map((view) => relativeCost(() => tryEvaluate(view), usual)));
}

test.skipIf(hardeningSeconds === undefined)("an evaluation takes no longer than reading 150,000 characters", () => {
  const all = costlyExpressions.map((source) => ({ source, cost: worst(source) })).sort((a, b) => b.cost - a.cost);
  const mostExpensive = all.slice(0, 5).map(({ source, cost }) => `${cost.toFixed(1)} × ${source.slice(0, 80)}`);
  console.log(`an evaluation has ${maxEvaluationUnits} units; the most expensive:\n${mostExpensive.join("\n")}`);
  expect(all[0]?.cost).toBeLessThan(max);
});
