/**
 * Hundreds of large routes of one tenant: the cost of their compilation to a worker, in memory and in one turn of the
 * event loop.
 */
import { expect, test } from "vitest";
import { parseResource } from "../../../proxy/src/api/parse-resource.ts";
import { type Resource, type ResourceSet, resourceSet } from "../../../proxy/src/api/resource.ts";
import type { Route } from "../../../proxy/src/ir/snapshot.ts";
import { indexOf, RouteCompiler } from "../../../proxy/src/routing/compile-routes.ts";
import { defaultPathRules } from "../../../proxy/src/routing/path-rules.ts";
import {
  bindOf,
  exact,
  listenerOf,
  matchOf,
  prefix,
  routeOf,
  ruleOf,
} from "../../../proxy/src/routing/testing/builders.ts";
import { translate } from "../../../proxy/src/translate/translate.ts";
import { usedMemory } from "../../support/memory.ts";
import { hardeningSeconds } from "../support/fuzz.ts";
import { longestTurnMs } from "../support/longest-turn.ts";
import { gatewayApi } from "../../support/api-versions.ts";

const mib = 1024 * 1024;

/** 16 rules with 8 matches each, as many as an HTTPRoute may have. */
function largeRoutes(count: number, hostnamesOf: (route: number) => readonly string[], path = shortPath): Route[] {
  return Array.from({ length: count }, (_, route) =>
    routeOf(`r${route}`, {
      hostnames: [...new Set(hostnamesOf(route))],
      rules: Array.from({ length: 16 }, (__, rule) =>
        ruleOf(Array.from({ length: 8 }, (___, match) => matchOf({ path: path(route, rule * 8 + match) }))),
      ),
    }),
  );
}

const shortPath = (route: number, match: number) => prefix(`/p${(route * 31 + match) % 9_973}/${route}`);

/** 16 of `pool` hostnames, others for each route. */
const drawnFrom = (pool: number) => (route: number) =>
  Array.from({ length: 16 }, (_, at) => `h${(route * 7 + at * (1 + (route % 5))) % pool}.test`);

const deepPath = (route: number, match: number) =>
  prefix(`/${Array.from({ length: 400 }, (_, at) => (at === 390 ? `${route}-${match}` : "s")).join("/")}`);

const cases = [
  ["300 routes at 16 of 64 hostnames each", 300, drawnFrom(64), shortPath],
  ["300 routes at 16 of 128", 300, drawnFrom(128), shortPath],
  ["600 routes at 16 of 32", 600, drawnFrom(32), shortPath],
  ["600 routes at 16 separate hostnames", 600, (route: number) => drawnFrom(1e6)(route * 16), shortPath],
  ["1,000 routes at one hostname", 1_000, () => [], shortPath],
  ["1,000 routes with one path", 1_000, () => [], () => prefix("/")],
  ["1,000 routes with one exact path", 1_000, drawnFrom(64), () => exact("/a")],
  ["100 routes with prefixes of 400 segments", 100, drawnFrom(64), deepPath],
] as const;

/** All cases together take too long for each run; the bound of a turn depends on the machine. */
const isLong = hardeningSeconds !== undefined;

test.each(isLong ? cases : cases.slice(0, 1))(
  "%s use little memory, and no turn is long",
  async (_, count, hostnamesOf, path) => {
    const bind = bindOf([listenerOf({ routes: largeRoutes(count, hostnamesOf, path) })]);
    const before = await usedMemory();
    const compile = () => new RouteCompiler(defaultPathRules).compile([bind], { compile: () => ({}) });
    const compiled = await compile();
    const taken = (await usedMemory()) - before;
    expect(taken).toBeLessThan(64 * mib);
    if (isLong) {
      const longestMs = await longestTurnMs(compile, 40);
      console.log(`${Math.round(taken / mib)} MiB, longest turn ${Math.round(longestMs)} ms`);
      expect(longestMs).toBeLessThan(40);
    }
    expect(indexOf(compiled, bind).findListener("h.test")).toBeDefined();
  },
);

