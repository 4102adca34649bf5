import fc from "fast-check";
import { expect, test } from "vitest";
import { parseManifests } from "../api/parse-manifests.ts";
import { type Resource, type ResourceSet, resourceKey, resourceSet } from "../api/resource.ts";
import { contained } from "./containment.ts";

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
      const { value, culprits } = contained(resources, compute);
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
  const compute = () => {
    throw new Error("broken");
  };
  expect(() => contained(resourceSet([]), compute)).toThrow("broken");
  expect(() => contained(resources, compute)).toThrow("broken");
});
