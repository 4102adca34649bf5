import { runToEnd } from "@gatewayproxy/runtime/steps";
import { describe, expect, test, vi } from "vitest";
import type { Match, PathMatch } from "../ir/match.ts";
import type { Route } from "../ir/snapshot.ts";
import { BudgetExceeded, WorkBudget } from "../regex/work-budget.ts";
import { compileRoutes, RouteCompiler, maxMatchUnits, type RequestHead, type RouteIndex } from "./compile-routes.ts";
import { Pace } from "./pace.ts";
import { PathIndex } from "./path-index.ts";
import { PathIndexBuilder } from "./path-index-builder.ts";
import { defaultPathRules } from "./path-rules.ts";
import { RequestReading } from "./request-reading.ts";
import { bindOf, exact, listenerOf, matchOf, prefix, regex, routeOf, ruleOf } from "./testing/builders.ts";

/** Finds the rule key of a request, or `404`. */
function ruleFor(index: RouteIndex<string>, head: Partial<RequestHead>): string {
  const whole = { method: "GET", path: "/", authority: "example.com", rawHeaders: [], ...head };
  return index.find(whole)?.compiled ?? "404";
}

/** One listener for all hosts; each entry is one route with one match, by name. */
function indexOf(matches: Readonly<Record<string, Partial<Match>>>): RouteIndex<string> {
  const routes = Object.entries(matches).map(([name, match]) => routeOf(name, { rules: [ruleOf([matchOf(match)])] }));
  return compileRoutes(bindOf([listenerOf({ routes })]), (_, route) => route.name);
}

describe("paths", () => {
  const index = indexOf({
    root: { path: prefix("/") },
    foo: { path: prefix("/foo") },
    "foo-bar": { path: prefix("/foo/bar") },
    "foo-exact": { path: exact("/foo") },
    "slash-exact": { path: exact("/foo/baz/") },
    versioned: { path: regex("/v[0-9]+/.*") },
    "versioned-longer": { path: regex("/v[0-9]+/users/.*") },
    "v1-prefix": { path: prefix("/v1/users") },
    cafe: { path: prefix("/caf%c3%a9") },
  });

  test.each([
    ["an exact path before the prefix of the same text", "/foo", "foo-exact"],
    ["the prefix for the same path with a slash", "/foo/", "foo"],
    ["the longest prefix", "/foo/bar/x", "foo-bar"],
    ["the shorter prefix where the longer ends inside a segment", "/foo/barn", "foo"],
    ["a prefix by whole segments only", "/foobar", "root"],
    ["paths with attention to case", "/Foo", "root"],
    ["an exact path with attention to the trailing slash", "/foo/baz", "foo"],
    ["an exact path that has one", "/foo/baz/", "slash-exact"],
    ["the path without the query", "/foo?/foo/bar", "foo-exact"],
    ["a regular expression before a prefix", "/v1/users", "versioned"],
    ["the longer regular expression first", "/v1/users/7", "versioned-longer"],
    ["a regular expression for the whole path only", "/x/v1/y", "root"],
    ["escapes whatever the case of their digits", "/caf%C3%A9/menu", "cafe"],
  ])("matches %s", (_, path, route) => {
    expect(ruleFor(index, { path })).toBe(route);
  });

  test("finds nothing if no prefix is declared for the rest", () => {
    expect(ruleFor(indexOf({ foo: { path: prefix("/foo") } }), { path: "/bar" })).toBe("404");
  });

  test("matches no prefix for the asterisk of OPTIONS", () => {
    expect(ruleFor(indexOf({ root: {} }), { path: "*", method: "OPTIONS" })).toBe("404");
  });
});

