import { runToEnd, type Steps } from "@gatewayproxy/runtime/steps";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseManifests } from "../api/parse-manifests.ts";
import { kindNames, type Resource, type ResourceSet, resourceKey, resourceSet } from "../api/resource.ts";
import { contained } from "./containment.ts";
import { type Translation, translateInSteps } from "./translate.ts";

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

/** Wraps a function without steps. */
const stepping = <T>(compute: (set: ResourceSet) => T) =>
  function* (set: ResourceSet): Steps<T> {
    return compute(set);
  };

const keysOf = (set: ResourceSet) => [...set.Gateway, ...set.HTTPRoute].map(resourceKey);

test("omits exactly the objects that make the computation fail, and computes with the others", () => {
  expect(problems).toEqual([]);
  fc.assert(
    fc.property(fc.subarray([...all], { maxLength: 10 }), (bad) => {
      const isBad = new Set<unknown>(bad);
      const compute = (set: ResourceSet) => {
        const found = [...set.Gateway, ...set.HTTPRoute].find((each) => isBad.has(each));
        if (found !== undefined) throw new Error(`cannot stand ${found.metadata.name}`);
        return keysOf(set);
      };
      const { value, culprits } = runToEnd(contained(resources, stepping(compute)));
      // Of a Gateway it stays known that it is there.
      const left = all.filter((each) => !isBad.has(each) || each.kind === "Gateway").map(resourceKey);
      expect(new Set(value)).toEqual(new Set(left));
      const reported = culprits.map(({ object, errors: faults }) => [object["kind"], faults[0]?.message]);
      const expected = bad.map(({ kind, metadata }) => [kind, `cannot be processed: cannot stand ${metadata.name}`]);
      expect(new Set(reported)).toEqual(new Set(expected));
    }),
  );
});

test("throws an error that no object causes", () => {
  const compute = function* (): Steps<never> {
    throw new Error("broken");
  };
  expect(() => runToEnd(contained(resourceSet([]), compute))).toThrow("broken");
  expect(() => runToEnd(contained(resources, compute))).toThrow("broken");
});

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

/** Makes a field of an object throw when it is read. */
function setTrap(object: Record<string, unknown>, path: readonly string[]): void {
  if (path.length === 0) return;
  let holder = object;
  for (const name of path.slice(0, -1)) holder = holder[name] as Record<string, unknown>;
  Object.defineProperty(holder, path.at(-1) ?? "", {
    enumerable: true,
    get: () => {
      throw new Error("trap");
    },
  });
}

