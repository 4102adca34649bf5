/** The cost of comparing thousands of routes. Steps are counted, not timed. */
import { describe, expect, test } from "vitest";
import { type ConflictListener, type FoundConflicts, maxWinners } from "./conflicts/findings.ts";
import { defaultPathRules } from "./path-rules.ts";
import { findRouteConflicts } from "./route-conflicts.ts";
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
  expect([...(found.byListener.get("l")?.losers ?? [])].length).toBe(losers);
  expect(found.unexamined).toBe(0);
  expect(steps).toBeLessThan(5 * many);
});

describe("routes with 16 hostnames and 16 rules each, of which more specific listeners take all hostnames", () => {
  const count = 400;
  const perRoute = 16;

  /** Reads of the routes' hostnames and of their rules' matches: in all, and in the longest step. */
  function countReads(takers: readonly string[]) {
    let reads = 0;
    const routes = Array.from({ length: count }, (_, at): ConflictListener["routes"][number] => {
      const hostnames = Array.from({ length: perRoute }, (__, host) => `r${at}.h${host}.test`);
      const rules = Array.from({ length: perRoute }, (__, rule) => {
        const matches = [matchOf({ path: prefix(`/${rule}`) })];
        return {
          get matches() {
            reads++;
            return matches;
          },
        };
      });
      return {
        key: `default/r${at}`,
        rules,
        get hostnames() {
          reads++;
          return hostnames;
        },
      };
    });
    const others = takers.map((hostname) => ({ key: hostname, hostname, sockets: ["80"], routes: [] }));
    const search = findRouteConflicts([{ key: "l", sockets: ["80"], routes }, ...others], defaultPathRules);
    let longest = 0;
    for (let steps = 1; ; steps++) {
      const before = reads;
      const step = search.next();
      longest = Math.max(longest, reads - before);
      if (step.done === true) return { found: step.value, reads, longest, steps };
    }
  }

  test.each([1, 2, perRoute])(
    "are gone through in short steps, and not once for each pair, by %i listeners",
    (takers) => {
      const each = Array.from({ length: takers }, (_, host) => `*.h${host}.test`);
      const { found, reads, longest, steps } = countReads(takers === 1 ? ["*.test"] : each);
      const losses = found.byListener.get("l");
      const reaches = Array.from(losses?.losers ?? [], (route) => losses?.reachesOf(route) ?? []).flat();
      expect(reaches).toHaveLength(count * perRoute);
      const [first] = reaches;
      expect(first?.conflicts.map(({ winner }) => winner)).toEqual(
        (takers === 1 ? ["*.test"] : each).slice(0, maxWinners).map((listener) => ({ kind: "listener", listener })),
      );
      expect(first?.leftOut).toBe(Math.max(0, takers - maxWinners));
      // Two listeners leave 14 hostnames.
      expect(new Set(reaches.map(({ isReachable }) => isReachable))).toEqual(new Set([takers === 2]));
      expect(found.unexamined).toBe(0);
      const rules = count * perRoute;
      expect(reads).toBeLessThan(5 * rules);
      expect(longest).toBeLessThan(rules / 10);
      expect(steps).toBeLessThan(5 * count);
    },
  );
});
