/** The index against a plain scan that follows the API's text line by line, over random routes and requests. */
import { runToEnd } from "@gatewayproxy/runtime/steps";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Match } from "../ir/match.ts";
import type { Listener, Route, RouteRule } from "../ir/snapshot.ts";
import { compileRoutes, indexOf, type RequestHead, RouteCompiler } from "./compile-routes.ts";
import { defaultPathRules } from "./path-rules.ts";
import { bindOf, exact, listenerOf, prefix, regex, routeOf, ruleOf } from "./testing/builders.ts";

// Few words, so that routes overlap and requests hit them.
const paths = ["/", "/a", "/a/b", "/a/b/c", "/a/b/c/d/e", "/a/bc", "/ab", "/a/", "/b", "/b/a"];
const hosts = ["x.com", "a.x.com", "b.a.x.com", "c.b.a.x.com", "y.org"];
const hostnames = ["x.com", "a.x.com", "b.a.x.com", "*.x.com", "*.a.x.com", "*.b.a.x.com", "*.com"];
const wildcardOrExact = fc.constantFrom(...hostnames);

const valueMatch = fc
  .tuple(fc.constantFrom("Exact" as const, "RegularExpression" as const), fc.constantFrom("1", "2", "[12]"))
  .map(([kind, value]) => ({ kind, value }));

const seldom = <T>(arbitrary: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });

const valueMatches = fc
  .tuple(seldom(valueMatch), seldom(valueMatch))
  .map(([p, q]) => [...(p ? [{ name: "p", ...p }] : []), ...(q ? [{ name: "q", ...q }] : [])]);

const path = fc.oneof(
  fc.constantFrom(...paths).map(exact),
  fc.constantFrom(...paths.filter((value) => value === "/" || !value.endsWith("/"))).map(prefix),
  fc.constantFrom("/a.*", "/a/[bc]", "/.*/b", "/[ab]").map(regex),
  fc.constantFrom("/[^/]+/b", "/.*/[bc]").map((value) => ({ ...regex(value), yieldsToPrefixes: true as const })),
);

const match: fc.Arbitrary<Match> = fc
  .record({ path, method: seldom(fc.constantFrom("GET", "POST")), headers: valueMatches, query: valueMatches })
  .map(({ method, ...rest }) => ({ ...rest, ...(method !== undefined && { method }) }));

const rule = fc.array(match, { minLength: 1, maxLength: 3 }).map(ruleOf);

