import { describe, expect, test } from "vitest";
import { errorsOf } from "./testing/errors.ts";

const service = { name: "app", port: 80 };

function route(spec: object) {
  return {
    apiVersion: "gateway.networking.k8s.io/v1",
    kind: "HTTPRoute",
    metadata: { name: "app" },
    spec: { parentRefs: [{ name: "web" }], ...spec },
  };
}

function rule(...rules: readonly object[]) {
  return errorsOf(route({ rules }));
}

const path = (value: string, type = "PathPrefix") => ({ matches: [{ path: { type, value } }] });
const absolute = "accepted is an absolute path such as /v1/chat";
const prefixRewrite = {
  filters: [{ type: "URLRewrite", urlRewrite: { path: { type: "ReplacePrefixMatch", replacePrefixMatch: "/" } } }],
};

describe("a match", () => {
  test.each([
    ["nothing", {}],
    [
      "every kind of condition",
      {
        path: { type: "Exact", value: "/a" },
        method: "GET",
        headers: [{ name: "a", value: "b" }],
        queryParams: [{ type: "RegularExpression", name: "q", value: "a+" }],
      },
    ],
    ["percent-encoding", { path: { value: "/a%20b" } }],
    ["a pattern that is no path", { path: { type: "RegularExpression", value: "(?i)//x" } }],
  ])("may have %s", (_, match) => {
    expect(rule({ matches: [match] })).toEqual([]);
  });

  test.each([
    ["a relative path", "foo", `found "foo", ${absolute}`],
    ["an empty path", "", `found "", ${absolute}`],
    ["an empty segment", "/a//b", `found "/a//b", ${absolute}, without //`],
    ["a step to itself", "/a/./b", `found "/a/./b", ${absolute}, without /./`],
    ["a step up", "/a/../b", `found "/a/../b", ${absolute}, without /../`],
    ["a step up at its end", "/a/..", `found "/a/..", ${absolute}, not ending with /. or /..`],
    ["an encoded slash", "/a%2Fb", `found "/a%2Fb", ${absolute}, without %2F`],
    ["a fragment", "/a#b", `found "/a#b", ${absolute}, without #`],
    ["a blank", "/a b", `found "/a b", ${absolute}; other characters must be percent-encoded`],
    ["a query", "/a?b", `found "/a?b", ${absolute}; other characters must be percent-encoded`],
  ])("must not have %s", (_, value, fault) => {
    expect(rule(path(value))).toEqual([`spec.rules[0].matches[0].path.value: ${fault}`]);
    expect(rule(path(value, "Exact"))).toEqual([`spec.rules[0].matches[0].path.value: ${fault}`]);
  });

  test.each([
    ["path", path("a(", "RegularExpression"), "matches[0].path.value"],
    [
      "header",
      { matches: [{ headers: [{ type: "RegularExpression", name: "a", value: "a(" }] }] },
      "matches[0].headers[0].value",
    ],
    [
      "query",
      { matches: [{ queryParams: [{ type: "RegularExpression", name: "a", value: "a(" }] }] },
      "matches[0].queryParams[0].value",
    ],
  ])("must not have a pattern that RE2 does not take, in its %s", (_, faulty, field) => {
    const [fault] = rule(faulty);
    expect(fault).toContain(`spec.rules[0].${field}: found "a(", accepted is a regular expression of RE2 syntax (`);
  });

  test.each([
    ["a look-ahead, which RE2 leaves out because it can take for ever", "a(?=b)"],
    ["a back reference, for the same reason", "(a)\\1"],
  ])("must not have %s", (_, pattern) => {
    expect(rule(path(pattern, "RegularExpression"))).toHaveLength(1);
  });

  test.each([
    ["method", { matches: [{ method: "get" }] }, "matches[0].method"],
    ["header name", { matches: [{ headers: [{ name: "a b", value: "c" }] }] }, "matches[0].headers[0].name"],
    ["empty header value", { matches: [{ headers: [{ name: "a", value: "" }] }] }, "matches[0].headers[0].value"],
    ["type", path("/", "Prefix"), "matches[0].path.type"],
  ])("must not have a wrong %s", (_, faulty, field) => {
    const errors = rule(faulty);
    expect(errors).toHaveLength(1);
    expect(errors[0]).toContain(`spec.rules[0].${field}: found `);
  });
});

