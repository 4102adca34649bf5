import { describe, expect, test } from "vitest";
import { parseResource } from "./parse-resource.ts";
import { errorsOf } from "./testing/errors.ts";

const rule = { backendRefs: [{ name: "db", port: 5432 }] };

function route(kind: string, spec: object = {}, version = "v1") {
  const hostnames = kind === "TLSRoute" ? { hostnames: ["db.example.com"] } : {};
  return {
    apiVersion: `gateway.networking.k8s.io/${version}`,
    kind,
    metadata: { name: "db" },
    spec: { parentRefs: [{ name: "edge" }], ...hostnames, rules: [rule], ...spec },
  };
}

const manyHostnames = (count: number) => Array.from({ length: count }, (_, index) => `h${index}.example.com`);
const twoRules = [
  { ...rule, name: "a" },
  { ...rule, name: "b" },
];

describe.each(["TLSRoute", "TCPRoute", "UDPRoute"])("a %s", (kind) => {
  test("has defaults", () => {
    const parsed = parseResource(route(kind));
    expect(parsed).toMatchObject({
      kind: "resource",
      resource: {
        spec: {
          parentRefs: [{ kind: "Gateway", name: "edge" }],
          rules: [{ backendRefs: [{ group: "", kind: "Service", name: "db", port: 5432, weight: 1 }] }],
        },
      },
    });
  });

  test("may have several rules in v1alpha2 only", () => {
    expect(errorsOf(route(kind, { rules: twoRules }, "v1alpha2"))).toEqual([]);
    expect(errorsOf(route(kind, { rules: twoRules }))).toEqual(["spec.rules: found 2 rules, accepted is 1"]);
    const same = [
      { ...rule, name: "a" },
      { ...rule, name: "a" },
    ];
    expect(errorsOf(route(kind, { rules: same }, "v1alpha2"))).toEqual([
      'spec.rules[1].name: a second rule has the name "a"',
    ]);
  });

  test.each([
    ["no rules", { rules: [] }, "spec.rules: "],
    ["a rule without backends", { rules: [{ backendRefs: [] }] }, "spec.rules[0].backendRefs: "],
    ["a rule without backendRefs", { rules: [{}] }, "spec.rules[0].backendRefs: "],
    ["a Service without a port", { rules: [{ backendRefs: [{ name: "db" }] }] }, "spec.rules[0].backendRefs[0].port: "],
    [
      "a weight below 0",
      { rules: [{ backendRefs: [{ name: "db", port: 1, weight: -1 }] }] },
      "spec.rules[0].backendRefs[0].weight: ",
    ],
    [
      "filters",
      { rules: [{ backendRefs: [{ name: "db", port: 1, filters: [] }] }] },
      "spec.rules[0].backendRefs[0].filters: unknown field",
    ],
    ["matches", { rules: [{ ...rule, matches: [] }] }, "spec.rules[0].matches: unknown field"],
  ])("is rejected with %s", (_, spec, error) => {
    const [first, ...others] = errorsOf(route(kind, spec));
    expect(first?.startsWith(error) ?? false).toBe(true);
    expect(others).toEqual([]);
  });
});

describe("host names of a TLSRoute", () => {
  test.each([
    ["1,024 of them", manyHostnames(1024), "v1"],
    ["a wildcard", ["*.example.com"], "v1"],
    ["none in v1alpha2", [], "v1alpha2"],
    ["an address in v1alpha2", ["10.0.0.1"], "v1alpha2"],
    ["16 of them in v1alpha3", manyHostnames(16), "v1alpha3"],
  ])("may be %s", (_, hostnames, version) => {
    expect(errorsOf(route("TLSRoute", { hostnames }, version))).toEqual([]);
  });

  test.each([
    ["none", [], "v1", "spec.hostnames: missing, required is at least 1 host name"],
    ["none", [], "v1alpha3", "spec.hostnames: missing, required is at least 1 host name"],
    ["an address", ["10.0.0.1"], "v1", "spec.hostnames[0]: found 10.0.0.1, accepted is a host name and no IP address"],
    ["17 of them", manyHostnames(17), "v1alpha2", "spec.hostnames: found 17 host names, accepted are at most 16"],
    ["17 of them", manyHostnames(17), "v1alpha3", "spec.hostnames: found 17 host names, accepted are at most 16"],
  ])("must not be %s (%j) in %s", (_, hostnames, version, error) => {
    expect(errorsOf(route("TLSRoute", { hostnames }, version))).toEqual([error]);
  });

  test.each(["TCPRoute", "UDPRoute"])("are unknown to a %s", (kind) => {
    const [error] = errorsOf(route(kind, { hostnames: ["a.example.com"] }));
    expect(error).toContain('spec.hostnames: unknown field "hostnames"');
  });
});
