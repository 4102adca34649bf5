/**
 * A unit of work takes about the same time whatever it is charged for: the dearest expressions over the largest
 * requests take a few times as long as a plain loop. `proxy/src/cel/charged-work.test.ts` counts the work itself.
 */
import { expect, test } from "vitest";
import { maxEvaluationUnits } from "../../proxy/src/cel/request-work.ts";
import { parseExpression } from "../../proxy/src/cel/expression.ts";
import { costlyExpressions, largeRequests } from "../../proxy/src/cel/testing/costly.ts";
import { hardeningSeconds } from "./support/fuzz.ts";
import { relativeCost } from "./support/relative-cost.ts";

/** The dearest take 2 to 4 once they are compiled. A function without a price takes hundreds. */
const usual = 5;
const most = 15;

/** Of the request for which the expression takes longest. */
function worst(source: string): number {
  const parsed = parseExpression(source, { phase: "response", result: "text" });
  if (!parsed.ok) throw new Error(source);
  const { tryEvaluate } = parsed.value;
  return Math.max(...largeRequests.map((view) => relativeCost(() => tryEvaluate(view), usual)));
}

test.skipIf(hardeningSeconds === undefined)("an evaluation takes no longer than reading 150,000 characters", () => {
  const all = costlyExpressions.map((source) => ({ source, cost: worst(source) })).sort((a, b) => b.cost - a.cost);
  const dearest = all.slice(0, 5).map(({ source, cost }) => `${cost.toFixed(1)} × ${source.slice(0, 80)}`);
  console.log(`an evaluation has ${maxEvaluationUnits} units; the dearest:\n${dearest.join("\n")}`);
  expect(all[0]?.cost).toBeLessThan(most);
});
