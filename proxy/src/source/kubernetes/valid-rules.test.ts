import { describe, expect, test } from "vitest";
import type { HttpRoute } from "../../api/http-route.ts";
import { cacheResource } from "./cached-resource.ts";

const valid = { path: { type: "PathPrefix", value: "/a" } };
/** RE2 has no lookahead, and the API server does not know. */
const invalid = { path: { type: "RegularExpression", value: "/(?=x)" } };

function hold(rules: readonly object[], spec: object = {}) {
  const metadata = { name: "chat", namespace: "default" };
  const object = { apiVersion: "gateway.networking.k8s.io/v1", kind: "HTTPRoute", metadata, spec: { rules, ...spec } };
  return cacheResource(object, undefined, { keepsStatus: false });
}

function rulesOf({ resource }: ReturnType<typeof hold>): HttpRoute["spec"]["rules"] {
  if (resource?.kind !== "HTTPRoute") throw new Error("nothing is in force");
  return resource.spec.rules;
}

const backendRefs = [{ name: "b", port: 80 }];

describe("a route of which one rule is rejected", () => {
  test("serves the others at their index", () => {
    const held = hold([
      { matches: [invalid], backendRefs },
      { matches: [valid], backendRefs },
    ]);
    expect(held.rejected).toMatchObject({
      inForce: "validRules",
      errors: [{ path: ["spec", "rules", 0, "matches", 0, "path", "value"] }],
    });
    expect(rulesOf(held)[1]).toMatchObject({ matches: [valid], backendRefs });
  });

  test("keeps the valid matches of that rule, without its backends", () => {
    const held = hold([
      { name: "first", matches: [invalid, valid], backendRefs, timeouts: { request: "1s" } },
      { backendRefs },
    ]);
    expect(rulesOf(held)[0]).toEqual({
      name: "first",
      matches: [{ ...valid, headers: [], queryParams: [] }],
      filters: [],
      backendRefs: [],
    });
  });

  test("matches nothing by that rule where none of its matches is valid", () => {
    expect(rulesOf(hold([{ matches: [invalid] }, {}]))[0]?.matches).toEqual([]);
  });

  test("matches everything by that rule where it has no matches", () => {
    const held = hold([{ filters: [{ type: "Unheard" }] }, { matches: [valid] }]);
    expect(rulesOf(held)[0]).toMatchObject({ matches: [{ path: { value: "/" } }], filters: [] });
  });

  test("loses the name that another rule has", () => {
    const held = hold([{ name: "a" }, { name: "a" }]);
    expect(rulesOf(held).map(({ name }) => name)).toEqual(["a", undefined]);
  });
});

test.each([
  ["every rule", [{ matches: [invalid] }], {}],
  ["something beside its rules", [{ matches: [invalid] }, {}], { hostnames: ["_"] }],
])("a route of which %s is rejected is rejected as a whole", (_, rules, spec) => {
  expect(hold(rules, spec)).toMatchObject({ resource: undefined, rejected: { inForce: "nothing" } });
});
