/** Hundreds of large routes of one tenant: what compiling them takes of a worker, in memory and in one turn. */
import { expect, test } from "vitest";
import type { Route } from "../../../proxy/src/ir/snapshot.ts";
import { compileRoutesInTurns } from "../../../proxy/src/routing/compile-routes.ts";
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
import { usedMemory } from "../../support/memory.ts";
import { hardeningSeconds } from "../support/fuzz.ts";

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

/** 16 of `pool` hostnames, for each route others. */
const drawnFrom = (pool: number) => (route: number) =>
  Array.from({ length: 16 }, (_, at) => `h${(route * 7 + at * (1 + (route % 5))) % pool}.test`);

/** The longest turn of the event loop while `work` is done, in milliseconds of the processor. */
async function longestTurn<Value>(work: () => Promise<Value>): Promise<{ value: Value; longestMs: number }> {
  const cpuMs = (): number => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1_000;
  };
  let longestMs = 0;
  let lastMs = cpuMs();
  let isDone = false;
  const turn = (): void => {
    const nowMs = cpuMs();
    longestMs = Math.max(longestMs, nowMs - lastMs);
    lastMs = nowMs;
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  const value = await work();
  isDone = true;
  turn();
  return { value, longestMs };
}

const deepPath = (route: number, match: number) =>
  prefix(`/${Array.from({ length: 400 }, (_, at) => (at === 390 ? `${route}-${match}` : "s")).join("/")}`);

const cases = [
  ["300 routes at 16 of 64 hostnames each", 300, drawnFrom(64), shortPath],
  ["300 routes at 16 of 128", 300, drawnFrom(128), shortPath],
  ["600 routes at 16 of 32", 600, drawnFrom(32), shortPath],
  ["600 routes at 16 hostnames of their own", 600, (route: number) => drawnFrom(1e6)(route * 16), shortPath],
  ["1,000 routes at one hostname", 1_000, () => [], shortPath],
  ["1,000 routes with one path", 1_000, () => [], () => prefix("/")],
  ["1,000 routes with one exact path", 1_000, drawnFrom(64), () => exact("/a")],
  ["100 routes with prefixes of 400 segments", 100, drawnFrom(64), deepPath],
] as const;

/** The work of all cases takes too long for each run; a turn is only as long as the machine lets it be. */
const isLong = hardeningSeconds !== undefined;

test.each(isLong ? cases : cases.slice(0, 1))(
  "%s take little memory, and no long turn",
  async (_, count, hostnamesOf, path) => {
    const bind = bindOf([listenerOf({ routes: largeRoutes(count, hostnamesOf, path) })]);
    const before = await usedMemory();
    const { value: index, longestMs } = await longestTurn(() =>
      compileRoutesInTurns(bind, () => ({}), defaultPathRules),
    );
    const taken = (await usedMemory()) - before;
    expect(taken).toBeLessThan(64 * mib);
    if (isLong) {
      console.log(`${Math.round(taken / mib)} MiB, longest turn ${Math.round(longestMs)} ms`);
      expect(longestMs).toBeLessThan(40);
    }
    expect(index.findListener("h.test")).toBeDefined();
  },
);

test.runIf(isLong)("conditions of a route at 64 listeners are held once", async () => {
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
  const index = await compileRoutesInTurns(bindOf(listeners), () => ({}), defaultPathRules);
  const taken = (await usedMemory()) - before;
  console.log(`${Math.round(taken / mib)} MiB`);
  expect(taken).toBeLessThan(64 * mib);
  expect(index.findListener("l7.test")).toBeDefined();
});
