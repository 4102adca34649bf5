import { celEnv, parse, plan } from "@bufbuild/cel";
import { strings } from "@bufbuild/cel/ext";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { evaluationBudget } from "./cost.ts";
import { maxEvaluationUnits } from "./request-work.ts";
import { environment } from "./environment.ts";
import { type Expression, failed, parseExpression } from "./expression.ts";
import { costlyExpressions, largeRequests } from "./testing/costly.ts";

function parsed(source: string): Expression {
  const result = parseExpression(source, { phase: "response", result: "text" });
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result.value;
}

describe("an expensive expression has no value for at least one large request", () => {
  test.each(costlyExpressions)("%s", (source) => {
    const { tryEvaluate, evaluate } = parsed(source);
    const beyond = largeRequests.filter((view) => {
      const value = tryEvaluate(view);
      // A single step beyond the budget is rejected before it runs.
      return value === failed && evaluationBudget.isExceeded;
    });
    expect(beyond).not.toEqual([]);
    expect(beyond.every((view) => evaluate(view) === undefined)).toBe(true);
  });
});

test("each round of a macro is charged, even one that calls no function", () => {
  const [request] = largeRequests;
  if (request === undefined) throw new Error("there is no request");
  const view = { ...request, rawHeaders: ["x", "a,".repeat(40)] };
  const all = (condition: string) => parsed(`request.headers["x"].split(",").all(v, ${condition})`);
  expect(all("true").evaluate(view)).toBe("true");
  expect(all(`${"true ? true : ".repeat(60)}true`).tryEvaluate(view)).toBe(failed);
  expect(evaluationBudget.isExceeded).toBe(true);
});

test.each([
  ['request.headers["x"].split(",").map(v, v.trim().lowerAscii()).filter(v, v != "").join("|")'],
  ['request.query["p7"] + request.query["p8"]'],
  ['request.headers["x"].matches("^v[0-9]+,")'],
  ['["^v0,", "^w0,"].exists(p, request.headers["x"].matches(p))'],
  ["size(request.headers) > 3 && request.query.exists(name, name == 'p7')"],
])("a usual expression has a value: %s", (source) => {
  const names = (count: number, prefix: string) => Array.from({ length: count }, (_, at) => `${prefix}${at}`);
  const [view] = largeRequests;
  if (view === undefined) throw new Error("there is no request");
  const path = `/?${names(60, "p")
    .map((name) => `${name}=1`)
    .join("&")}`;
  const rawHeaders = ["x", names(40, "v").join(","), ...names(30, "h").flatMap((name) => [name, "value"])];
  expect(parsed(source).evaluate({ ...view, path, rawHeaders })).toBeDefined();
});

test("a token of 6 KB is read beside large other fields", () => {
  const claims = JSON.stringify({
    sub: "user-1",
    groups: Array.from({ length: 100 }, (_, at) => `group-${at}-${"x".repeat(30)}`),
  });
  const token = `e30.${Buffer.from(claims).toString("base64url")}.c`;
  expect(token.length).toBeGreaterThan(5_500);
  const [view] = largeRequests;
  if (view === undefined) throw new Error("there is no request");
  const rawHeaders = ["authorization", `Bearer ${token}`, "cookie", "c".repeat(50_000)];
  expect(parsed('unverifiedJwt.sub + ""').evaluate({ ...view, rawHeaders })).toBe("user-1");
});

test("the cost of an evaluation does not affect the next one", () => {
  const { evaluate } = parsed("size(request.path) + 0");
  for (const view of largeRequests) {
    parsed(costlyExpressions[0] ?? "").evaluate(view);
    expect(evaluate(view)).toBeDefined();
    expect(evaluationBudget.left).toBeGreaterThan(0);
  }
});

test("patterns of an expression are bounded together", () => {
  const source = '"a".matches("x{200}") || "a".matches("x{200}")';
  const result = parseExpression(source, { phase: "head", result: "condition" });
  expect(result).toMatchObject({
    problems: [
      { message: expect.stringMatching(/column 38: the patterns of an expression have a size of 4\d\d/) as string },
    ],
  });
});

const text = fc.string({ unit: fc.constantFrom(...["a", "b", ",", "é", "☃", "😀"]), maxLength: 8 });
const literal = (value: string): string => JSON.stringify(value);

test("replaced functions give the same results as those of the library", () => {
  const library = celEnv({ funcs: strings });
  fc.assert(
    fc.property(text, fc.string({ unit: fc.constantFrom("a", ","), maxLength: 2 }), text, fc.nat(4), (a, b, c, n) => {
      const [whole, part, by] = [a, b, c].map(literal);
      for (const source of [
        `${whole}.replace(${part}, ${by})`,
        `${whole}.replace(${part}, ${by}, ${n})`,
        `string(size(${whole})) + string(${by}.size())`,
        `${whole}.split(${part}).map(x, x + ${by}).filter(x, x != "a").join(${by}) + [${whole}].join()`,
        `string(([${whole}] + [${by}, ${part}])[1] in [${part}])`,
      ]) {
        const expr = parse(source);
        evaluationBudget.left = maxEvaluationUnits;
        expect(plan(environment, expr)(), source).toEqual(plan(library, expr)());
      }
    }),
    { numRuns: 300 },
  );
});
