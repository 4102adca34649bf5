import { describe, expect, test } from "vitest";
import { controllerName } from "../api/names.ts";
import type { Condition } from "../api/status.ts";
import { desiredOwnStatus, desiredSharedList, policyAncestors, routeParents } from "./desired-status.ts";

const before = "2026-01-01T00:00:00Z";
const now = "2026-02-02T00:00:00Z";

const accepted: Condition = {
  type: "Accepted",
  status: "True",
  reason: "Accepted",
  message: "",
  observedGeneration: 1,
};
const programmed: Condition = { type: "Programmed", status: "False", reason: "Pending", message: "not yet" };
const at = (lastTransitionTime: string, condition: Condition) => ({ ...condition, lastTransitionTime });

describe("a status that only this controller writes", () => {
  const types = ["Accepted", "Programmed", "ResolvedRefs"];
  const status = { conditions: [accepted, programmed], fields: { addresses: [] } };

  test("is written with the current time where there is none", () => {
    expect(desiredOwnStatus(status, undefined, types, now)).toEqual({
      conditions: [at(now, accepted), at(now, programmed)],
      addresses: [],
    });
  });

  test("is not written where it is up to date, in any order", () => {
    const current = { conditions: [at(before, programmed), at(before, accepted)] };
    expect(desiredOwnStatus(status, current, types, now)).toBeUndefined();
  });

  test("keeps the time of each condition whose status is the same, though its message changed", () => {
    const changed = { ...accepted, status: "False", reason: "Invalid" } as const;
    const current = { conditions: [at(before, changed), at(before, { ...programmed, message: "still not" })] };
    expect(desiredOwnStatus(status, current, types, now)?.["conditions"]).toEqual([
      at(now, accepted),
      at(before, programmed),
    ]);
  });

  test("is written again for a new generation, and keeps its times", () => {
    const current = { conditions: [at(before, accepted), at(before, programmed)] };
    const next = { ...status, conditions: [{ ...accepted, observedGeneration: 2 }, programmed] };
    expect(desiredOwnStatus(next, current, types, now)?.["conditions"]).toMatchObject([
      { observedGeneration: 2, lastTransitionTime: before },
      { lastTransitionTime: before },
    ]);
  });

  test("cuts a message that is longer than the API accepts, and is not written again for that", () => {
    const wordy = { ...status, conditions: [{ ...accepted, message: "é".repeat(40_000) }, programmed] };
    const desired = desiredOwnStatus(wordy, undefined, types, now);
    const message = "é".repeat(8_191) + "…";
    expect(desired?.["conditions"]).toEqual([at(now, { ...accepted, message }), at(now, programmed)]);
    expect(desiredOwnStatus(wordy, desired, types, now)).toBeUndefined();
  });

  test("neither adopts nor changes conditions of other writers", () => {
    const foreign = at(before, { type: "example.com/Scanned", status: "True", reason: "Clean", message: "" });
    const current = { conditions: [foreign, at(before, accepted), at(before, programmed)] };
    expect(desiredOwnStatus(status, current, types, now)).toBeUndefined();
    const changed = desiredOwnStatus({ ...status, conditions: [accepted] }, current, types, now);
    // Server-side apply removes fields that this manager applied before and does not apply now.
    expect(changed?.["conditions"]).toEqual([at(before, accepted)]);
  });

  test("is written where one of the owned conditions is absent now", () => {
    const resolved = at(before, { type: "ResolvedRefs", status: "True", reason: "ResolvedRefs", message: "" });
    const current = { conditions: [at(before, accepted), at(before, programmed), resolved] };
    expect(desiredOwnStatus(status, current, types, now)).toBeDefined();
  });

  test.each([
    ["a new address", { addresses: [{ type: "IPAddress", value: "10.0.0.1" }] }],
    ["a changed count", { addresses: [], attachedListenerSets: 1 }],
  ])("is written for %s", (_, fields) => {
    const current = { conditions: [at(before, accepted), at(before, programmed)] };
    expect(desiredOwnStatus({ ...status, fields }, current, types, now)).toMatchObject(fields);
  });

  test("is not written for a count of none, which the API server leaves out", () => {
    const current = { conditions: [at(before, accepted), at(before, programmed)] };
    const fields = { addresses: [], attachedListenerSets: 0 };
    expect(desiredOwnStatus({ ...status, fields }, current, types, now)).toBeUndefined();
  });

  describe("with listeners", () => {
    const listener = (name: string, attachedRoutes = 1) => ({ name, attachedRoutes, conditions: [accepted] });
    const currentListener = (name: string) => ({
      ...listener(name),
      conditions: [at(before, accepted)],
    });
    const withListeners = { ...status, listeners: [listener("http"), listener("https")] };
    const current = {
      conditions: [at(before, accepted), at(before, programmed)],
      listeners: [currentListener("https"), currentListener("http")],
    };

    test("is not written where all of them are up to date, in any order", () => {
      expect(desiredOwnStatus(withListeners, current, types, now)).toBeUndefined();
    });

    test("is written where one has another number of routes, and keeps the times of all", () => {
      const changed = { ...withListeners, listeners: [listener("http", 2), listener("https")] };
      expect(desiredOwnStatus(changed, current, types, now)?.["listeners"]).toEqual([
        { ...currentListener("http"), attachedRoutes: 2 },
        currentListener("https"),
      ]);
    });

    test("is written where one was deleted", () => {
      const changed = { ...withListeners, listeners: [listener("http")] };
      expect(desiredOwnStatus(changed, current, types, now)?.["listeners"]).toEqual([currentListener("http")]);
    });
  });
});