describe("conditions", () => {
  const header = (name: string, value: string) => ({ kind: "Exact", name, value }) as const;
  const pattern = (name: string, value: string) => ({ kind: "RegularExpression", name, value }) as const;

  test.each([
    ["a header whatever the case of its name", ["X-Version", "v2"], "yes"],
    ["a header with attention to the case of its value", ["x-version", "V2"], "404"],
    ["no request without the header", ["x-versions", "v2"], "404"],
  ])("a header match accepts %s", (_, rawHeaders, expected) => {
    expect(ruleFor(indexOf({ yes: { headers: [header("x-version", "v2")] } }), { rawHeaders })).toBe(expected);
  });

  test("the host header is the authority, which HTTP/2 sends in its place", () => {
    expect(ruleFor(indexOf({ yes: { headers: [header("host", "example.com")] } }), {})).toBe("yes");
  });

  test("a regular expression must match the whole header value", () => {
    const index = indexOf({ yes: { headers: [pattern("x", "a+")] } });
    expect(["aaa", "aab"].map((value) => ruleFor(index, { rawHeaders: ["x", value] }))).toEqual(["yes", "404"]);
  });

  test("all headers of one match must hold", () => {
    const index = indexOf({ yes: { headers: [header("a", "1"), header("b", "2")] } });
    expect(ruleFor(index, { rawHeaders: ["a", "1"] })).toBe("404");
    expect(ruleFor(index, { rawHeaders: ["a", "1", "b", "2"] })).toBe("yes");
  });

  test.each([
    ["by its first value", "/?q=x&q=y", "yes"],
    ["not by a later value", "/?q=y&q=x", "404"],
    ["with attention to the case of its name", "/?Q=x", "404"],
    ["decoded", "/?a&%71=%78", "yes"],
    ["not as a part of another", "/?qq=x&aq=x", "404"],
    ["not when there is no query", "/", "404"],
    ["when another value holds what looks like it", "/?z=q=x", "404"],
  ])("a query parameter is matched %s", (_, path, expected) => {
    expect(ruleFor(indexOf({ yes: { query: [header("q", "x")] } }), { path })).toBe(expected);
  });

  test.each([
    ["in escapes", "/?%71=x", "yes"],
    ["behind a longer one", "/?qq=x&q=x", "yes"],
    ["behind broken escapes", "/?%zz&%q&%&q=x", "yes"],
    ["not as the value of another", "/?a=q&b=q=x", "404"],
    ["not as the beginning of another", "/?q%71=x", "404"],
    ["not as the end of another", "/?%q=x", "404"],
  ])("the name of a query parameter is found %s", (_, path, expected) => {
    expect(ruleFor(indexOf({ yes: { query: [header("q", "x")] } }), { path })).toBe(expected);
  });

  test.each([
    ["a+b", "/?a+b=x", "404"],
    ["a+b", "/?a%2Bb=x", "yes"],
    ["a&b", "/?a&b=x", "404"],
    ["a&b", "/?a%26b=x", "yes"],
  ])("a query parameter named %s is decoded as forms are: %s", (name, path, expected) => {
    expect(ruleFor(indexOf({ yes: { query: [header(name, "x")] } }), { path })).toBe(expected);
  });

  test("a query value is form-decoded, or taken as it stands when an escape is broken", () => {
    const index = indexOf({ space: { query: [header("q", "a b")] }, raw: { query: [header("q", "100%")] } });
    expect(["/?q=a+b", "/?q=a%20b", "/?q=100%"].map((path) => ruleFor(index, { path }))).toEqual([
      "space",
      "space",
      "raw",
    ]);
  });

  test("a method is matched exactly, and a match without one takes every method", () => {
    const index = indexOf({ post: { method: "POST" }, any: {} });
    expect(["POST", "GET"].map((method) => ruleFor(index, { method }))).toEqual(["post", "any"]);
  });

  test("a less specific path serves when the conditions of the specific one do not hold", () => {
    const index = indexOf({
      exact: { path: exact("/a/b"), method: "POST" },
      deep: { path: prefix("/a/b"), headers: [header("x", "1")] },
      shallow: { path: prefix("/a") },
    });
    expect(ruleFor(index, { path: "/a/b" })).toBe("shallow");
    expect(ruleFor(index, { path: "/a/b", rawHeaders: ["X", "1"] })).toBe("deep");
    expect(ruleFor(index, { path: "/a/b", method: "POST", rawHeaders: ["X", "1"] })).toBe("exact");
  });
});