describe("a filter", () => {
  test.each([
    ["RequestRedirect", { requestRedirect: { scheme: "https", statusCode: 301 } }],
    ["RequestMirror", { requestMirror: { backendRef: service, fraction: { numerator: 1 } } }],
    ["ExtensionRef", { extensionRef: { group: "example.com", kind: "Filter", name: "f" } }],
    [
      "CORS",
      { cors: { allowOrigins: ["https://*.example.com"], allowMethods: ["*"], allowHeaders: ["*"], maxAge: 60 } },
    ],
    ["CORS", { cors: { allowOrigins: ["https://a.com", "https://b.com"] } }],
    ["URLRewrite", { urlRewrite: { hostname: "a.com" } }],
    ["ResponseHeaderModifier", { responseHeaderModifier: { set: [{ name: "a", value: "b" }] } }],
  ])("may be %s", (type, parts) => {
    expect(rule({ filters: [{ type, ...parts }] })).toEqual([]);
  });

  const filterTypes =
    '"RequestHeaderModifier", "ResponseHeaderModifier", "RequestMirror", "RequestRedirect", "URLRewrite", "ExtensionRef", "CORS"';
  const modifier = (parts: object) => ({ type: "RequestHeaderModifier", requestHeaderModifier: parts });
  test.each([
    ["no map", ["URLRewrite"], 'filters[0]: found "URLRewrite", accepted is a map of fields'],
    ["no type", [{}], `filters[0].type: missing, required is one of ${filterTypes}`],
    [
      "a misspelt type",
      [{ type: "URLRewrit" }],
      `filters[0].type: found "URLRewrit", accepted is one of ${filterTypes}; did you mean "URLRewrite"?`,
    ],
    ["no configuration", [{ type: "URLRewrite" }], "filters[0].urlRewrite: missing, required is a map of fields"],
    [
      "another type's configuration",
      [{ type: "URLRewrite", urlRewrite: {}, cors: {} }],
      'filters[0].cors: unknown field "cors", accepted are type, urlRewrite',
    ],
    [
      "a type twice",
      [modifier({}), modifier({})],
      "filters[1].type: filter RequestHeaderModifier must not be repeated",
    ],
    [
      "a redirect and a rewrite",
      [
        { type: "URLRewrite", urlRewrite: {} },
        { type: "RequestRedirect", requestRedirect: {} },
      ],
      "filters[1].type: filters RequestRedirect and URLRewrite must not both be set",
    ],
    [
      "a line break in a header",
      [modifier({ set: [{ name: "a", value: "b\r\nc: d" }] })],
      "filters[0].requestHeaderModifier.set[0].value: found text, accepted is a header value of 1 to 4096 characters, without control characters",
    ],
    [
      "a credential in a field that takes none",
      [{ type: "RequestRedirect", requestRedirect: { hostname: "Bearer abcdefghijklmnop" } }],
      "filters[0].requestRedirect.hostname: found <redacted>, accepted is a host name in lower case such as www.example.com",
    ],
    [
      "a status of its own",
      [{ type: "RequestRedirect", requestRedirect: { statusCode: 200 } }],
      "filters[0].requestRedirect.statusCode: found 200, accepted is 301, 302, 303, 307 or 308",
    ],
    [
      "a path of another type",
      [{ type: "URLRewrite", urlRewrite: { path: { type: "ReplaceFullPath", replacePrefixMatch: "/" } } }],
      "filters[0].urlRewrite.path.replaceFullPath: missing, required is a path of at most 1024 characters, percent-encoded and without query",
    ],
    [
      "a path that cannot be sent",
      [{ type: "URLRewrite", urlRewrite: { path: { type: "ReplaceFullPath", replaceFullPath: "/to be?x=1" } } }],
      'filters[0].urlRewrite.path.replaceFullPath: found "/to be?x=1", accepted is a path of at most 1024 characters, percent-encoded and without query',
    ],
    [
      "a mirror without port",
      [{ type: "RequestMirror", requestMirror: { backendRef: { name: "a" } } }],
      "filters[0].requestMirror.backendRef.port: missing, required is the Service's port (1 to 65535)",
    ],
    [
      "percent and fraction",
      [{ type: "RequestMirror", requestMirror: { backendRef: service, percent: 1, fraction: { numerator: 1 } } }],
      "filters[0].requestMirror: percent and fraction must not both be set",
    ],
    [
      "more than the whole",
      [{ type: "RequestMirror", requestMirror: { backendRef: service, fraction: { numerator: 2, denominator: 1 } } }],
      "filters[0].requestMirror.fraction: numerator must not be above denominator",
    ],
    [
      "a wildcard beside others",
      [{ type: "CORS", cors: { allowOrigins: ["*", "https://a.com"] } }],
      'filters[0].cors.allowOrigins: "*" must be the only item',
    ],
    [
      "an origin without scheme",
      [{ type: "CORS", cors: { allowOrigins: ["a.com"] } }],
      'filters[0].cors.allowOrigins[0]: found "a.com", accepted is an origin such as https://www.example.com, https://*.example.com or *',
    ],
    [
      "a header twice in one list",
      [
        modifier({
          add: [
            { name: "a", value: "1" },
            { name: "a", value: "2" },
          ],
        }),
      ],
      "filters[0].requestHeaderModifier.add: a header is named twice",
    ],
  ])("must not have %s", (_, filters, fault) => {
    expect(rule({ filters })[0]).toBe(`spec.rules[0].${fault}`);
  });
});