describe("a thousand objects at fault", () => {
  const count = 1_000;
  const route = parsed.resources.HTTPRoute[0];
  const service = parsed.resources.Service[0];

  /** Copies of an object, each with a field that throws when it is read. */
  function trapped<T extends Resource>(
    object: T | undefined,
    path: readonly string[],
    namespace = "bad",
  ): readonly T[] {
    return Array.from({ length: count }, (_, index) => {
      const copy = structuredClone(object) as unknown as Record<string, Record<string, unknown>>;
      Object.assign(copy["metadata"] ?? {}, { name: `bad${index}`, namespace });
      setTrap(copy, path);
      return copy as unknown as T;
    });
  }

  /** Counts the repetitions of the translation. */
  function counting() {
    const runs = { all: 0, whole: 0 };
    const compute = (set: ResourceSet): Steps<Translation> => {
      runs.all++;
      if (kindNames.reduce((sum, kind) => sum + set[kind].length, 0) > count) runs.whole++;
      return translateInSteps(set);
    };
    return { runs, compute };
  }

  const servedRoutes = ({ binds }: Translation) =>
    binds.flatMap(({ listeners }) => listeners.flatMap((each) => each.routes.map(({ key }) => key)));

  test.each<[string, Partial<ResourceSet>]>([
    ["routes", { HTTPRoute: [...trapped(route, ["spec", "rules"]), ...parsed.resources.HTTPRoute] }],
    [
      "routes by their age",
      { HTTPRoute: [...trapped(route, ["metadata", "creationTimestamp"]), ...parsed.resources.HTTPRoute] },
    ],
    [
      "policies",
      {
        ProxyPolicy: [
          ...trapped(parsed.resources.ProxyPolicy[0], ["spec", "targetRefs"]),
          ...parsed.resources.ProxyPolicy,
        ],
      },
    ],
    [
      "Gateways",
      { Gateway: [...trapped(parsed.resources.Gateway[0], ["spec", "addresses"]), ...parsed.resources.Gateway] },
    ],
  ])("are found in a few repetitions, and the others are served: %s", (_, objects) => {
    const { runs, compute } = counting();
    const { value, culprits } = runToEnd(contained({ ...parsed.resources, ...objects }, compute));
    expect(culprits).toHaveLength(count);
    expect(servedRoutes(value)).toEqual(["ns/chat"]);
    // Each object may be tried by itself; all together only a few times.
    expect(runs.whole).toBeLessThan(6);
    expect(runs.all).toBeLessThan(count * 2 + 10);
  });

  test("are no fault of those that refer to them", () => {
    const bad = trapped(service, ["spec", "ports"], "ns");
    const backendRefs = bad.map(({ metadata: { name } }) => `{name: ${name}, port: 80}`).slice(0, 15);
    const text = world.replace("[{name: s, port: 80}]", `[{name: s, port: 80}, ${backendRefs.join(", ")}]`);
    const { resources: known } = parseManifests([{ path: "a.yaml", text }]);
    const { runs, compute } = counting();
    const { value, culprits } = runToEnd(contained({ ...known, Service: [...known.Service, ...bad] }, compute));
    expect(new Set(culprits.map(({ object }) => object["kind"]))).toEqual(new Set(["Service"]));
    expect(servedRoutes(value)).toEqual(["ns/chat"]);
    expect(runs.all).toBeLessThan(15);
  });

  test("and only together with others, cost their own namespace the objects of that kind", () => {
    const routes = trapped(route, [], "bad");
    const isBad = (each: Resource) => each.metadata.name.startsWith("bad");
    let runs = 0;
    const compute = function* (set: ResourceSet): Steps<readonly string[]> {
      runs++;
      yield;
      if (set.Gateway.length > 0 && set.HTTPRoute.some(isBad)) throw new Error("not with a Gateway");
      return set.HTTPRoute.map(resourceKey);
    };
    const known = { ...parsed.resources, HTTPRoute: [...routes, ...parsed.resources.HTTPRoute] };
    const { value, culprits } = runToEnd(contained(known, compute));
    expect(value).toEqual(["HTTPRoute ns/chat"]);
    expect(culprits).toHaveLength(count);
    expect(runs).toBeLessThan(count * 2);
  });
});

describe("a policy that makes the computation fail", () => {
  /** The policy with a field that throws when it is read. */
  function withTrap(path: readonly string[]): ResourceSet {
    const [policy] = parsed.resources.ProxyPolicy;
    const copy = structuredClone(policy) as unknown as Record<string, unknown>;
    setTrap(copy, path);
    return { ...parsed.resources, ProxyPolicy: [copy as unknown as ResourceSet["ProxyPolicy"][number]] };
  }

  test.each([[["spec", "traffic", "rateLimit", "local"]], [["spec", "traffic"]], [["spec", "targetRefs"]]])(
    "closes its targets, as one does that cannot be read: %j",
    (path) => {
      expect(parsed.problems).toEqual([]);
      const { value, culprits } = runToEnd(contained(withTrap(path), (set) => translateInSteps(set)));
      expect(culprits).toMatchObject([{ object: { kind: "ProxyPolicy" }, inForce: "remains" }]);
      const rules = value.binds.flatMap(({ listeners }) =>
        listeners.flatMap(({ routes }) => routes.flatMap((route) => route.rules)),
      );
      expect(rules).toMatchObject([{ refusedPolicies: ["ns/limits"] }]);
    },
  );

  test("leaves them open where that is chosen", () => {
    const compute = (set: ResourceSet) => translateInSteps(set, { refusedPolicies: "Open" });
    const { value } = runToEnd(contained(withTrap(["spec", "traffic"]), compute));
    expect(JSON.stringify(value.binds)).not.toContain("refusedPolicies");
  });
});