describe("the work of a search", () => {
  /** 16 parameters each; the last one, which decides, never holds. */
  const name = (at: number) => `${"a".repeat(40)}${String.fromCharCode(98 + at)}`;
  const nearly = (count: number): Match[] =>
    Array.from({ length: count }, (_, at) =>
      matchOf({
        query: Array.from({ length: 16 }, (__, n) => ({
          kind: "Exact" as const,
          name: name(n),
          value: n === 15 ? `no${at}` : "v",
        })),
        headers: [{ kind: "Exact" as const, name: "x-last", value: "1" }],
      }),
    );
  const escaped = `${"%61".repeat(40)}z&`.repeat(120);
  const path = `/?${escaped}${Array.from({ length: 16 }, (_, n) => `${name(n)}=v`).join("&")}`;

  /** Counts how often characters and headers are read. */
  function counted() {
    const reads = { path: 0, headers: 0 };
    const fields = [...Array.from({ length: 60 }, (_, at) => [`x-${at}`, "1"]).flat(), "X-Last", "1"];
    const rawHeaders = new Proxy(fields, {
      get(target, key) {
        if (typeof key === "string" && /^\d+$/.test(key)) reads.headers += 1;
        return Reflect.get(target, key) as unknown;
      },
    });
    const head = {
      ...{ method: "GET", authority: "h", rawHeaders },
      get path() {
        reads.path += 1;
        return path;
      },
    };
    return { head, reads };
  }

  const searching = (matches: readonly Match[]) =>
    compileRoutes(bindOf([listenerOf({ routes: [routeOf("r", { rules: [ruleOf(matches)] })] })]), () => "");

  test("reads a query and its headers once, however many matches have conditions", () => {
    const workOf = (count: number) => {
      const { head, reads } = counted();
      expect(searching(nearly(count)).find(head)).toBeUndefined();
      return { ...reads };
    };
    expect(workOf(1)).toEqual({ path: 1, headers: 2 * 61 });
    expect(workOf(128)).toEqual(workOf(1));
  });

  test("has a bound, whatever the number of matches", () => {
    const index = searching(nearly(4_000));
    const budget = new WorkBudget(maxMatchUnits);
    expect(() => index.find(counted().head, budget)).toThrow(BudgetExceeded);
    expect(budget.left).toBeGreaterThan(-100);
  });

  test.each([
    ["values with broken escapes", Array.from({ length: 3_000 }, (_, at) => `k${at}=%ff`).join("&")],
    ["one long value", `k0=${"%61".repeat(15_000)}`],
  ])("has a bound over %s", (_, query) => {
    const matches = Array.from({ length: 3_000 }, (__, at) =>
      matchOf({ query: [{ kind: "Exact", name: `k${at}`, value: "no" }] }),
    );
    const budget = new WorkBudget(maxMatchUnits);
    const find = () =>
      searching(matches).find({ method: "GET", path: `/?${query}`, authority: "h", rawHeaders: [] }, budget);
    if (query.includes("&")) expect(find).toThrow(BudgetExceeded);
    else expect(find()).toBeUndefined();
  });

  test("counts what is compared for every hostname that is tried, and no segment for itself", () => {
    const deep = `/${"s/".repeat(500)}s`;
    const unitsWith = (count: number): number => {
      const hostnames = Array.from({ length: count }, (_, at) => `*.${"h.".repeat(at)}h`);
      const route = routeOf("r", { hostnames, rules: [ruleOf([matchOf({ path: prefix(deep), method: "PUT" })])] });
      const index = compileRoutes(bindOf([listenerOf({ routes: [route] })]), () => "");
      const budget = new WorkBudget(maxMatchUnits);
      const head = { method: "GET", path: deep, authority: `${"h.".repeat(120)}h`, rawHeaders: [] };
      expect(index.find(head, budget)).toBeUndefined();
      return maxMatchUnits - budget.left;
    };
    expect(unitsWith(1)).toBeGreaterThan(8);
    expect(unitsWith(1)).toBeLessThan(20);
    expect(unitsWith(100)).toBeCloseTo(100 * unitsWith(1));
  });

  test("costs what it would without the routes of other hostnames", () => {
    const own = routeOf("own", { hostnames: ["own.test"], rules: [ruleOf([matchOf({ path: prefix("/a/b/c/d") })])] });
    const paths = ["/", "/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/b/c/d/e", "/a/b/c/d/e/f"];
    const others = Array.from({ length: 100 }, (_, at) =>
      routeOf(`other${at}`, {
        hostnames: ["other.test"],
        rules: [ruleOf(paths.flatMap((path) => [matchOf({ path: prefix(path) }), matchOf({ path: exact(path) })]))],
      }),
    );
    const unitsWith = (routes: readonly Route[]): number => {
      const index = compileRoutes(bindOf([listenerOf({ routes })]), (_, route) => route.name);
      const budget = new WorkBudget(maxMatchUnits);
      const head = { method: "GET", path: "/a/b/c/d/e/f/g", authority: "own.test", rawHeaders: [] };
      expect(index.find(head, budget)?.compiled).toBe("own");
      return maxMatchUnits - budget.left;
    };
    // A branch for each segment of the own prefix, where others divide it.
    expect(unitsWith([own, ...others]) - unitsWith([own])).toBeLessThanOrEqual(4);
  });

  test("suffices for 5,000 routes on one path, distinguished by a header and a parameter", () => {
    const routes = Array.from({ length: 5_000 }, (_, at) =>
      routeOf(`r${at}`, {
        rules: [
          ruleOf([
            matchOf({
              headers: [{ kind: "Exact", name: "x-tenant", value: "one" }],
              query: [{ kind: "Exact", name: "version", value: `${at}` }],
            }),
          ]),
        ],
      }),
    );
    const index = compileRoutes(bindOf([listenerOf({ routes })]), (_, route) => route.name);
    const rawHeaders = Array.from({ length: 40 }, (_, at) => [`x-${at}`, "1"])
      .flat()
      .concat("x-tenant", "one");
    const head = { method: "GET", authority: "h", rawHeaders };
    expect(index.find({ ...head, path: `/?${"a=b&".repeat(250)}version=5000` })).toBeUndefined();
    expect(index.find({ ...head, path: "/?version=4999" })?.compiled).toBe("r4999");
  });
});

