import { describe, expect, test } from "vitest";
import { type Expression, failed, maxExpressionLength, parseExpression, type Use } from "./expression.ts";
import type { RequestView } from "./request-view.ts";

const view: RequestView = {
  method: "POST",
  path: "/v1/chat?user=ann%20b&user=ben&empty=&a.b=dot",
  authority: "API.example.com:8080",
  scheme: "http",
  rawHeaders: [
    ":authority",
    "hidden",
    "X-Api-Key",
    "k1",
    "Host",
    "ignored.example.com",
    "cookie",
    "a=1; b=2",
    "x-empty",
    "",
  ],
  sourceAddress: "192.0.2.7",
  route: "default/chat",
  gateway: "default/public",
};

function parsed(source: string, use?: Use): Expression {
  const result = parseExpression(source, use);
  if (!result.ok) throw new Error(result.problems.map((problem) => problem.message).join("; "));
  return result.value;
}

function problemsOf(source: string, use?: Use): readonly string[] {
  const result = parseExpression(source, use);
  return result.ok ? [] : result.problems.map((problem) => problem.message);
}

describe("a text as a number", () => {
  test.each([
    ["int", "12", "12"],
    ["int", "-7", "-7"],
    ["int", "9223372036854775807", "9223372036854775807"],
    ["int", "9223372036854775808", undefined],
    ["int", "0x10", undefined],
    ["int", "1e3", undefined],
    ["int", " 1", undefined],
    ["int", "1".repeat(5_000), undefined],
    ["uint", "18446744073709551615", "18446744073709551615"],
    ["uint", "-1", undefined],
    ["double", "1.5e3", "1500"],
    ["double", ".5", "0.5"],
    ["double", "Infinity", "Infinity"],
    ["double", " ", undefined],
    ["double", "0x10", undefined],
    ["double", "toString", undefined],
    ["double", "1".repeat(5_000), undefined],
  ])("by %s(%j) is %s", (conversion, text, value) => {
    const rawHeaders = ["x-text", text];
    expect(parsed(`${conversion}(request.headers["x-text"])`).evaluate({ ...view, rawHeaders })).toBe(value);
  });
});

