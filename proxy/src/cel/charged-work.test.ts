/** The charges of an evaluation cover the work of its functions, which this test counts independently. */
import { describe, expect, test, vi } from "vitest";
import { evaluationBudget } from "./cost.ts";
import { maxEvaluationUnits } from "./request-work.ts";
import { parseExpression } from "./expression.ts";
import { costlyExpressions, largeRequests } from "./testing/costly.ts";
import { leastUnits, workOf } from "./testing/counted-work.ts";

vi.mock(import("@bufbuild/cel"), async (original) => {
  const { withCountedWork } = await import("./testing/counted-work.ts");
  return withCountedWork(await original());
});

const usual = [
  'request.headers["x"].split(",").map(v, v.trim().lowerAscii()).filter(v, v != "").join("|")',
  'request.query["p7"] + request.query["p8"]',
  "size(request.headers) > 3 && request.query.exists(name, name == 'p7')",
  'request.path.startsWith("/a") ? request.method : request.host',
];

describe("the work of an evaluation stays within the budget, and all of it is charged", () => {
  test.each([...costlyExpressions, ...usual])("%s", (source) => {
    const parsed = parseExpression(source, { phase: "response", result: "text" });
    if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
    const { tryEvaluate } = parsed.value;
    for (const view of largeRequests) {
      evaluationBudget.left = maxEvaluationUnits;
      const work = workOf(() => tryEvaluate(view));
      const spent = maxEvaluationUnits - evaluationBudget.left;
      expect(leastUnits(work)).toBeLessThanOrEqual(spent);
      // The result of a function is charged after the call.
      expect(leastUnits(work)).toBeLessThanOrEqual(2 * maxEvaluationUnits);
    }
  });
});
