import { atOnce, type Steps } from "@gatewayproxy/runtime/steps";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseManifests } from "../api/parse-manifests.ts";
import { type Resource, type ResourceSet, resourceKey, resourceSet } from "../api/resource.ts";
import { contained } from "./containment.ts";
import { translateInSteps } from "./translate.ts";

const text = Array.from(
  { length: 30 },
  (_, index) => `
apiVersion: gateway.networking.k8s.io/v1
kind: ${index % 2 === 0 ? "HTTPRoute" : "Gateway"}
metadata: {name: n${index}, namespace: ns}
spec: ${index % 2 === 0 ? "{}" : "{gatewayClassName: a, listeners: [{name: http, port: 80, protocol: HTTP}]}"}
`,
).join("---");
const { resources, problems } = parseManifests([{ path: "a.yaml", text }]);
const all: readonly Resource[] = [...resources.Gateway, ...resources.HTTPRoute];

/** A function that has no steps of its own. */
const stepping = <T>(compute: (set: ResourceSet) => T) =>
  // eslint-disable-next-line require-yield
  function* (set: ResourceSet): Steps<T> {
    return compute(set);
  };

const keysOf = (set: ResourceSet) => [...set.Gateway, ...set.HTTPRoute].map(resourceKey);

test("leaves out exactly the objects that cannot be computed with, and computes with the others", () => {
  expect(problems).toEqual([]);
  fc.assert(
    fc.property(fc.subarray([...all], { maxLength: 10 }), (bad) => {
      const isBad = new Set<unknown>(bad);
      const compute = (set: ResourceSet) => {
        const found = [...set.Gateway, ...set.HTTPRoute].find((each) => isBad.has(each));
        if (found !== undefined) throw new Error(`cannot stand ${found.metadata.name}`);
        return keysOf(set);
      };
      const { value, culprits } = atOnce(contained(resources, stepping(compute)));
      // Of a Gateway it stays known that it is there.
      const left = all.filter((each) => !isBad.has(each) || each.kind === "Gateway").map(resourceKey);
      expect(new Set(value)).toEqual(new Set(left));
      const told = culprits.map(({ object, faults }) => [object["kind"], faults[0]?.message]);
      const expected = bad.map(({ kind, metadata }) => [kind, `cannot be processed: cannot stand ${metadata.name}`]);
      expect(new Set(told)).toEqual(new Set(expected));
    }),
  );
});

test("throws what no object is at fault for", () => {
  // eslint-disable-next-line require-yield
  const compute = function* (): Steps<never> {
    throw new Error("broken");
  };
  expect(() => atOnce(contained(resourceSet([]), compute))).toThrow("broken");
  expect(() => atOnce(contained(resources, compute))).toThrow("broken");
});

describe("a policy that cannot be computed with", () => {
  const world = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: ns}
spec: {gatewayClassName: gateway-proxy, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat, namespace: ns}
spec: {parentRefs: [{name: web}], rules: [{backendRefs: [{name: s, port: 80}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: s, namespace: ns}
spec: {ports: [{port: 80}]}
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: {name: limits, namespace: ns, generation: 3}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: chat}]
  traffic: {rateLimit: {local: [{requests: 5, unit: Minutes}]}}
`;
  const parsed = parseManifests([{ path: "a.yaml", text: world }]);

  /** The policy with a field that nobody can read. */
  function withTrap(path: readonly string[]): ResourceSet {
    const [policy] = parsed.resources.ProxyPolicy;
    const copy = structuredClone(policy) as unknown as Record<string, unknown>;
    let holder: Record<string, unknown> = copy;
    for (const name of path.slice(0, -1)) holder = holder[name] as Record<string, unknown>;
    Object.defineProperty(holder, path.at(-1) ?? "", {
      enumerable: true,
      get: () => {
        throw new Error("trap");
      },
    });
    return { ...parsed.resources, ProxyPolicy: [copy as unknown as ResourceSet["ProxyPolicy"][number]] };
  }

  test.each([[["spec", "traffic", "rateLimit", "local"]], [["spec", "traffic"]], [["spec", "targetRefs"]]])(
    "closes its targets, as one does that cannot be read: %j",
    (path) => {
      expect(parsed.problems).toEqual([]);
      const { value, culprits } = atOnce(contained(withTrap(path), (set) => translateInSteps(set)));
      expect(culprits).toMatchObject([{ object: { kind: "ProxyPolicy" }, inForce: "remains" }]);
      const rules = value.binds.flatMap(({ listeners }) =>
        listeners.flatMap(({ routes }) => routes.flatMap((route) => route.rules)),
      );
      expect(rules).toMatchObject([{ refusedPolicies: ["ns/limits"] }]);
    },
  );

  test("leaves them open where that is chosen", () => {
    const compute = (set: ResourceSet) => translateInSteps(set, { refusedPolicies: "Open" });
    const { value } = atOnce(contained(withTrap(["spec", "traffic"]), compute));
    expect(JSON.stringify(value.binds)).not.toContain("refusedPolicies");
  });
});