describe("precedence (Gateway API HTTPRouteRule.matches)", () => {
  const one = [{ kind: "Exact", name: "a", value: "1" }] as const;
  const two = [...one, { kind: "Exact", name: "b", value: "2" }] as const;
  const request = { path: "/p?a=1&b=2", rawHeaders: ["a", "1", "b", "2"] };

  // Each winner is declared last, so that only precedence can bring it forward.
  test.each<[string, Partial<Match>, Partial<Match>]>([
    ["a method match over two header matches", { headers: two }, { method: "GET" }],
    ["more header matches over more query matches", { headers: one, query: two }, { headers: two }],
    ["more query matches", { query: one }, { query: two }],
    ["a longer prefix over a method match", { method: "GET" }, { path: prefix("/p") }],
    [
      "an exact path over a prefix with every condition",
      matchOf({ method: "GET", headers: two }),
      { path: exact("/p") },
    ],
  ])("prefers %s", (_, loser, winner) => {
    expect(ruleFor(indexOf({ "a-loser": loser, "b-winner": winner }), request)).toBe("b-winner");
  });

  function winnerOf(...routes: readonly (readonly [key: string, creationTimestamp: string | undefined])[]): string {
    const built = routes.map(([key, creationTimestamp]) => {
      const [namespace = "", name = ""] = key.split("/");
      return routeOf(name, { namespace, ...(creationTimestamp !== undefined && { creationTimestamp }) });
    });
    return ruleFor(
      compileRoutes(bindOf([listenerOf({ routes: built })]), (_, route) => route.key),
      {},
    );
  }

  test("prefers the oldest route on a tie", () => {
    expect(winnerOf(["a/a", "2026-01-02T00:00:00Z"], ["z/z", "2026-01-01T00:00:00Z"])).toBe("z/z");
  });

  test("compares creation times as instants, not as text", () => {
    expect(winnerOf(["a/a", "2026-01-01T01:00:00Z"], ["z/z", "2026-01-01T02:00:00+02:00"])).toBe("z/z");
  });

  test("treats a route without a creation time as the youngest", () => {
    expect(winnerOf(["a/a", undefined], ["z/z", "2026-01-01T00:00:00Z"])).toBe("z/z");
  });

  test("prefers the first by namespace/name among routes of one age, by code unit", () => {
    const time = "2026-01-01T00:00:00Z";
    expect(winnerOf(["a/x", time], ["a-b/x", time])).toBe("a-b/x");
    expect(winnerOf(["b/a", undefined], ["a/b", undefined])).toBe("a/b");
  });

  test("prefers the first rule, then the first match, within a route", () => {
    const route = routeOf("r", { rules: [ruleOf([matchOf({}), matchOf({})]), ruleOf([matchOf({})])] });
    const index = compileRoutes(bindOf([listenerOf({ routes: [route] })]), () => "");
    const found = index.find({ method: "GET", path: "/", authority: "h", rawHeaders: [] });
    expect(found?.rule).toBe(route.rules[0]);
  });
});