test.runIf(isLong)("conditions of a route at 64 listeners are stored once", async () => {
  const condition = (name: string) => ({ kind: "Exact", name, value: "v" }) as const;
  const names = Array.from({ length: 16 }, (_, at) => condition(`n${at}`));
  const rules = Array.from({ length: 16 }, () =>
    ruleOf(Array.from({ length: 8 }, (_, at) => matchOf({ path: prefix(`/${at}`), headers: names, query: names }))),
  );
  const routes = Array.from({ length: 20 }, (_, at) => routeOf(`r${at}`, { rules }));
  const listeners = Array.from({ length: 64 }, (_, at) =>
    listenerOf({ name: `l${at}`, hostname: `l${at}.test`, routes }),
  );
  const before = await usedMemory();
  const bind = bindOf(listeners);
  const compiled = await new RouteCompiler(defaultPathRules).compile([bind], { compile: () => ({}) });
  const taken = (await usedMemory()) - before;
  console.log(`${Math.round(taken / mib)} MiB`);
  expect(taken).toBeLessThan(64 * mib);
  expect(indexOf(compiled, bind).findListener("l7.test")).toBeDefined();
});

function resource(kind: string, name: string, spec: object): Resource {
  const parsed = parseResource({ apiVersion: gatewayApi, kind, metadata: { name, namespace: "default" }, spec });
  if (parsed.kind !== "resource") throw new Error(`${kind} ${name} is not read`);
  return parsed.resource;
}

/** A Gateway with 64 listeners that accept all routes, and `count` routes with the maximum of matches. */
function manyListeners(count: number, listenerAt: (at: number) => object): ResourceSet {
  const listeners = Array.from({ length: 64 }, (_, at) => ({ name: `l${at}`, protocol: "HTTP", ...listenerAt(at) }));
  const routes = Array.from({ length: count }, (_, route) =>
    resource("HTTPRoute", `r${route}`, {
      parentRefs: [{ name: "g" }],
      rules: Array.from({ length: 16 }, (__, rule) => ({
        matches: Array.from({ length: 8 }, (___, match) => ({ path: { value: `/${route}/${rule}/${match}` } })),
        filters: [{ type: "RequestHeaderModifier", requestHeaderModifier: { set: [{ name: "a", value: "b" }] } }],
      })),
    }),
  );
  // Routes of each listener alone, so that no two listeners have the same routes.
  const alone = listeners.map(({ name }) =>
    resource("HTTPRoute", name, { parentRefs: [{ name: "g", sectionName: name }] }),
  );
  return resourceSet([resource("Gateway", "g", { gatewayClassName: "gateway-proxy", listeners }), ...routes, ...alone]);
}

test.each([
  ["one port", (at: number) => ({ port: 80, hostname: `l${at}.test` })],
  ["64 ports", (at: number) => ({ port: 8_000 + at })],
])("100 large routes at 64 listeners of %s use hardly more memory than at one", async (_, listenerAt) => {
  const count = isLong ? 100 : 10;
  const resources = manyListeners(count, listenerAt);
  const before = await usedMemory();
  // In the form that a worker receives.
  const { binds } = structuredClone({ binds: translate(resources).binds });
  const compileRule = (gateway: object, route: object, rule: object) => ({ gateway, route, rule });
  const compiled = await new RouteCompiler(defaultPathRules).compile(binds, { compile: compileRule });
  const taken = (await usedMemory()) - before;
  console.log(`${Math.round(taken / mib)} MiB`);
  expect(taken).toBeLessThan((isLong ? 32 : 8) * mib);
  const last = binds.at(-1);
  const head = { method: "GET", path: `/${count - 1}/15/7`, authority: "l63.test", rawHeaders: [] };
  expect(last && indexOf(compiled, last).find(head)?.listener.name).toBe("l63");
});
