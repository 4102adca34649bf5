/**
 * Compares reported conflicts with a search in the data path's own index: small worlds of listeners and
 * routes, and every request that can make a difference in them.
 */
import { runToEnd } from "@gatewayproxy/runtime/steps";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Match } from "../ir/match.ts";
import type { Listener, Route } from "../ir/snapshot.ts";
import { compileRoutes, type RequestHead } from "./compile-routes.ts";
import type { Conflict, RuleReach } from "./conflicts/findings.ts";
import { defaultPathRules } from "./path-rules.ts";
import { findRouteConflicts } from "./route-conflicts.ts";
import { bindOf, exact, listenerOf, prefix, routeOf, ruleOf } from "./testing/builders.ts";

const hostnames = ["a.x.com", "b.x.com", "*.x.com", "*.com"];
const hosts = ["a.x.com", "b.x.com", "c.x.com", "d.com", "e.org"];
const paths = ["/", "/a", "/a/b"];

const seldom = <T>(arbitrary: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 2, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });

const valueOf = (name: string, ...values: string[]) =>
  seldom(fc.constantFrom(...values).map((value) => ({ kind: "Exact" as const, name, value })));
const present = <T>(...all: readonly (T | undefined)[]): T[] => all.filter((each) => each !== undefined);

const match: fc.Arbitrary<Match> = fc
  .record({
    path: fc.oneof(fc.constantFrom(...paths).map(exact), fc.constantFrom(...paths).map(prefix)),
    method: seldom(fc.constantFrom("GET", "POST")),
    p: valueOf("p", "1", "2"),
    q: valueOf("q", "1"),
    r: valueOf("r", "1"),
  })
  .map(({ path, method, p, q, r }) => {
    return { path, ...(method !== undefined && { method }), headers: present(p, q), query: present(r) };
  });

