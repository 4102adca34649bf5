import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Listener } from "../ir/snapshot.ts";
import { compileRoutes, type RequestHead } from "./compile-routes.ts";
import { passedOver } from "./passed-over.ts";
import { defaultPathRules } from "./path-rules.ts";
import { bindOf, exact, listenerOf, prefix, regex, routeOf, ruleOf } from "./testing/builders.ts";

const head: RequestHead = {
  method: "GET",
  path: "/v1/chat?n=1",
  authority: "a.example",
  rawHeaders: ["x-team", "blue", "x-api-key", "canary"],
};

function whyNot(listener: Listener, chosen?: string): readonly string[] {
  return passedOver(listener, head, chosen, defaultPathRules, 10).rules.map((text) =>
    text.slice(text.indexOf(": ") + 2),
  );
}

describe("a rule that does not get a request", () => {
  const only = { headers: [], query: [] };
  const header = (name: string, value: string) => [{ kind: "Exact" as const, name, value }];

  test.each([
    ["path is not /v1", { ...only, path: exact("/v1") }],
    ["path is not under /v2", { ...only, path: prefix("/v2") }],
    ["path does not match /v[2-9].*", { ...only, path: regex("/v[2-9].*") }],
    ["method is not POST", { ...only, path: prefix("/v1"), method: "POST" }],
    ["header x-user is absent", { ...only, path: prefix("/"), headers: header("x-user", "ann") }],
    ["header x-team is not red", { ...only, path: prefix("/"), headers: header("x-team", "red") }],
    ["header x-api-key is not <redacted>", { ...only, path: prefix("/"), headers: header("x-api-key", "other") }],
    ["header x-gateway-model is absent", { ...only, path: prefix("/"), headers: header("x-gateway-model", "small") }],
    ["query parameter n is not 2", { ...only, path: prefix("/"), query: header("n", "2") }],
    ["matches too, and another rule takes precedence", { ...only, path: prefix("/") }],
  ])("says that the %s", (why, match) => {
    expect(whyNot(listenerOf({ routes: [routeOf("r", { rules: [ruleOf([match])] })] }))).toEqual([why]);
  });

  test("says that the model is another one", () => {
    const match = { ...only, path: prefix("/"), headers: header("x-gateway-model", "small") };
    const listener = listenerOf({ routes: [routeOf("r", { rules: [ruleOf([match])] })] });
    const ofModel = { ...head, model: { kind: "named", name: "large" } } as const;
    const { rules } = passedOver(listener, ofModel, undefined, defaultPathRules, 10);
    expect(rules).toEqual([expect.stringMatching(/: header x-gateway-model is not small$/)]);
  });

  test("says that the host is another one", () => {
    const route = routeOf("r", {
      hostnames: ["b.example", "*.c.example"],
      rules: [ruleOf([{ ...only, path: prefix("/") }])],
    });
    expect(whyNot(listenerOf({ routes: [route] }))).toEqual(["host is not b.example or *.c.example"]);
  });
});

test("rules that nearly match are first, and the others are counted", () => {
  const only = { headers: [], query: [] };
  const far = Array.from({ length: 1_500 }, (_, at) =>
    routeOf(`far-${at}`, { rules: [ruleOf([{ ...only, path: exact(`/${at}`) }])] }),
  );
  const near = routeOf("near", { rules: [ruleOf([{ ...only, path: prefix("/v1"), method: "POST" }])] });
  const { rules, more } = passedOver(
    listenerOf({ routes: [...far.slice(0, 500), near, ...far.slice(500)] }),
    head,
    undefined,
    defaultPathRules,
    2,
  );
  expect(rules[0]).toMatch(/method is not POST$/);
  expect([rules.length, more]).toEqual([2, 1_499]);
});

test("a rule is reported as a match exactly if it gets the request when it is alone", () => {
  const value = fc.record({
    kind: fc.constantFrom("Exact" as const, "RegularExpression" as const),
    name: fc.constantFrom("p", "q"),
    value: fc.constantFrom("1", "[12]"),
  });
  const match = fc.record({
    path: fc.constantFrom(exact("/a"), exact("/a/b"), prefix("/"), prefix("/a"), regex("/a.*"), regex("/[bc]")),
    headers: fc.array(value, { maxLength: 1 }),
    query: fc.array(value, { maxLength: 1 }),
  });
  const request = fc.record({
    method: fc.constant("GET"),
    path: fc.constantFrom("/", "/a", "/ab", "/a/b", "/b", "/a?p=1", "/a?p=2&q=1", "/a?p=%31"),
    authority: fc.constantFrom("x.com", "a.x.com", "A.X.com:80", "y.org"),
    rawHeaders: fc.constantFrom([], ["p", "1"], ["P", "2"], ["q", "1"]),
  });
  const hostnames = fc.constantFrom([], ["x.com"], ["*.x.com"], ["y.org", "a.x.com"]);
  fc.assert(
    fc.property(fc.array(match, { minLength: 1, maxLength: 2 }), hostnames, request, (matches, hosts, asked) => {
      const listener = listenerOf({ routes: [routeOf("r", { hostnames: hosts, rules: [ruleOf(matches)] })] });
      const isFound = compileRoutes(bindOf([listener]), () => undefined).find(asked) !== undefined;
      const { rules } = passedOver(listener, asked, undefined, defaultPathRules, 1);
      expect(rules[0]?.endsWith("takes precedence")).toBe(isFound);
    }),
    { numRuns: 300 },
  );
});