describe("the value of an expression", () => {
  test.each([
    ['request.headers["x-api-key"]', "k1"],
    ["request.headers.cookie", "a=1; b=2"],
    ["request.headers.host", "API.example.com:8080"],
    ['request.headers["ho" + "st"]', "API.example.com:8080"],
    ['request.headers["x-empty"]', ""],
    ["request.method", "POST"],
    ["request.path", "/v1/chat"],
    ["request.host", "api.example.com"],
    ["request.scheme", "http"],
    ["request.query.user", "ann b"],
    ['request.query["empty"]', ""],
    ['request.query["a.b"]', "dot"],
    ["source.address", "192.0.2.7"],
    ["route", "default/chat"],
    ["gateway", "default/public"],
    ['"everyone"', "everyone"],
    ['source.address + "/" + request.headers["x-api-key"]', "192.0.2.7/k1"],
    ['request.path.split("/")[1]', "v1"],
    ['request.path.startsWith("/v1") ? "one" : "other"', "one"],
    ['"x-api-key" in request.headers ? "known" : "unknown"', "known"],
    ['has(request.headers.cookie) ? "known" : "unknown"', "known"],
    ['"x-none" in request.headers', "false"],
    ['request.headers.exists(name, name == "x-api-key")', "true"],
    ["size(request.path)", "8"],
    ["size(request.path) * 2 + 1", "17"],
    ["1.5", "1.5"],
    ["7u", "7"],
    ["request.path.size() > 3 && request.method == 'POST'", "true"],
    ['request.path.matches("^/v[0-9]+/")', "true"],
    ['request.headers["x-api-key"].upperAscii()', "K1"],
    ["strings.quote(route)", '"default/chat"'],
  ])("%s", (source, value) => {
    expect(parsed(source).evaluate(view)).toBe(value);
  });

  test.each([
    ["a header that is absent", 'request.headers["x-none"]'],
    ["a header that is absent, in a larger expression", 'request.headers["x-none"] + route'],
    ["a query parameter that is absent", "request.query.none"],
    ["an index out of range", 'request.path.split("/")[9]'],
    ["a number that is not one", "int(request.path)"],
    ["a pseudo-header", 'request.headers[":" + "authority"]'],
    ["a pattern from the request that RE2 rejects", 'request.path.matches("(" + request.method)'],
    ["a list as the value of dynamic type", '[["a"]][0]'],
  ])("is undefined for %s", (_, source) => {
    expect(parsed(source).evaluate(view)).toBeUndefined();
  });

  test("is the same by lookup and by evaluation", () => {
    for (const name of ["x-api-key", "accept", "cookie", "x-empty", "x-none"]) {
      const looked = parsed(`request.headers["${name}"]`).evaluate(view);
      expect(parsed(`request.headers["${name}"] + ""`).evaluate(view)).toBe(looked);
    }
  });

  test.each([
    ["example.com", "example.com"],
    ["example.com:1", "example.com"],
    ["Example.com.", "example.com"],
    ["example.com.:1", "example.com"],
    ["[2001:DB8::1]", "[2001:db8::1]"],
    ["[2001:db8::1]:443", "[2001:db8::1]"],
  ])("request.host of authority %s is %s", (authority, host) => {
    expect(parsed("request.host").evaluate({ ...view, authority })).toBe(host);
  });

  test("takes linear time for a pattern that needs exponential time in a backtracking engine", () => {
    const path = `/${"a".repeat(5_000)}!`;
    expect(parsed('request.path.matches("^/(a+)+$")').evaluate({ ...view, path })).toBe("false");
  });

  test("is parsed once for all rules that contain it", () => {
    const one = parsed('request.headers["x-parsed-once"]');
    expect(parsed('request.headers["x-parsed-once"]')).toBe(one);
    for (let at = 0; at < 3_000; at++) parsed(`"${at}"`);
    expect(parsed('request.headers["x-parsed-once"]').evaluate(view)).toBeUndefined();
  });

  test("keeps the source as written", () => {
    expect(parsed("  route ").source).toBe("  route ");
  });
});

describe("an expression that can never have a value is rejected by the parser", () => {
  test.each([
    ["", /column 1: found unexpected its end/],
    ['request.headers["x"', /column 16: found unexpected "\["x"", accepted is a CEL expression/],
    ["route\n  gateway", /line 2, column 3: found unexpected "gateway"/],
    ["user", /column 1: unknown variable "user", known are request\.method, .*gateway$/],
    ["route + user.name", /column 9: unknown variable "user\.name"/],
    ["request.uri", /column 1: unknown variable "request\.uri"/],
    ["request", /unknown variable "request"/],
    ['request["path"]', /unknown variable "request"/],
    ["request.headers.x-key", /column 19: unknown variable "key"/],
    ["request.path.length", /request\.path is a string and has no "length"/],
    ["request.headers.a.b", /values of request\.headers are strings/],
    ['request.headers["X-Api-Key"]', /"X-Api-Key" never matches, accepted are header names in lower case/],
    ['request.headers[":path"]', /":path" never matches/],
    ["request.headers.Accept", /"Accept" never matches/],
    ["has(request.path)", /has\(\) takes one header, query parameter or claim; request\.path is always present/],
    ["hash(route)", /column 1: unknown function "hash"/],
    ['has(request.headers["x-a"])', /has\(\) takes a field; .* write "x-api-key" in request\.headers/],
    ["size(1)", /size\(\) does not take \(int\)/],
    ["route.size(1)", /size\(\) does not take \(int\) on string/],
    ['1 + "a"', /column 3: \+ does not take \(int, string\)/],
    ["route && true", /&& takes bool, found string/],
    ['route ? "a" : "b"', /\?: takes bool, found string/],
    ["route[0]", /type string cannot be indexed/],
    ["route.trim().x", /type string has no field "x"/],
    ['request.path.matches("(")', /missing closing \)/],
    ["request.headers", /type map, accepted are string, int, uint, double and bool/],
    ['request.path.split("/")', /type list/],
    ["null", /type null_type/],
    ['b"raw"', /type bytes/],
    ["google.protobuf.Timestamp{}", /message "google\.protobuf\.Timestamp" is not known/],
    ["[1].exists(a, [1].exists(b, [1].exists(c, true)))", /macros may be nested 2 deep at most/],
    ["[1].exists(route, true)", /"route" is the name of a variable already/],
    ["[1].exists(a, b == 1)", /unknown variable "b"/],
    ["(".repeat(900), /nested too deeply|found unexpected/],
  ])("%s", (source, message) => {
    expect(problemsOf(source)).toEqual([expect.stringMatching(message)]);
  });

  test("all mistakes are reported, not only the first", () => {
    expect(problemsOf("user + tenant")).toHaveLength(2);
  });

  test(`a source of more than ${maxExpressionLength} characters is not parsed`, () => {
    expect(problemsOf(`"${"a".repeat(maxExpressionLength)}"`)).toEqual([
      "expression has 1026 characters, at most 1024 are accepted",
    ]);
  });
});

