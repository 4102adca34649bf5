/** What a unit of work takes: the dearest expressions over the largest requests, in CPU time, which load does not add to. */
import { expect, test } from "vitest";
import { maxEvaluationUnits } from "../../proxy/src/cel/cost.ts";
import { parseExpression } from "../../proxy/src/cel/expression.ts";
import { costlyExpressions, largeRequests } from "../../proxy/src/cel/testing/costly.ts";
import { hardeningSeconds } from "./support/fuzz.ts";

const warmUps = 10;
const runs = 40;

/** CPU time of one evaluation, for the request that takes longest. */
function worstMs(source: string): number {
  const parsed = parseExpression(source, { phase: "response", gives: "text" });
  if (!parsed.ok) throw new Error(source);
  const evaluate = parsed.value.tryEvaluate;
  const times = largeRequests.map((view) => {
    for (let at = 0; at < warmUps; at++) evaluate(view);
    const before = process.threadCpuUsage();
    for (let at = 0; at < runs; at++) evaluate(view);
    const { user, system } = process.threadCpuUsage(before);
    return (user + system) / 1_000 / runs;
  });
  return Math.max(...times);
}

test.skipIf(hardeningSeconds === undefined)("an evaluation takes a millisecond at most", () => {
  const all = costlyExpressions.map((source) => ({ source, ms: worstMs(source) })).sort((a, b) => b.ms - a.ms);
  const worst = all.slice(0, 5).map(({ source, ms }) => `${ms.toFixed(2)} ms ${source.slice(0, 80)}`);
  console.log(`an evaluation has ${maxEvaluationUnits} units; the dearest:\n${worst.join("\n")}`);
  expect(all[0]?.ms).toBeLessThan(1);
});
