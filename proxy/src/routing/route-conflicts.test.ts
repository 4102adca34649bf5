/** What comparing thousands of routes costs: its steps are counted, not timed. */
import { expect, test } from "vitest";
import { defaultPathRules } from "./path-rules.ts";
import { type FoundConflicts, findRouteConflicts } from "./route-conflicts.ts";
import { matchOf, prefix, routeOf, ruleOf } from "./testing/builders.ts";

const many = 5_000;

function find(routeAt: (at: number) => Parameters<typeof routeOf>[1]): { found: FoundConflicts; steps: number } {
  const routes = Array.from({ length: many }, (_, at) => routeOf(`r${String(at).padStart(4, "0")}`, routeAt(at)));
  const search = findRouteConflicts([{ key: "l", sockets: ["80"], routes }], defaultPathRules);
  for (let steps = 1; ; steps++) {
    const step = search.next();
    if (step.done === true) return { found: step.value, steps };
  }
}

test.each([
  ["equal ones", () => ({}), many - 1],
  ["equal ones with 16 hostnames", () => ({ hostnames: Array.from({ length: 16 }, (_, n) => `h${n}.com`) }), many - 1],
  ["different ones", (at: number) => ({ rules: [ruleOf([matchOf({ path: prefix(`/${at}`) })])] }), 0],
] as const)("5,000 routes, %s, take a few steps for each", (_, routeAt, losers) => {
  const { found, steps } = find(routeAt);
  expect(found.byListener.get("l")?.size ?? 0).toBe(losers);
  expect(found.unexamined).toBe(0);
  expect(steps).toBeLessThan(5 * many);
});
