/** What a unit of work takes: the dearest expressions over the largest requests, in time. Load only adds to the best of many. */
import { expect, test } from "vitest";
import { maxEvaluationUnits } from "../../proxy/src/cel/cost.ts";
import { parseExpression } from "../../proxy/src/cel/expression.ts";
import { costlyExpressions, largeRequests } from "../../proxy/src/cel/testing/costly.ts";
import { hardeningSeconds } from "./support/fuzz.ts";

function bestMs(source: string): number {
  const parsed = parseExpression(source, { phase: "response", gives: "text" });
  if (!parsed.ok) throw new Error(source);
  const times = largeRequests.map((view) => {
    const runs = Array.from({ length: 20 }, () => {
      const startedMs = performance.now();
      parsed.value.tryEvaluate(view);
      return performance.now() - startedMs;
    });
    return Math.min(...runs);
  });
  return Math.max(...times);
}

test.skipIf(hardeningSeconds === undefined)("an evaluation takes a millisecond at most", () => {
  const all = costlyExpressions.map((source) => ({ source, ms: bestMs(source) })).sort((a, b) => b.ms - a.ms);
  const worst = all.slice(0, 5).map(({ source, ms }) => `${ms.toFixed(2)} ms ${source.slice(0, 80)}`);
  console.log(`an evaluation has ${maxEvaluationUnits} units; the dearest:\n${worst.join("\n")}`);
  expect(all[0]?.ms).toBeLessThan(1);
});