describe("hosts", () => {
  const on = (name: string, hostnames: readonly string[], path: PathMatch = prefix("/")) =>
    routeOf(name, { hostnames, rules: [ruleOf([matchOf({ path })])] });

  test("prefers an exact route hostname, then the longest wildcard, whatever the paths", () => {
    const routes = [
      on("any", [], exact("/x")),
      on("wide", ["*.com"]),
      on("wild", ["*.b.com"]),
      on("exact", ["a.b.com"]),
    ];
    const index = compileRoutes(bindOf([listenerOf({ routes })]), (_, route) => route.name);
    const hosts = ["a.b.com", "z.b.com", "z.com", "z.org"];
    expect(hosts.map((authority) => ruleFor(index, { authority, path: "/x" }))).toEqual([
      "exact",
      "wild",
      "wide",
      "any",
    ]);
  });

  test("tries less specific hostnames when no rule of the specific one matches", () => {
    const routes = [
      on("exact", ["a.b.com"], prefix("/exact")),
      on("wild", ["*.b.com"], prefix("/wild")),
      on("any", []),
    ];
    const index = compileRoutes(bindOf([listenerOf({ routes })]), (_, route) => route.name);
    const paths = ["/exact", "/wild", "/other"];
    expect(paths.map((path) => ruleFor(index, { authority: "a.b.com", path }))).toEqual(["exact", "wild", "any"]);
  });

  test("keeps a request with the most specific listener even when only another one has a rule for it", () => {
    const listeners = [
      listenerOf({ name: "any", routes: [on("any", [])] }),
      listenerOf({ name: "wild", hostname: "*.example.com", routes: [on("wild", [], prefix("/wild"))] }),
      listenerOf({ name: "exact", hostname: "a.example.com", routes: [on("exact", [], prefix("/exact"))] }),
    ];
    const index = compileRoutes(bindOf(listeners), (_, route) => route.name);
    const ask = (authority: string, path: string) => ruleFor(index, { authority, path });
    expect([ask("a.example.com", "/exact"), ask("a.example.com", "/wild")]).toEqual(["exact", "404"]);
    expect([ask("b.example.com", "/wild"), ask("b.example.com", "/any")]).toEqual(["wild", "404"]);
    expect(ask("example.com", "/any")).toBe("any");
    expect(index.findListener("A.example.com:80")?.name).toBe("exact");
  });

  test("finds nothing when no listener has the host", () => {
    const listeners = [listenerOf({ hostname: "a.example.com", routes: [on("a", [])] })];
    const index = compileRoutes(bindOf(listeners), () => "");
    expect(ruleFor(index, { authority: "b.example.com" })).toBe("404");
    expect(index.findListener("b.example.com")).toBeUndefined();
  });
});

describe("what is found", () => {
  test("carries what was compiled for the rule, once for all hostnames and listeners of a Gateway", () => {
    const route = routeOf("r", { hostnames: ["a", "b"], rules: [ruleOf([matchOf({}), matchOf({ method: "PUT" })])] });
    const calls: string[] = [];
    const listeners = [
      listenerOf({ hostname: "a", routes: [route] }),
      listenerOf({ name: "other", hostname: "b", routes: [{ ...route }] }),
      listenerOf({ name: "theirs", hostname: "c", gateway: { namespace: "n", name: "g" }, routes: [route] }),
    ];
    const index = compileRoutes(bindOf(listeners), ({ name }, { key }) => {
      calls.push(`${name} ${key}`);
      return { key };
    });
    const head = { method: "GET", path: "/", rawHeaders: [] };
    expect(index.find({ ...head, authority: "a" })?.compiled).toBe(index.find({ ...head, authority: "b" })?.compiled);
    expect(calls).toEqual(["gateway default/r", "g default/r"]);
  });

  test("names the match with its path in normal form", () => {
    const route = routeOf("r", { rules: [ruleOf([matchOf({ path: prefix("/caf%c3%a9/") })])] });
    const index = compileRoutes(bindOf([listenerOf({ routes: [route] })]), () => "");
    const found = index.find({ method: "GET", path: "/caf%C3%A9/x", authority: "h", rawHeaders: [] });
    expect(found?.match.path.value).toBe("/caf%C3%A9");
  });
});

