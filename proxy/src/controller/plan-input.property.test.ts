/** A plan is reused after a change only if computing it again would give the same one. */
import { inspect } from "node:util";
import { runToEnd } from "@gatewayproxy/runtime/steps";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Resource, resourceSet } from "../api/resource.ts";
import { type PlanInput, PlanInputs } from "./plan-input.ts";
import { clusterOf } from "./testing/tenant-clusters.ts";
import { planOf } from "./testing/tenant-rights.ts";

const clusters = clusterOf({ attaches: true, grants: true });

const inputOf = (objects: readonly Resource[]) => ({
  ...{ resources: resourceSet(objects), rejected: [], unreadable: new Set<string>(), crowded: new Set<string>() },
});

/** Returns the input for a configuration after another one. */
function inputAfter(first: PlanInput, second: PlanInput): readonly [first: PlanInput, second: PlanInput] {
  const inputs = new PlanInputs();
  return [runToEnd(inputs.next(first)), runToEnd(inputs.next(second))];
}

function isReused(first: PlanInput, second: PlanInput): boolean {
  const [before, after] = inputAfter(first, second);
  return before === after;
}

/**
 * A text of everything that a plan decides, with the names of its functions. Its Gateways are the objects themselves,
 * of which no status is read.
 */
function outcomeOf(objects: readonly Resource[]): string {
  const { gateways, ...outcome } = planOf(objects);
  const all = { ...outcome, gateways: [...gateways.keys()] };
  return inspect(all, { depth: Infinity, maxArrayLength: Infinity, maxStringLength: Infinity, sorted: true });
}

/**
 * A change of an object: of its status, which only objects with a spec have, of its metadata, of its spec, or its
 * removal.
 */
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
      const [, { resources }] = inputAfter(inputOf(objects), inputOf(edited));
      expect(outcomeOf(Object.values(resources).flat())).toEqual(outcomeOf(edited));
    }),
    { numRuns: 60 },
  );
});

test("is reused where only statuses differ, and computed again where anything else does", () => {
  fc.assert(
    fc.property(clusters, fc.nat(), (objects, at) => {
      const statuses = objects.map((each) => ({ ...each, status: { parents: [] } }) as Resource);
      expect(isReused(inputOf(objects), inputOf(statuses))).toBe(true);
      const index = at % objects.length;
      expect(isReused(inputOf(objects), inputOf(objects.toSpliced(index, 1)))).toBe(false);
      const renamed = { ...objects[index], metadata: { ...objects[index]?.metadata, name: "renamed" } } as Resource;
      expect(isReused(inputOf(objects), inputOf(objects.with(index, renamed)))).toBe(false);
    }),
    { numRuns: 60 },
  );
});

test("has the same object of which only the status has changed, beside others that have changed", () => {
  fc.assert(
    fc.property(clusters, fc.nat(), (objects, at) => {
      const index = at % objects.length;
      const inputs = new PlanInputs();
      const before = Object.values(runToEnd(inputs.next(inputOf(objects))).resources).flat();
      const changed = objects.map((each, position) =>
        position === index
          ? ({ ...each, metadata: { ...each.metadata, generation: 7 } } as Resource)
          : ({ ...each, status: { parents: [] } } as Resource),
      );
      const after = Object.values(runToEnd(inputs.next(inputOf(changed))).resources).flat();
      expect(after.filter((each) => !before.includes(each))).toEqual([changed[index]]);
      const again = changed.map((each) => ({ ...each, status: {} }) as Resource);
      expect(Object.values(runToEnd(inputs.next(inputOf(again))).resources).flat()).toEqual(after);
      expect(runToEnd(inputs.next(inputOf(again)))).toBe(runToEnd(inputs.next(inputOf(changed))));
    }),
    { numRuns: 60 },
  );
});

test("is computed again where objects are rejected or unreadable", () => {
  const input = inputOf([]);
  const rejected = [{ object: { kind: "HTTPRoute" }, errors: [], inForce: "nothing" as const }];
  expect(isReused(input, { ...input, rejected })).toBe(false);
  expect(isReused(input, { ...input, unreadable: new Set(["Secret infra/key"]) })).toBe(false);
  expect(isReused(input, { ...input, crowded: new Set(["infra"]) })).toBe(false);
});