const routes: fc.Arbitrary<Route[]> = fc.uniqueArray(
  fc
    .record({
      name: fc.constantFrom("a", "b", "c", "d", "e"),
      namespace: fc.constantFrom("n", "n-m"),
      created: fc.constantFrom(undefined, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
      hostnames: fc.oneof(fc.constant([]), fc.uniqueArray(wildcardOrExact, { maxLength: 5 })),
      rules: fc.array(rule, { minLength: 1, maxLength: 3 }),
    })
    .map(({ name, created, ...rest }) => routeOf(name, { ...rest, ...(created && { creationTimestamp: created }) })),
  { selector: (route) => route.key, minLength: 2, maxLength: 8 },
);

const listeners: fc.Arbitrary<Listener[]> = fc.uniqueArray(
  fc
    .record({ hostname: fc.option(wildcardOrExact, { nil: undefined, freq: 3 }), routes })
    .map(({ hostname, routes: attached }) => listenerOf({ routes: attached, ...(hostname && { hostname }) })),
  { selector: (listener) => listener.hostname, minLength: 1, maxLength: 3 },
);

const field = fc.tuple(fc.constantFrom("p", "q", "P", "r"), fc.constantFrom("1", "2"));
const parameters = fc.array(field, { maxLength: 4 });
/** Each name occurs once, as after normalization. */
const fields = fc.uniqueArray(field, { selector: ([name]) => name.toLowerCase(), maxLength: 3 });

const request: fc.Arbitrary<RequestHead> = fc
  .record({
    method: fc.constantFrom("GET", "POST"),
    pathname: fc.constantFrom(...paths, "/a/b/c/d", "/z"),
    authority: fc.constantFrom(...hosts, "A.X.com:8080", "x.com."),
    headers: fields,
    query: parameters,
  })
  .map(({ pathname, headers, query, ...rest }) => {
    const search = query.map(([name, value]) => `${name}=${value}`).join("&");
    return { ...rest, rawHeaders: headers.flat(), path: search === "" ? pathname : `${pathname}?${search}` };
  });

interface Hit {
  readonly hostname: string | undefined;
  readonly route: Route;
  readonly rule: RouteRule;
  readonly match: Match;
  readonly order: readonly [rule: number, match: number];
}

type ValueOf = (values: readonly string[]) => string | undefined;
const first: ValueOf = (values) => values[0];
const last: ValueOf = (values) => values.at(-1);

/** @param valueOf which of the values of a query parameter a server takes. */
function scan(all: readonly Listener[], head: RequestHead, valueOf = first): Hit | undefined {
  const host = new URL(`http://${head.authority}`).hostname.replace(/\.$/, "");
  const listener = all
    .filter(({ hostname }) => covers(hostname, host))
    .sort((a, b) => byHostname(a.hostname, b.hostname))[0];
  const hits: Hit[] = [];
  for (const route of listener?.routes ?? []) {
    for (const hostname of route.hostnames.length === 0 ? [undefined] : route.hostnames) {
      if (!covers(hostname, host)) continue;
      for (const [r, candidate] of route.rules.entries()) {
        for (const [m, one] of candidate.matches.entries()) {
          if (holds(one, head, valueOf)) hits.push({ hostname, route, rule: candidate, match: one, order: [r, m] });
        }
      }
    }
  }
  return hits.sort(byPrecedence)[0];
}

function covers(hostname: string | undefined, host: string): boolean {
  if (hostname === undefined) return true;
  return hostname.startsWith("*") ? host.endsWith(hostname.slice(1)) : host === hostname;
}

function byHostname(a: string | undefined, b: string | undefined): number {
  const score = (hostname: string | undefined) =>
    hostname === undefined ? -1 : hostname.length + (hostname.startsWith("*") ? 0 : 1_000);
  return score(b) - score(a);
}

function holds({ path: wanted, method, headers, query }: Match, head: RequestHead, valueOf: ValueOf): boolean {
  const url = new URL(`http://h${head.path}`);
  const pathHolds = {
    Exact: () => url.pathname === wanted.value,
    PathPrefix: () => wanted.value === "/" || `${url.pathname}/`.startsWith(`${wanted.value}/`),
    RegularExpression: () => new RegExp(`^(?:${wanted.value})$`).test(url.pathname),
  }[wanted.kind]();
  const values = new Headers();
  for (let at = 0; at < head.rawHeaders.length; at += 2) values.append(head.rawHeaders[at]!, head.rawHeaders[at + 1]!);
  const isValue = (kind: string, pattern: string, value: string | null | undefined) =>
    value != null && (kind === "Exact" ? value === pattern : new RegExp(`^(?:${pattern})$`).test(value));
  return (
    pathHolds &&
    (method === undefined || method === head.method) &&
    headers.every(({ kind, name, value }) => isValue(kind, value, values.get(name))) &&
    query.every(({ kind, name, value }) => isValue(kind, value, valueOf(url.searchParams.getAll(name))))
  );
}

function byPrecedence(a: Hit, b: Hit): number {
  const rankOf = (wanted: Match["path"]) => {
    if (wanted.kind === "RegularExpression") return wanted.yieldsToPrefixes === true ? 3 : 1;
    if (wanted.kind === "Exact") return 0;
    return wanted.value === "/" ? 4 : 2;
  };
  const age = ({ route }: Hit) => route.creationTimestamp ?? "9999";
  const steps = [
    byHostname(a.hostname, b.hostname),
    rankOf(a.match.path) - rankOf(b.match.path),
    b.match.path.value.length - a.match.path.value.length,
    (b.match.method ? 1 : 0) - (a.match.method ? 1 : 0),
    b.match.headers.length - a.match.headers.length,
    b.match.query.length - a.match.query.length,
    age(a) < age(b) ? -1 : age(a) > age(b) ? 1 : 0,
    a.route.key < b.route.key ? -1 : a.route.key > b.route.key ? 1 : 0,
    a.order[0] - b.order[0],
    a.order[1] - b.order[1],
  ];
  return steps.find((step) => step !== 0) ?? 0;
}

test("the index finds what a plain scan by the API's rules finds", () => {
  let hits = 0;
  let otherwise = 0;
  fc.assert(
    fc.property(listeners, fc.array(request, { minLength: 4, maxLength: 8 }), (all, requests) => {
      const index = compileRoutes(bindOf(all), (_, __, compiled) => compiled);
      for (const head of requests) {
        const expected = scan(all, head);
        const found = index.find(head);
        expect(found?.route).toBe(expected?.route);
        expect(found?.compiled).toBe(expected?.rule);
        expect(found?.match).toEqual(expected?.match);
        if (found === undefined) continue;
        hits++;
        if (scan(all, head, last)?.rule === found.rule) continue;
        otherwise++;
        expect(found.isQueryAmbiguous).toBe(true);
      }
    }),
    { numRuns: 2_000 },
  );
  // The proof is empty when hardly any request finds a rule.
  expect(hits).toBeGreaterThan(2_000);
  expect(otherwise).toBeGreaterThan(10);
});

/** What becomes of a route in the next snapshot, by the place of the route among all. */
const edits = fc.array(
  fc.record({
    at: fc.nat(20),
    kind: fc.constantFrom("equal", "age", "hostnames", "matches", "removed", "added", "moved"),
    from: fc.nat(20),
  }),
  { minLength: 1, maxLength: 3 },
);

type Edit = (typeof edits extends fc.Arbitrary<infer Value> ? Value : never)[number];

/** Returns the listeners with one route changed. Other routes stay the same objects, as in a worker. */
function edited(all: readonly Listener[], { at, kind, from }: Edit): readonly Listener[] {
  const every = all.flatMap((listener) => listener.routes);
  const [route, other] = [every[at % every.length], every[from % every.length]];
  if (route === undefined || other === undefined) return all;
  const changed: Readonly<Record<Edit["kind"], () => readonly Route[]>> = {
    equal: () => [structuredClone(route)],
    age: () => [{ ...route, creationTimestamp: "2026-01-03T00:00:00Z" }],
    hostnames: () => [{ ...route, hostnames: other.hostnames }],
    matches: () => [{ ...route, rules: structuredClone(other.rules) }],
    removed: () => [],
    // It has hostnames of one route and matches of another.
    added: () => [route, routeOf(`added${from}`, { hostnames: route.hostnames, rules: other.rules })],
    moved: () => [route],
  };
  const edit = changed[kind]();
  const keys = new Set([route, ...edit].map(({ key }) => key));
  return all.map((listener, place) => {
    // At one listener, the route is attached now if it was not before, and the other way round.
    const isMoved = kind === "moved" && place === from % all.length;
    if (listener.routes.includes(route) === isMoved) return withoutKeys(listener, isMoved ? keys : none);
    const first = listener.routes.findIndex(({ key }) => keys.has(key));
    const { routes: others } = withoutKeys(listener, keys);
    return { ...listener, routes: others.toSpliced(Math.max(first, 0), 0, ...edit) };
  });
}

const none: ReadonlySet<string> = new Set();

function withoutKeys(listener: Listener, keys: ReadonlySet<string>): Listener {
  return { ...listener, routes: listener.routes.filter(({ key }) => !keys.has(key)) };
}

test("a compiler that has compiled earlier snapshots finds what a new one finds", () => {
  let hits = 0;
  fc.assert(
    fc.property(
      listeners,
      fc.array(edits, { minLength: 1, maxLength: 4 }),
      fc.array(request, { minLength: 4, maxLength: 8 }),
      (first, steps, requests) => {
        const compiler = new RouteCompiler<RouteRule>(defaultPathRules);
        let all: readonly Listener[] = first;
        for (const step of [[], ...steps]) {
          all = step.reduce(edited, all);
          const bind = bindOf([...all]);
          const rules = { compile: (_: unknown, __: unknown, compiled: RouteRule) => compiled, keeps: () => true };
          const index = indexOf(runToEnd(compiler.compileInSteps([bind], rules)), bind);
          const fresh = compileRoutes(bind, (_, __, compiled) => compiled);
          for (const head of requests) {
            const [found, expected] = [index.find(head), fresh.find(head)];
            expect(found?.route).toBe(expected?.route);
            expect(found?.rule).toBe(expected?.rule);
            expect(found?.compiled).toBe(expected?.compiled);
            expect(found?.match).toEqual(expected?.match);
            if (found !== undefined) hits++;
          }
        }
      },
    ),
    { numRuns: 500 },
  );
  expect(hits).toBeGreaterThan(1_000);
});