describe("the entries of this controller in a shared list", () => {
  const web = { group: "gateway.networking.k8s.io", kind: "Gateway", name: "web" };
  const entry = { ref: web, conditions: [accepted] };
  const ours = { parentRef: web, controllerName, conditions: [at(before, accepted)] };
  const theirs = { parentRef: web, controllerName: "example.com/other", conditions: [at(before, programmed)] };

  test("are written after those of others, which stay as they are", () => {
    expect(desiredSharedList([entry], { parents: [theirs] }, routeParents, now)).toEqual([
      theirs,
      { ...ours, conditions: [at(now, accepted)] },
    ]);
  });

  test.each([
    ["alone", [ours]],
    ["before others", [ours, theirs]],
    ["after others", [theirs, ours]],
  ])("are not written where they are up to date, %s", (_, parents) => {
    expect(desiredSharedList([entry], { parents }, routeParents, now)).toBeUndefined();
  });

  test("keep the time of a condition, matched by their reference", () => {
    const other = { ref: { ...web, sectionName: "https" }, conditions: [accepted] };
    expect(desiredSharedList([other, entry], { parents: [ours] }, routeParents, now)).toEqual([
      { parentRef: other.ref, controllerName, conditions: [at(now, accepted)] },
      ours,
    ]);
  });

  test("lose a condition that is absent now", () => {
    const partly = at(before, { type: "PartiallyInvalid", status: "True", reason: "UnsupportedValue", message: "" });
    const parents = [{ ...ours, conditions: [...ours.conditions, partly] }];
    expect(desiredSharedList([entry], { parents }, routeParents, now)).toEqual([ours]);
  });

  test("are removed where there are none any more, and nothing else is", () => {
    expect(desiredSharedList([], { parents: [ours, theirs] }, routeParents, now)).toEqual([theirs]);
    expect(desiredSharedList([], { parents: [theirs] }, routeParents, now)).toBeUndefined();
    expect(desiredSharedList([], undefined, routeParents, now)).toBeUndefined();
  });

  test("fill the free places of the list, and no more", () => {
    const others = Array.from({ length: 15 }, (_, index) => ({
      ancestorRef: { name: `other-${index}` },
      controllerName: "example.com/other",
      conditions: [],
    }));
    const entries = ["a", "b"].map((name) => ({ ref: { ...web, name }, conditions: [accepted] }));
    const list = desiredSharedList(entries, { ancestors: others }, policyAncestors, now);
    expect(list).toHaveLength(policyAncestors.max);
    expect(list?.slice(0, 15)).toEqual(others);
    expect(list?.at(-1)).toMatchObject({ ancestorRef: { name: "a" } });
  });
});
