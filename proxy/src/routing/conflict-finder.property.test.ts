/**
 * Random series of configurations: a finder that keeps the conflicts of unchanged families finds what a new one finds,
 * and what a comparison of all routes together finds, with budgets that suffice and with budgets that do not.
 */
import { runToEnd } from "@gatewayproxy/runtime/steps";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type ComparedListener, ConflictFinder } from "./conflict-finder.ts";
import { Allowance, type Budget } from "./conflicts/budget.ts";
import type { ConflictRoute, FoundConflicts } from "./conflicts/findings.ts";
import { defaultPathRules } from "./path-rules.ts";
import { MatchReader } from "./match-entry.ts";
import { findRouteConflicts } from "./route-conflicts.ts";
import { matchOf, prefix, ruleOf } from "./testing/builders.ts";

const names = ["a", "b", "c", "d", "e", "f", "g", "h"];
const hostnames = ["a.x.com", "b.x.com", "*.x.com", "a.y.com", "*.y.com"];
const sites = [
  { key: "any", sockets: ["80"] },
  { key: "x", hostname: "*.x.com", sockets: ["80"] },
  { key: "a", hostname: "a.x.com", sockets: ["80", "81"] },
  { key: "other", sockets: ["81"] },
];

const match = fc
  .record({
    path: fc.constantFrom("/", "/a", "/a/b").map(prefix),
    method: fc.constantFrom(undefined, undefined, "GET"),
    header: fc.constantFrom("", "", "p", "q"),
  })
  .map(({ path, method, header }) =>
    matchOf({
      path,
      ...(method !== undefined && { method }),
      headers: header === "" ? [] : [{ kind: "Exact", name: header, value: "1" }],
    }),
  );

/** A route as it is in the next configuration; without listeners, it is removed. */
const edit = fc.record({
  name: fc.constantFrom(...names),
  namespace: fc.constantFrom("n", "m"),
  creationTimestamp: fc.constantFrom("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
  hostnames: fc.uniqueArray(fc.constantFrom(...hostnames), { maxLength: 2 }),
  rules: fc.array(fc.array(match, { minLength: 1, maxLength: 2 }).map(ruleOf), { minLength: 1, maxLength: 2 }),
  listeners: fc.subarray(sites.map(({ key }) => key)),
  /** The only field of an existing route that changes. */
  only: fc.constantFrom(undefined, "creationTimestamp", "hostnames", "rules", "listeners"),
});

type Edit = typeof edit extends fc.Arbitrary<infer Value> ? Value : never;
type Routes = ReadonlyMap<string, { readonly route: ConflictRoute; readonly listeners: readonly string[] }>;

function edited(routes: Routes, { name, namespace, listeners, only, ...fields }: Edit): Routes {
  const key = `${namespace}/${name}`;
  const next = { route: { key, ...fields }, listeners };
  const last = routes.get(key);
  if (last === undefined || only === undefined) return new Map(routes).set(key, next);
  const edit =
    only === "listeners" ? { ...last, listeners } : { ...last, route: { ...last.route, [only]: fields[only] } };
  return new Map(routes).set(key, edit);
}

function listenersOf(routes: Routes): readonly ComparedListener[] {
  return sites.map((site) => {
    const own = Array.from(routes.values()).flatMap(({ route, listeners }) =>
      listeners.includes(site.key) ? [route] : [],
    );
    return { ...site, routes: [own.slice(0, 4), own.slice(4)] };
  });
}

/** All that can be read of conflicts. */
function readable({ byListener, unexamined }: FoundConflicts) {
  const reaches = sites.flatMap(({ key }) => {
    const found = byListener.get(key);
    return Array.from(found?.losers ?? [], (route) => [key, route, found?.reachesOf(route)] as const);
  });
  const sorted = reaches.toSorted(([a, b], [c, d]) => (`${a} ${b}` < `${c} ${d}` ? -1 : 1));
  return { sorted, listeners: new Set(byListener.keys()), unexamined };
}

test("a finder that has found earlier conflicts finds what a new one finds", () => {
  let [conflicts, limited, ample] = [0, 0, 0];
  fc.assert(
    fc.property(
      fc.constantFrom({ lookUps: 1e6, stored: 1e6 }, { lookUps: 10, stored: 1e6 }, { lookUps: 1e6, stored: 4 }),
      fc.array(edit, { minLength: 1, maxLength: 12 }),
      fc.array(fc.array(edit, { minLength: 1, maxLength: 2 }), { minLength: 1, maxLength: 6 }),
      (budget, first, series) => {
        const budgetOf = (inputSize: number, demands: ReadonlyMap<string, number>): Budget => ({
          lookUps: new Allowance(budget.lookUps + inputSize, demands),
          stored: new Allowance(budget.stored, demands),
        });
        const finder = new ConflictFinder(budgetOf);
        let routes: Routes = new Map();
        for (const edits of [first, ...series]) {
          routes = edits.reduce(edited, routes);
          const listeners = listenersOf(routes);
          const own = readable(runToEnd(finder.find(listeners, defaultPathRules)));
          expect(own).toEqual(readable(runToEnd(new ConflictFinder(budgetOf).find(listeners, defaultPathRules))));
          const whole = listeners.map((listener) => ({ ...listener, routes: listener.routes.flat() }));
          const together = readable(
            runToEnd(findRouteConflicts(whole, defaultPathRules, new MatchReader(defaultPathRules), budgetOf)),
          );
          if (own.unexamined > 0 || together.unexamined === 0) expect(own).toEqual(together);
          conflicts += own.sorted.length;
          if (own.unexamined > 0) limited++;
          else ample++;
        }
      },
    ),
    { numRuns: 300 },
  );
  expect(conflicts).toBeGreaterThan(300);
  expect(limited).toBeGreaterThan(30);
  expect(ample).toBeGreaterThan(300);
});