describe("a query parameter that occurs twice with different values", () => {
  const one = (name: string, path = "/") =>
    matchOf({ path: prefix(path), query: [{ kind: "Exact", name, value: "1" }] });
  const routes = [
    routeOf("shop", { hostnames: ["shop.test"], rules: [ruleOf([one("key")]), ruleOf([matchOf({})])] }),
    routeOf("other", { hostnames: ["other.test"], rules: [ruleOf([one("tag")]), ruleOf([one("sort")])] }),
    routeOf("deep", { hostnames: ["deep.test"], rules: [ruleOf([one("id", "/deep")]), ruleOf([matchOf({})])] }),
    routeOf("any", { rules: [ruleOf([one("any")])] }),
  ];
  const index = compileRoutes(bindOf([listenerOf({ routes })]), (_, route) => route.name);
  const find = (authority: string, path: string) => index.find({ method: "GET", path, authority, rawHeaders: [] });

  test.each([
    ["a match of the hostname reads it", "shop.test", "/?key=2&key=1", true],
    ["it comes twice with one value", "shop.test", "/?key=2&key=%32", false],
    ["a match of the hostname reads another", "shop.test", "/?a=2&a=1&key=1", false],
    ["a match of another hostname reads it", "shop.test", "/?tag=2&tag=1&sort=1&sort=2", false],
    ["a match of another path reads it", "deep.test", "/shallow?id=1&id=2", false],
    ["a match of the path reads it", "deep.test", "/deep?id=1&id=2", true],
    ["a match of a more specific hostname was tried", "other.test", "/?tag=2&tag=1&any=1", true],
  ])("makes what is found ambiguous where %s", (_, authority, path, isAmbiguous) => {
    expect(find(authority, path)?.isQueryAmbiguous).toBe(isAmbiguous);
  });
});

describe("compiling many routes", () => {
  const many = (count: number) =>
    Array.from({ length: count }, (_, at) =>
      routeOf(`r${at}`, {
        hostnames: Array.from({ length: 16 }, (__, host) => `h${host}.x${at}.test`),
        rules: Array.from({ length: 16 }, (__, rule) =>
          ruleOf(Array.from({ length: 8 }, (___, n) => matchOf({ path: prefix(`/${rule}/${n}`) }))),
        ),
      }),
    );

  test("lists the matches of hostnames that have the same routes once", () => {
    const listsOf = (routes: readonly Route[]) => {
      const select = vi.spyOn(PathIndex.prototype, "select");
      try {
        const index = compileRoutes(bindOf([listenerOf({ routes })]), (_, route) => route.name);
        return { index, sets: select.mock.calls.flatMap(([sets]) => sets) };
      } finally {
        select.mockRestore();
      }
    };
    const hostnames = ["h15.x1.test", "h0.x2.test"];
    const { index, sets } = listsOf([...many(3), routeOf("both", { hostnames })]);
    expect(sets).toEqual([[0], [1], [0, 1], [0, 2], [2]]);
    const ask = (authority: string) => ruleFor(index, { authority, path: "/3/4" });
    expect([ask("h0.x1.test"), ask("h15.x1.test"), ask("h0.x2.test")]).toEqual(["r1", "r1", "r2"]);
  });

  test("ranks more prefixes of one parent than a call takes arguments", () => {
    const count = 150_000;
    // How many it takes depends on the size of the stack.
    expect(() => Math.max(...new Array<number>(count).fill(0))).toThrow(RangeError);
    const builder = new PathIndexBuilder(new Pace(Infinity));
    const candidate = { conditions: undefined, pattern: undefined, route: 0 };
    for (let at = 0; at < count; at++) {
      builder.add({ ...candidate, match: matchOf({ path: prefix(`/${at}`) }), rule: at });
    }
    const index = runToEnd(builder.build());
    const [matches] = runToEnd(index.select([[0]], new Pace(Infinity)));
    const find = (path: string): number | undefined => {
      const head = { method: "GET", path, authority: "h", rawHeaders: [] };
      const reading = new RequestReading(head, new WorkBudget(maxMatchUnits));
      return matches && index.find(matches, reading)?.rule;
    };
    expect([find("/0"), find(`/${count - 1}/x`), find(`/${count}`)]).toEqual([0, count - 1, undefined]);
  });

  test("gives requests a turn between pieces of the work", async () => {
    const added = vi.spyOn(PathIndexBuilder.prototype, "add");
    const perTurn: number[] = [];
    let before = 0;
    let isDone = false;
    const turn = (): void => {
      perTurn.push(added.mock.calls.length - before);
      before = added.mock.calls.length;
      if (!isDone) setImmediate(turn);
    };
    setImmediate(turn);
    try {
      // Each step is a turn.
      const binds = [bindOf([listenerOf({ routes: many(50) })])];
      await new RouteCompiler(defaultPathRules).compile(binds, { compile: () => "" }, { sliceMs: 0 });
    } finally {
      isDone = true;
      added.mockRestore();
    }
    expect(perTurn.reduce((sum, count) => sum + count, 0)).toBe(50 * 128);
    expect(Math.max(...perTurn)).toBeLessThanOrEqual(200);
    // Ranking the matches, and listing them by hostname, take turns of their own.
    expect(perTurn.filter((count) => count === 0).length).toBeGreaterThan(50);
  });
});
