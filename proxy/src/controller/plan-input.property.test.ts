/** A plan is reused after a change only if computing it again would give the same one. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Resource, resourceSet } from "../api/resource.ts";
import { hasSamePlan } from "./plan-input.ts";
import { clusterOf } from "./testing/tenant-clusters.ts";
import { planOf } from "./testing/tenant-rights.ts";

const clusters = clusterOf({ attaches: true, grants: true });

const inputOf = (objects: readonly Resource[]) => ({
  ...{ resources: resourceSet(objects), rejected: [], unreadable: new Set<string>() },
});

/** Everything that a plan decides. Its Gateways are the objects themselves, of which no status is read. */
function outcomeOf(objects: readonly Resource[]) {
  const { gateways, ...outcome } = planOf(objects);
  return { ...outcome, gateways: [...gateways.keys()] };
}

/** A change of an object: of its status, which only objects with a spec have, of its metadata, of its spec, or its removal. */
const edit = fc.constantFrom<(object: Resource) => readonly Resource[]>(
  (object) => ["spec" in object ? ({ ...object, status: { conditions: [{ type: "Accepted" }] } } as Resource) : object],
  (object) => [{ ...object, metadata: { ...object.metadata, generation: 7 } } as Resource],
  (object) => [{ ...object, metadata: { ...object.metadata, labels: { team: "a" } } } as Resource],
  (object) => ("spec" in object ? [{ ...object, spec: { ...object.spec, listeners: [] } } as unknown as Resource] : []),
  () => [],
);

test("the plan of a cluster after random edits", () => {
  fc.assert(
    fc.property(clusters, fc.array(fc.tuple(fc.nat(), edit), { maxLength: 4 }), (objects, edits) => {
      let edited = objects;
      for (const [at, change] of edits) {
        edited = edited.flatMap((each, index) => (index === at % objects.length ? change(each) : [each]));
      }
      fc.pre(hasSamePlan(inputOf(objects), inputOf(edited)));
      expect(outcomeOf(edited)).toEqual(outcomeOf(objects));
    }),
    { numRuns: 60 },
  );
});

test("is reused where only statuses differ, and computed again where anything else does", () => {
  fc.assert(
    fc.property(clusters, fc.nat(), (objects, at) => {
      const statuses = objects.map((each) => ({ ...each, status: { parents: [] } }) as Resource);
      expect(hasSamePlan(inputOf(objects), inputOf(statuses))).toBe(true);
      const index = at % objects.length;
      expect(hasSamePlan(inputOf(objects), inputOf(objects.toSpliced(index, 1)))).toBe(false);
      const renamed = { ...objects[index], metadata: { ...objects[index]?.metadata, name: "renamed" } } as Resource;
      expect(hasSamePlan(inputOf(objects), inputOf(objects.with(index, renamed)))).toBe(false);
    }),
    { numRuns: 60 },
  );
});

test("is computed again where objects are rejected or unreadable", () => {
  const input = inputOf([]);
  const rejected = [{ object: { kind: "HTTPRoute" }, errors: [], inForce: "nothing" as const }];
  expect(hasSamePlan(input, { ...input, rejected })).toBe(false);
  expect(hasSamePlan(input, { ...input, unreadable: new Set(["Secret infra/key"]) })).toBe(false);
});
