import { describe, expect, test } from "vitest";
import type { HttpRoute } from "../../api/http-route.ts";
import { holdResource } from "./held-resource.ts";

const sound = { path: { type: "PathPrefix", value: "/a" } };
/** RE2 has no lookahead, and the API server does not know. */
const refused = { path: { type: "RegularExpression", value: "/(?=x)" } };

function hold(rules: readonly object[], spec: object = {}) {
  const metadata = { name: "chat", namespace: "default" };
  const object = { apiVersion: "gateway.networking.k8s.io/v1", kind: "HTTPRoute", metadata, spec: { rules, ...spec } };
  return holdResource(object, undefined, { keepsStatus: false });
}

function rulesOf({ resource }: ReturnType<typeof hold>): HttpRoute["spec"]["rules"] {
  if (resource?.kind !== "HTTPRoute") throw new Error("nothing is in force");
  return resource.spec.rules;
}

const backendRefs = [{ name: "b", port: 80 }];

describe("a route of which one rule is refused", () => {
  test("serves the others, each in its place", () => {
    const held = hold([
      { matches: [refused], backendRefs },
      { matches: [sound], backendRefs },
    ]);
    expect(held.rejected).toMatchObject({
      inForce: "soundRules",
      faults: [{ path: ["spec", "rules", 0, "matches", 0, "path", "value"] }],
    });
    expect(rulesOf(held)[1]).toMatchObject({ matches: [sound], backendRefs });
  });

  test("keeps the sound matches of that rule, without its backends", () => {
    const held = hold([
      { name: "first", matches: [refused, sound], backendRefs, timeouts: { request: "1s" } },
      { backendRefs },
    ]);
    expect(rulesOf(held)[0]).toEqual({
      name: "first",
      matches: [{ ...sound, headers: [], queryParams: [] }],
      filters: [],
      backendRefs: [],
    });
  });

  test("matches nothing by that rule where no match of it is left", () => {
    expect(rulesOf(hold([{ matches: [refused] }, {}]))[0]?.matches).toEqual([]);
  });

  test("matches everything by that rule where it has no match to lose", () => {
    const held = hold([{ filters: [{ type: "Unheard" }] }, { matches: [sound] }]);
    expect(rulesOf(held)[0]).toMatchObject({ matches: [{ path: { value: "/" } }], filters: [] });
  });

  test("loses the name that another rule has", () => {
    const held = hold([{ name: "a" }, { name: "a" }]);
    expect(rulesOf(held).map(({ name }) => name)).toEqual(["a", undefined]);
  });
});

test.each([
  ["every rule", [{ matches: [refused] }], {}],
  ["something beside its rules", [{ matches: [refused] }, {}], { hostnames: ["_"] }],
])("a route of which %s is refused is refused as a whole", (_, rules, spec) => {
  expect(hold(rules, spec)).toMatchObject({ resource: undefined, rejected: { inForce: "nothing" } });
});
