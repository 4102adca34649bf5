/** The cost of all expressions of one request together. */
import { expect, test } from "vitest";
import { type Expression, failed, parseExpression } from "./expression.ts";
import { Allowance, maxAllowanceUnits, RequestWork } from "./request-work.ts";
import { largeRequests } from "./testing/costly.ts";

function parsed(source: string): Expression {
  const result = parseExpression(source, { phase: "response", result: "text" });
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result.value;
}

const [view] = largeRequests;
if (view === undefined) throw new Error("there is no request");
const usual = (at: number) => `request.path.size() + ${at}`;

test("all expressions of a request together cost no more than one allowance", () => {
  for (const request of largeRequests.slice(0, 4)) {
    const allowance = new Allowance();
    for (let at = 0; at < 200; at++) {
      parsed(`request.headers["x"].split("").map(x, x + "${at}").join(",")`).evaluate(request, allowance);
      parsed(usual(at)).evaluate(request, allowance);
    }
    expect(allowance.left).toBe(0);
  }
});

test("an expression fails as too costly when the allowance is used up", () => {
  const allowance = new Allowance();
  allowance.left = 10;
  const { evaluate, tryEvaluate, exceedsBudget } = parsed(usual(0));
  expect([evaluate(view, allowance), tryEvaluate(view, allowance)]).toEqual([undefined, failed]);
  expect(exceedsBudget(view, allowance)).toBe(true);
  expect(exceedsBudget(view)).toBe(false);
  // A lookup costs nothing.
  expect(parsed("request.method").evaluate(view, allowance)).toBe(view.method);
});

test("equal expressions are evaluated once", () => {
  const allowance = new Allowance();
  const first = parsed(usual(0)).evaluate(view, allowance);
  const spent = maxAllowanceUnits - allowance.left;
  expect(spent).toBeGreaterThan(0);
  expect(parsed(usual(0)).evaluate(view, allowance)).toBe(first);
  expect(maxAllowanceUnits - allowance.left).toBe(spent);
});

test("an expression that reads the LLM request is evaluated again when its view has changed", () => {
  const allowance = new Allowance();
  const { evaluate } = parsed("llm.totalTokens + 1");
  expect(evaluate({ ...view, llm: { totalTokens: 1 } }, allowance)).toBe("2");
  expect(evaluate({ ...view, llm: { totalTokens: 2 } }, allowance)).toBe("3");
});

test("an allowance suffices for a hundred usual expressions", () => {
  const allowance = new Allowance();
  const rawHeaders = Array.from({ length: 20 }, (_, at) => [`x-${at}`, "value"]).flat();
  const request = { ...view, path: "/v1/chat/completions?a=b", rawHeaders };
  for (let at = 0; at < 100; at++) {
    expect(
      parsed(`request.headers["x-1"] + "/" + request.method + "${at}"`).evaluate(request, allowance),
    ).toBeDefined();
  }
});

test("the policies of a Gateway and of a route have an allowance each", () => {
  const work = new RequestWork();
  const route = work.allowanceOf("HTTPRoute/a/b");
  expect(work.allowanceOf("HTTPRoute/a/b#rule")).toBe(route);
  expect(work.allowanceOf("Gateway/a/b")).not.toBe(route);
  expect(work.allowanceOf("Gateway/a/b#listener")).toBe(work.allowanceOf("Gateway/a/b"));
});