const routes = fc.uniqueArray(
  fc
    .record({
      name: fc.constantFrom("a", "b", "c"),
      namespace: fc.constantFrom("n", "n-m"),
      created: fc.constantFrom(undefined, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
      hostnames: fc.oneof(fc.constant([]), fc.uniqueArray(fc.constantFrom(...hostnames), { maxLength: 3 })),
      rules: fc.array(fc.array(match, { minLength: 1, maxLength: 2 }).map(ruleOf), { minLength: 1, maxLength: 3 }),
    })
    .map(({ name, created, ...rest }) => routeOf(name, { ...rest, ...(created && { creationTimestamp: created }) })),
  { selector: ({ key }) => key, minLength: 1, maxLength: 5 },
);

/** A listener has the routes that have hosts in common with it, as after translation. */
const listeners: fc.Arbitrary<Listener[]> = fc.uniqueArray(
  fc
    .record({ hostname: fc.option(fc.constantFrom(...hostnames), { nil: undefined, freq: 4 }), routes })
    .map(({ hostname, routes: all }) => {
      const common = (route: Route) => route.hostnames.filter((each) => meets(hostname, each));
      const attached = all
        .filter((route) => route.hostnames.length === 0 || common(route).length > 0)
        .map((route) => ({ ...route, hostnames: common(route) }));
      return listenerOf({ name: hostname ?? "any", routes: attached, ...(hostname && { hostname }) });
    }),
  { selector: ({ hostname }) => hostname, minLength: 1, maxLength: 2 },
);

function covers(wide: string | undefined, host: string): boolean {
  return wide === undefined || wide === host || (wide.startsWith("*.") && host.endsWith(wide.slice(1)));
}

function meets(a: string | undefined, b: string): boolean {
  return covers(a, b) || (a !== undefined && covers(b, a));
}

const fields = (names: Readonly<Record<string, readonly string[]>>): [string, string][][] =>
  Object.entries(names).reduce<[string, string][][]>(
    (all, [name, values]) =>
      all.flatMap((some) => [some, ...values.map((value): [string, string][] => [...some, [name, value]])]),
    [[]],
  );

/** Every value of each header and parameter, and none; methods and paths of the matches, and one more of each. */
const requests: readonly RequestHead[] = hosts.flatMap((authority) =>
  ["GET", "POST", "PUT"].flatMap((method) =>
    paths
      .flatMap((path) => [path, `${path === "/" ? "" : path}/z`])
      .flatMap((path) =>
        fields({ p: ["1", "2"], q: ["1"] }).flatMap((headers) =>
          ["", "?r=1"].map((query) => ({ authority, method, path: path + query, rawHeaders: headers.flat() })),
        ),
      ),
  ),
);

interface Served {
  readonly head: RequestHead;
  readonly route: string;
  readonly rule: object;
}

/** The results of the index for every request, by listener. */
function serveAll(all: readonly Listener[]): ReadonlyMap<string, readonly Served[]> {
  const index = compileRoutes(bindOf(all), (_, __, rule) => rule);
  const served = requests.flatMap((head) => {
    const found = index.find(head);
    return found === undefined
      ? []
      : [{ head, listener: found.listener.key, route: found.route.key, rule: found.compiled }];
  });
  return Map.groupBy(served, ({ listener }) => listener);
}

/** Whether one match, at the hostname of the conflict, holds for a request, by an index with this match only. */
function holdsFor(listener: Listener, route: Route, rule: Route["rules"][number], conflict: Conflict) {
  const matches = rule.matches.filter((_, at) => conflict.match === undefined || at === conflict.match);
  const named = conflict.hostname === undefined ? [] : [conflict.hostname];
  const alone = { ...listener, routes: [{ ...route, hostnames: named, rules: [{ ...rule, matches }] }] };
  const index = compileRoutes(bindOf([alone]), () => true);
  return (head: RequestHead) => index.find(head) !== undefined;
}

function checkConflict(
  { all, served }: { readonly all: readonly Listener[]; readonly served: ReadonlyMap<string, readonly Served[]> },
  listener: Listener,
  [route, rule]: readonly [Route, Route["rules"][number]],
  conflict: Conflict,
): void {
  const { winner } = conflict;
  const holds = holdsFor(listener, route, rule, conflict);
  if (winner.kind === "listener") {
    const other = all.find(({ key }) => key === winner.listener);
    const lost = requests.filter(holds);
    expect(lost.every(({ authority }) => covers(other?.hostname, authority))).toBe(true);
    return;
  }
  const here = served.get(listener.key) ?? [];
  const taking = listener.routes.find(({ key }) => key === winner.route)?.rules[winner.rule];
  const taken = here.filter(({ head }) => holds(head));
  expect(taken.some((each) => each.rule === taking)).toBe(true);
  const isOwnHere = taken.some((each) => each.rule === rule);
  if (conflict.extent === "Overlap") expect(isOwnHere || rule.matches.length > 1).toBe(true);
}

test("a rule is reported as unreachable exactly if no request reaches it, and loses to the reported winner", () => {
  const seen = { unreachable: 0, overlaps: 0, byHostname: 0, byListener: 0 };
  fc.assert(
    fc.property(listeners, (all) => {
      const served = serveAll(all);
      const { byListener, unexamined } = runToEnd(
        findRouteConflicts(
          all.map((listener) => ({ ...listener, sockets: ["80"] })),
          defaultPathRules,
        ),
      );
      expect(unexamined).toBe(0);
      for (const listener of all) {
        const reached = new Set((served.get(listener.key) ?? []).map(({ rule }) => rule));
        for (const route of listener.routes) {
          const reach = byListener.get(listener.key)?.reachesOf(route.key);
          for (const [at, rule] of route.rules.entries()) {
            const reported: RuleReach = reach?.[at] ?? { isReachable: true, conflicts: [], leftOut: 0 };
            for (const conflict of reported.conflicts) {
              checkConflict({ all, served }, listener, [route, rule], conflict);
            }
            if (!reported.isReachable) seen.unreachable++;
            seen.overlaps += reported.conflicts.filter(({ extent }) => extent === "Overlap").length;
            seen.byHostname += reported.conflicts.filter(({ decidedBy }) => decidedBy === "Hostname").length;
            seen.byListener += reported.conflicts.filter(({ decidedBy }) => decidedBy === "Listener").length;
            // A route that another listener serves at the same hosts has lost nothing.
            const isElsewhere = all.some(
              (other) => other !== listener && other.routes.some(({ key }) => key === route.key),
            );
            if (isElsewhere && reported.isReachable) continue;
            expect([route.key, at, reported.isReachable]).toEqual([route.key, at, reached.has(rule)]);
          }
        }
      }
    }),
    { numRuns: 300 },
  );
  // The proof is empty where nothing of a kind is found.
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(5);
});