describe("a rule", () => {
  test.each([
    [
      "a backend without port",
      { backendRefs: [{ name: "app" }] },
      "backendRefs[0].port: missing, required is the Service's port (1 to 65535)",
    ],
    [
      "a weight too large",
      { backendRefs: [{ ...service, weight: 1000001 }] },
      "backendRefs[0].weight: found 1000001, accepted is an integer from 0 to 1000000",
    ],
    [
      "a redirect and backends",
      { filters: [{ type: "RequestRedirect", requestRedirect: {} }], backendRefs: [service] },
      "filters[0]: filter RequestRedirect must not be used together with backendRefs",
    ],
    [
      "a prefix rewritten without a prefix",
      { ...path("/a", "Exact"), ...prefixRewrite },
      "matches: path type ReplacePrefixMatch requires exactly one match, of path type PathPrefix",
    ],
    [
      "a prefix rewritten in a backend",
      { ...path("/a", "Exact"), backendRefs: [{ ...service, ...prefixRewrite }] },
      "matches: path type ReplacePrefixMatch requires exactly one match, of path type PathPrefix",
    ],
    [
      "a prefix of two rewritten",
      { matches: [{}, {}], ...prefixRewrite },
      "matches: path type ReplacePrefixMatch requires exactly one match, of path type PathPrefix",
    ],
    [
      "a timeout without unit",
      { timeouts: { request: "10" } },
      'timeouts.request: found "10", accepted is a duration such as 500ms, 10s or 1m30s',
    ],
    [
      "a call that may take longer than the request",
      { timeouts: { request: "10s", backendRequest: "10001ms" } },
      "timeouts.backendRequest: backendRequest must not be longer than request",
    ],
    [
      "fewer attempts than none",
      { retry: { attempts: -1 } },
      "retry.attempts: found -1, accepted is an integer from 0 to 2147483647",
    ],
    ["a code twice", { retry: { codes: [500, 500] } }, "retry.codes: a code is named twice"],
    [
      "an unknown field",
      { match: [] },
      'match: unknown field "match", accepted are name, matches, filters, backendRefs, timeouts, retry, sessionPersistence; did you mean "matches"?',
    ],
  ])("must not have %s", (_, faulty, fault) => {
    expect(rule(faulty)).toEqual([`spec.rules[0].${fault}`]);
  });

  test("may have a longer backend timeout than a request timeout of 0", () => {
    expect(rule({ timeouts: { request: "0s", backendRequest: "10s" } })).toEqual([]);
  });

  test("may rewrite the prefix that it matches by default", () => {
    expect(rule({ ...prefixRewrite, backendRefs: [{ ...service, weight: 0 }] })).toEqual([]);
  });
});

describe("an HTTPRoute", () => {
  const parent = { name: "web" };
  test.each([
    [
      "two sections of a parent",
      [
        { ...parent, sectionName: "a" },
        { ...parent, sectionName: "b" },
      ],
      [],
    ],
    [
      "a section twice",
      [
        { ...parent, sectionName: "a" },
        { ...parent, sectionName: "a" },
      ],
      ["spec.parentRefs[1]: the same parent and sectionName is named twice"],
    ],
    ["a parent twice", [parent, parent], ["spec.parentRefs[1]: the same parent and sectionName is named twice"]],
    [
      "a parent and a section of it",
      [parent, { ...parent, sectionName: "a" }],
      ["spec.parentRefs[1]: sectionName is required where the same parent is named twice"],
    ],
    ["parents of one name in two namespaces", [parent, { ...parent, namespace: "other" }], []],
  ])("is validated by its parentRefs: %s", (_, parentRefs, errors) => {
    expect(errorsOf(route({ parentRefs }))).toEqual(errors);
  });

  test("must not have an empty list of rules", () => {
    expect(errorsOf(route({ rules: [] }))).toEqual(["spec.rules: found 0 items, accepted are at least 1"]);
  });

  test("must not have two rules of one name", () => {
    expect(rule({ name: "a" }, {}, {}, { name: "a" })).toEqual(['spec.rules[3].name: a second rule has the name "a"']);
  });

  test("must not have more than 128 matches in all", () => {
    const matches = Array.from({ length: 64 }, () => ({}));
    expect(rule({ matches }, { matches })).toEqual([]);
    expect(rule({ matches }, { matches }, {})).toEqual([
      "spec.rules: found 129 matches in all rules together, accepted are at most 128",
    ]);
  });
});