const afterBody: Use = { phase: "body", result: "text" };
const cost: Use = { phase: "response", result: "number" };

describe("phases", () => {
  const llm = { requestModel: "gpt-5", streaming: true, responseModel: "gpt-5-mini", inputTokens: 12, totalTokens: 42 };

  test.each([
    ["llm.requestModel", "gpt-5"],
    ["llm.streaming", "true"],
    ['llm.streaming ? "stream" : "whole"', "stream"],
    ['llm.requestModel + "@" + source.address', "gpt-5@192.0.2.7"],
  ])("%s is known once the body has been read", (source, value) => {
    expect(parsed(source, afterBody).tryEvaluate({ ...view, llm })).toBe(value);
  });

  test.each([
    ["llm.totalTokens", "42"],
    ["llm.inputTokens * 3 + 1", "37"],
    ["double(llm.totalTokens) * 0.5", "21"],
    ['llm.responseModel == "gpt-5" ? 10 : 1', "1"],
    ["7", "7"],
  ])("%s is known after the response", (source, value) => {
    expect(parsed(source, cost).tryEvaluate({ ...view, llm })).toBe(value);
  });

  test.each([
    ["llm.outputTokens", cost],
    ["llm.outputTokens + 1", cost],
    ["llm.requestModel", afterBody],
  ])("%s fails where neither side said it", (source, use) => {
    expect(parsed(source, use).tryEvaluate({ ...view, llm: {} })).toBe(failed);
    expect(parsed(source, use).tryEvaluate(view)).toBe(failed);
  });

  test.each([
    [
      "llm.totalTokens",
      afterBody,
      /^expression at column 1: llm\.totalTokens is known after the response; this is evaluated once/,
    ],
    [
      "route + llm.requestModel",
      undefined,
      /column 9: llm\.requestModel is known once the body of the request has been read/,
    ],
    ["source.address", cost, /type string, accepted are int, uint and double/],
    ["llm.totalTokens.x", cost, /llm\.totalTokens is of type int and has no "x"/],
    ["llm.tokens", cost, /unknown variable "llm\.tokens", known are .*llm\.totalTokens/],
  ] as const)(
    "%s is rejected in a phase where it is unknown, and for a use with another type",
    (source, use, message) => {
      expect(problemsOf(source, use)).toEqual([expect.stringMatching(message)]);
    },
  );

  test.each([
    ["route", "head"],
    ['unverifiedJwt.sub + "x"', "head"],
    ["route + llm.requestModel", "body"],
    ["size(llm.requestModel) + llm.totalTokens", "response"],
  ])("%s can be evaluated with the %s", (source, phase) => {
    const result = phase === "response" ? "number" : "text";
    expect(parsed(source, { phase: "response", result }).phase).toBe(phase);
  });
});

