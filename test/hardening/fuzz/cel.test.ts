/** Any expression over any request ends within its budget, with or without a value. */
import fc from "fast-check";
import { expect, vi } from "vitest";
import { evaluationBudget } from "../../../proxy/src/cel/cost.ts";
import { maxEvaluationUnits } from "../../../proxy/src/cel/request-work.ts";
import { parseExpression } from "../../../proxy/src/cel/expression.ts";
import { costlyExpressions, largeRequests } from "../../../proxy/src/cel/testing/costly.ts";
import { leastUnits, workOf } from "../../../proxy/src/cel/testing/counted-work.ts";
import { mutated } from "../support/arbitraries.ts";
import { fuzz } from "../support/fuzz.ts";
import { relativeCost } from "../support/relative-cost.ts";

vi.mock(import("@bufbuild/cel"), async (original) => {
  const { withCountedWork } = await import("../../../proxy/src/cel/testing/counted-work.ts");
  return withCountedWork(await original());
});

const { text, list, number, truth } = fc.letrec<Record<"text" | "list" | "number" | "truth", string>>((tie) => {
  const fill = (template: string, ...parts: readonly fc.Arbitrary<string>[]): fc.Arbitrary<string> =>
    fc.tuple(...parts).map((values) => values.reduce((made, value) => made.replace("_", () => value), template));
  const [t, l, n, b] = [tie("text"), tie("list"), tie("number"), tie("truth")];
  const texts = ['request.headers["x"]', 'request.headers["y"]', "request.path", '"a"', '""', "v", "unverifiedJwt.sub"];
  return {
    text: fc.oneof(
      { depthSize: "small", maxDepth: 4 },
      fc.constantFrom(...texts),
      ...["_ + _", "_.replace(_, _)", "(_).replace(_, _)"].map((template) => fill(template, t, t, t)),
      ...["_.lowerAscii()", "_.upperAscii()", "_.trim()", "strings.quote(_)", "string(bytes(_))"].map((f) =>
        fill(f, t),
      ),
      ...["_.join(_)", '"%s".format([_])', "string(_[0])"].map((template) => fill(template, l, t)),
      fill("_.substring(_)", t, n),
      fill("(_ ? _ : _)", b, t, t),
      fill('"%f%d".format([1.5, _])', n),
    ),
    list: fc.oneof(
      { depthSize: "small", maxDepth: 4 },
      fc.constantFrom("request.headers", "request.query", "[]", "unverifiedJwt.a"),
      fill("_.split(_)", t, t),
      fill("[_, _, v]", t, t),
      fill("[_, _]", l, l),
      fill("(_ + _)", l, l),
      fill("_.map(v, _)", l, t),
      fill("_.map(v, _)", l, l),
      fill("_.filter(v, _)", l, b),
    ),
    number: fc.oneof(
      { depthSize: "small", maxDepth: 4 },
      fc.constantFrom("0", "1", "9223372036854775807", "-1"),
      ...["size(_)", "int(_)", "_.size()"].map((template) => fill(template, t)),
      ...["_.indexOf(_)", "_.lastIndexOf(_)"].map((template) => fill(template, t, t)),
      fill("size(_)", l),
      fill("(_ + _)", n, n),
      fill('timestamp("2020-01-01T00:00:00Z").getHours(_)', t),
    ),
    truth: fc.oneof(
      { depthSize: "small", maxDepth: 4 },
      ...["_.contains(_)", "_.startsWith(_)", "_.matches(_)", "_ == _", "_ < _"].map((template) =>
        fill(template, t, t),
      ),
      ...["_ == _", "_ != _"].map((template) => fill(template, l, l)),
      ...["_.all(v, _)", "_.exists(v, _)", "_.exists_one(v, _)"].map((template) => fill(template, l, b)),
      fill("_ in _", t, l),
      fill("(_ && _ || !_)", b, b, b),
      fill('_.matches("(.*a){6}[ab]{9}$")', t),
    ),
  };
});

const anyExpression = fc.oneof(
  text,
  list.map((source) => `string(${source} == [])`),
  number,
  truth,
  mutated(costlyExpressions, ["request.query", ".map(v, v)", "[1]", "(", ")", '"', ".exists(v, v == v)", "~", "é"]),
);

/** The cost of one evaluation; `cel-cost.test.ts` measures 2 to 4 for the most expensive. */
const maxCost = 60;

fuzz("cel", {
  arbitrary: fc.record({ source: anyExpression, request: fc.nat(largeRequests.length - 1) }),
  check({ source, request }) {
    const parsed = parseExpression(source, { phase: "response", result: "text" });
    const view = largeRequests[request];
    if (!parsed.ok || view === undefined) return;
    evaluationBudget.left = maxEvaluationUnits;
    let value: unknown;
    const work = leastUnits(workOf(() => (value = parsed.value.tryEvaluate(view))));
    expect(["string", "undefined", "symbol"]).toContain(typeof value);
    if (evaluationBudget.isExceeded) expect(typeof value).toBe("symbol");
    expect(work).toBeLessThanOrEqual(maxEvaluationUnits - evaluationBudget.left);
    expect(work).toBeLessThanOrEqual(2 * maxEvaluationUnits);
    // A cost far beyond the budget means a step without a cost.
    expect(relativeCost(() => parsed.value.tryEvaluate(view), maxCost)).toBeLessThan(maxCost);
  },
  quickRuns: 200,
});
