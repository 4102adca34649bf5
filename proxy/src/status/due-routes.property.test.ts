import fc from "fast-check";
import { expect, test } from "vitest";
import type { RouteStatus } from "../api/status.ts";
import { DueRoutes } from "./due-routes.ts";
import type { CurrentObject } from "./written-statuses.ts";

const names = ["a", "b", "c", "d", "e", "f"];
/** What happens to each route before a pass: to the object, to its desired status, and what the pass finds. */
const pass = fc.record({
  routes: fc.array(fc.constantFrom("same", "same", "changed", "missing"), {
    minLength: names.length,
    maxLength: names.length,
  }),
  statuses: fc.array(fc.constantFrom("same", "same", "changed", "missing"), {
    minLength: names.length,
    maxLength: names.length,
  }),
  open: fc.array(fc.boolean(), { minLength: names.length, maxLength: names.length }),
});

test("routes are due that have changed, whose desired status has, and that were not up to date", () => {
  fc.assert(
    fc.property(fc.array(pass, { minLength: 2, maxLength: 8 }), (passes) => {
      const dueRoutes = new DueRoutes();
      const routes = new Map<string, CurrentObject>();
      const statuses = new Map<string, RouteStatus>();
      let open = new Set<CurrentObject>();
      let known: ReadonlyMap<CurrentObject, RouteStatus | undefined> = new Map();
      for (const next of passes) {
        for (const [at, name] of names.entries()) {
          if (next.routes[at] === "missing") {
            routes.delete(name);
          } else if (next.routes[at] === "changed" || !routes.has(name)) {
            routes.set(name, { metadata: { namespace: "n", name, uid: name }, status: undefined });
          }
          if (next.statuses[at] === "missing") {
            statuses.delete(name);
          } else if (next.statuses[at] === "changed" || !statuses.has(name)) {
            statuses.set(name, { namespace: "n", name, parents: [] });
          }
        }
        const due = dueRoutes.of([...routes.values()], [...statuses.values()]);
        const expected = [...routes].filter(([name, route]) => {
          return open.has(route) || !known.has(route) || known.get(route) !== statuses.get(name);
        });
        expect(new Set(due)).toEqual(new Set(expected.map(([, route]) => route)));
        expect(new Set(due).size).toBe(due.length);
        for (const route of due) expect(dueRoutes.statusOf(route)).toBe(statuses.get(route.metadata.name));
        open = new Set(due.filter((route) => next.open[names.indexOf(route.metadata.name)]));
        dueRoutes.settle([...open]);
        known = new Map(Array.from(routes, ([name, route]) => [route, statuses.get(name)]));
      }
    }),
  );
});