describe("a missing value and a failed evaluation are distinguished", () => {
  test.each([
    ['request.headers["x-none"]', undefined],
    ['request.headers["x-none"] + "!"', undefined],
    ["request.query.none", undefined],
    ["unverifiedJwt.sub", undefined],
    ["int(request.path)", failed],
    ['int(request.headers["x-empty"])', failed],
    ['double(request.headers["x-empty"])', failed],
    ['uint(request.headers["x-empty"])', failed],
    ['int(request.headers["x-api-key"])', failed],
    ['request.path.split("/")[9]', failed],
    ['[["a"]][0]', failed],
  ])("%s", (source, value) => {
    expect(parsed(source).tryEvaluate(view)).toBe(value);
  });
});

describe("claims of an unverified token", () => {
  const token = (payload: unknown): string =>
    ["{}", JSON.stringify(payload), "signature"].map((part) => Buffer.from(part).toString("base64url")).join(".");
  const bearing = (authorization: string): RequestView => ({ ...view, rawHeaders: ["Authorization", authorization] });
  const claims = { sub: "ann", tier: 2, realm: { roles: ["admin", "dev"] }, constructor: null };

  test.each([
    ["unverifiedJwt.sub", "ann"],
    ['unverifiedJwt["sub"]', "ann"],
    ["unverifiedJwt.tier", "2"],
    ["unverifiedJwt.realm.roles[1]", "dev"],
    ['"admin" in unverifiedJwt.realm.roles', "true"],
    ['has(unverifiedJwt.org) ? "org" : "none"', "none"],
  ])("%s", (source, value) => {
    expect(parsed(source).evaluate(bearing(`bearer ${token(claims)}`))).toBe(value);
  });

  test.each([
    "",
    "Basic YTpi",
    "Bearer ",
    "Bearer a.b",
    "Bearer a.b.c",
    "Bearer a.b.c.d",
    `Bearer ${token([1])}`,
    `Bearer ${token("text")}`,
    `Bearer ${token({ toString: 1 })}.more`,
  ])("%s has no claims", (authorization) => {
    expect(parsed("unverifiedJwt.sub").tryEvaluate(bearing(authorization))).toBeUndefined();
    expect(parsed("unverifiedJwt.toString").tryEvaluate(bearing(authorization))).toBeUndefined();
  });

  test("the claims have no other variable", () => {
    expect(problemsOf("token.sub")).toEqual([
      expect.stringMatching(/unknown variable "token\.sub", known are .*unverifiedJwt/),
    ]);
  });
});

test("fields of the access log are known at the end of a request only", () => {
  for (const phase of ["head", "body", "response"] as const) {
    expect(parseExpression("log.status", { phase, result: "number" })).toMatchObject({ ok: false });
  }
  expect(parseExpression("log.status + llm.totalTokens", { phase: "end", result: "number" })).toMatchObject({
    ok: true,
  });
});

test("a value keeps its type", () => {
  const view = {
    ...{ method: "GET", path: "/?n=3", authority: "h", scheme: "http" },
    rawHeaders: [],
    sourceAddress: "::1",
  };
  const valueOf = (source: string): unknown => {
    const parsed = parseExpression(source);
    return parsed.ok ? parsed.value.evaluateScalar({ ...view, route: "", gateway: "" }) : parsed;
  };
  expect(valueOf("request.method")).toBe("GET");
  expect(valueOf("int(request.query.n) + 1")).toBe(4n);
  expect(valueOf("uint(request.query.n)")).toBe(3n);
  expect(valueOf("double(request.query.n) / 2.0")).toBe(1.5);
  expect(valueOf('request.method == "GET"')).toBe(true);
  expect(valueOf("request.query.none")).toBeUndefined();
  expect(valueOf("int(request.method)")).toBeUndefined();
});
