import { expect, test } from "vitest";
import { controllerName } from "../../api/names.ts";
import { isLongStatus } from "../../kube/long-status.ts";
import { keptStatus } from "./kept-status.ts";

function routeStatus(messageOf: (parent: number) => string) {
  const parents = Array.from({ length: 32 }, (_, at) => ({
    parentRef: { name: `g${at}` },
    controllerName,
    conditions: [{ type: "ResolvedRefs", status: "False", message: messageOf(at) }],
  }));
  return { parents };
}

test("equal conditions of the parents of a route are kept once", () => {
  const status = routeStatus(() => "x".repeat(8_000));
  const kept = keptStatus(structuredClone(status)) as typeof status;
  expect(kept).toEqual(status);
  expect(new Set(kept.parents.map(({ conditions }) => conditions)).size).toBe(1);
});

test("equal conditions of the listeners of a Gateway are kept once", () => {
  const conditions = [{ type: "Accepted", status: "True", message: "x".repeat(8_000) }];
  const status = { listeners: Array.from({ length: 64 }, (_, at) => ({ name: `l${at}`, conditions })) };
  const kept = keptStatus(structuredClone(status)) as typeof status;
  expect(kept).toEqual(status);
  expect(new Set(kept.listeners.map((listener) => listener.conditions)).size).toBe(1);
});

test("of a status with long conditions that differ, a hash is kept, which differs with them", () => {
  const long = (end: string) => keptStatus(routeStatus((at) => `${"x".repeat(8_000)}${at}${end}`));
  expect([long("a"), long("b")].every(isLongStatus)).toBe(true);
  expect(long("a")).toEqual(long("a"));
  expect(long("a")).not.toEqual(long("b"));
});
