import { request as httpRequest } from "node:http";
import { gunzipSync } from "node:zlib";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { readHeapSamples, startHeapSampling } from "@gatewayproxy/runtime/heap-sampling";
import { Profiler } from "@gatewayproxy/runtime/profiler";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ConfigSet } from "../../config/config-set.ts";
import { LiveConfig } from "../../config/live-config.ts";
import { StoreError } from "../../model/counter-store.ts";
import { RateLimitStats } from "../../stats.ts";
import { HttpServer } from "../http/http-server.ts";
import { configDump, renderConfigText } from "./config-dump.ts";
import { debugGuard } from "./debug-guard.ts";
import { explainMatch } from "./explain-match.ts";
import type { CounterAudit, ListedCounter } from "./counter-routes.ts";
import { debugRoutes } from "./debug-routes.ts";

const limits = `
domain: rl
descriptors:
  - key: path
    rate_limit: {unit: minute, requests_per_unit: 20}
    descriptors:
      - key: ip
        value: 10.*
        shadow_mode: true
        rate_limit: {name: lan, unit: hour, requests_per_unit: 5}
  - key: path
    value: /free
    rate_limit: {unlimited: true}
  - key: path
    value: /open
`;
const windows = `
domain: c
descriptors:
  - key: month
    rate_limit: {unit: month, unit_multiplier: 3, requests_per_unit: 9, calendar: true, timezone: Europe/Berlin}
  - key: slide
    rate_limit: {unit: hour, requests_per_unit: 5, window: sliding}
  - key: both
    count_denied: true
    rate_limits:
      - {unit: minute, requests_per_unit: 5, name: burst}
      - {unit: day, requests_per_unit: 50, calendar: true}
`;

const set = new ConfigSet(false);
const config = new LiveConfig(new RateLimitStats({ nearLimitRatio: 0.8 }), new FakeClock(1_700_000_000_000));
config.apply(
  set.update([
    { key: "config.a.yaml", file: "/config/a.yaml", text: limits },
    {
      key: "config.b.yaml",
      file: "/config/b.yaml",
      text: "domain: b\ndescriptors:\n  - key: k\n    rate_limit: {unit: day2}\n",
    },
  ]),
);
const windowConfig = new ConfigSet(false).update([{ key: "c", file: "c.yaml", text: windows }]).config;
let counters: ListedCounter[] | undefined;
let deletable: number | undefined = 3;
let changes: string[] = [];
let audits: CounterAudit[] = [];
const server = new HttpServer({
  routes: new Map(
    debugRoutes({
      configStatus: () => config.status,
      counters: {
        list: () => counters,
        change: ({ domain, entries, limit }, count) => {
          changes.push(`${domain} ${entries.map(({ key, value }) => `${key}=${value}`).join()} ${limit} ${count}`);
          if (domain === "away") return Promise.reject(new StoreError("redis is not connected"));
          return Promise.resolve(domain === "rl" ? entries.length : "the domain has no limits");
        },
        deleteAll: (domain) => (domain === "long" ? "the domain is too long" : deletable),
        onChange: (audit) => audits.push(audit),
      },
      stats: () => Promise.resolve("a.b: 1\n"),
      metrics: (accept) => Promise.resolve({ contentType: accept ?? "text/plain", body: "# HELP a b\n" }),
      profiler: new Profiler(systemClock, () => []),
      heapSamples: () => Promise.resolve([{ thread: "main", json: readHeapSamples() }]),
    }),
  ),
  clock: systemClock,
  guard: debugGuard(["ratelimit.example"]),
  onError: (error) => {
    throw error;
  },
});
let url: string;

beforeAll(async () => {
  url = `http://127.0.0.1:${await server.listen("127.0.0.1", 0)}`;
});
afterAll(() => server.close(0));

const get = async (path: string, headers: Record<string, string> = {}) => {
  const response = await fetch(url + path, { headers });
  return { status: response.status, text: await response.text() };
};
const match = async (query: string) =>
  JSON.parse((await get(`/match?${query}`)).text) as { steps: string[]; outcome: string; rule?: { path: string } };

test("/ lists every endpoint", async () => {
  const { text } = await get("/");

  expect(text.split("\n").map((line) => line.split(":")[0])).toEqual([
    "/rlconfig",
    "/config_status",
    "/match",
    "/counters",
    "/stats",
    "/metrics",
    "/debug/pprof/profile",
    "/debug/pprof/heap",
    "",
  ]);
});

describe("/rlconfig", () => {
  test("writes the limits as the reference does", async () => {
    expect((await get("/rlconfig")).text).toBe(
      [
        "rl.path: unit=MINUTE requests_per_unit=20, shadow_mode: false, quota_mode: false",
        "rl.path.ip_10.*: unit=HOUR requests_per_unit=5, shadow_mode: true, quota_mode: false",
        "rl.path_/free: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false",
        "",
      ].join("\n"),
    );
  });

  test("writes all that is known as JSON", async () => {
    const { text } = await get("/rlconfig", { accept: "application/json" });

    expect(JSON.parse(text)).toEqual([
      { path: "rl.path", domain: "rl", requestsPerUnit: 20, unit: "MINUTE", location: "/config/a.yaml:5" },
      {
        path: "rl.path.ip_10.*",
        domain: "rl",
        requestsPerUnit: 5,
        unit: "HOUR",
        name: "lan",
        shadowMode: true,
        location: "/config/a.yaml:10",
      },
      { path: "rl.path_/free", domain: "rl", unlimited: true, location: "/config/a.yaml:13" },
    ]);
  });
});

test("/config_status reports which files are served and what is wrong with the others", async () => {
  const status = JSON.parse((await get("/config_status")).text) as Record<string, unknown>;

  expect(status).toMatchObject({
    isLoaded: true,
    loadedAt: "2023-11-14T22:13:20.000Z",
    parts: [
      { key: "config.a.yaml", domain: "rl", state: "current" },
      { key: "config.b.yaml", state: "rejected" },
    ],
  });
  expect(String(status["problems"])).toContain("/config/b.yaml:4");
  expect(status["lastSuccessAt"]).toBeUndefined();
});

describe("limits of other windows", () => {
  test("have a line each in /rlconfig, with what the reference does not have at the end of the limit", () => {
    const modes = "shadow_mode: false, quota_mode: false";
    expect(renderConfigText(windowConfig)).toBe(
      [
        `c.month: unit=MONTH requests_per_unit=9 calendar=true timezone=Europe/Berlin, ${modes}`,
        `c.slide: unit=HOUR requests_per_unit=5 window=sliding, ${modes}`,
        `c.both: unit=MINUTE requests_per_unit=5, ${modes}`,
        `c.both: unit=DAY requests_per_unit=50 calendar=true timezone=UTC, ${modes}`,
        "",
      ].join("\n"),
    );
  });

  test("have all details in its JSON", () => {
    expect(configDump(windowConfig)).toMatchObject([
      { requestsPerUnit: 9, unit: "MONTH", unitMultiplier: 3, calendar: true, timezone: "Europe/Berlin" },
      { limits: [{ requestsPerUnit: 5, unit: "HOUR", window: "sliding" }] },
      {
        countDenied: true,
        limits: [
          { requestsPerUnit: 5, unit: "MINUTE", name: "burst" },
          { requestsPerUnit: 50, unit: "DAY", calendar: true, timezone: "UTC" },
        ],
      },
    ]);
  });

  test.each([
    ["month", "limited to 9 per 3 calendar months in Europe/Berlin by c.month"],
    ["slide", "limited to 5 per sliding hour by c.slide"],
    ["both", "limited to 5 per minute and to 50 per calendar day in UTC by c.both"],
  ])("are explained for %s=x: %s", (key, outcome) => {
    expect(explainMatch(windowConfig, "c", [{ key, value: "x" }]).outcome).toBe(outcome);
  });
});

describe("/match", () => {
  test.each([
    ["domain=no&path=/", 'no limit: domain "no" is not configured; there are rl', undefined],
    ["domain=rl", "no limit: a descriptor without entries matches nothing", undefined],
    ["domain=rl&path=/x", "limited to 20 per minute by rl.path", "rl.path"],
    ["domain=rl&path=/free", "unlimited by rl.path_/free", "rl.path_/free"],
    ["domain=rl&path=/open", "no limit: the last entry matches a node without rate_limit", undefined],
    [
      "domain=rl&path=/x&ip=10.1",
      "limited to 5 per hour by rl.path.ip_10.*, in shadow mode, so never denied",
      "rl.path.ip_10.*",
    ],
    ["domain=rl&path=/open&ip=10.1", /no rule matches all entries/, undefined],
  ])("of %s says: %s", async (query, outcome, path) => {
    const explained = await match(query);

    expect(explained.outcome).toMatch(outcome);
    expect(explained.rule?.path).toBe(path);
  });

  test("reports each step of the way", async () => {
    expect((await match("domain=rl&path=/x&ip=10.1")).steps).toEqual([
      "path=/x: matches path, which takes every value without a more exact match",
      "ip=10.1: matches the wildcard ip_10.*",
    ]);
    expect((await match("domain=rl&path=/open&ip=10.1")).steps).toEqual([
      "path=/open: matches path_/open exactly",
      "ip=10.1: no match for ip_10.1, any wildcard or ip; at this level there is nothing",
    ]);
  });

  test("wants the domain first, so that entries may have any key", async () => {
    expect((await get("/match?path=/&domain=rl")).status).toBe(400);
    expect((await match("domain=rl&domain=x")).steps[0]).toContain("domain=x: no match");
  });
});

describe("/counters", () => {
  test("lists counters by prefix up to a bound, and how many there are", async () => {
    counters = ["rl_a_1", "rl_b_1", "other_1"].map((key) => ({ key, count: 2, windowEndSeconds: 60 }));
    const { text } = await get("/counters?prefix=rl_&limit=1");

    expect(JSON.parse(text)).toEqual({ total: 2, counters: [{ key: "rl_a_1", count: 2, windowEndSeconds: 60 }] });
    expect((await get("/counters?limit=0")).status).toBe(400);
  });

  test("says so when the store cannot list them", async () => {
    counters = undefined;

    expect((await get("/counters")).status).toBe(501);
  });
});

describe("changes of /counters", () => {
  beforeEach(() => {
    [changes, audits] = [[], []];
  });

  const send = async (method: string, query: string, body?: unknown, headers: Record<string, string> = {}) => {
    const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
    const response = await fetch(`${url}/counters${query}`, { method, body: text ?? null, headers });
    return { status: response.status, text: await response.text() };
  };

  test("DELETE with a descriptor deletes its counters", async () => {
    const { status, text } = await send("DELETE", "?domain=rl&path=/a&path=/b");
    expect([status, JSON.parse(text)]).toEqual([200, { deleted: 2 }]);
    expect(changes).toEqual(["rl path=/a,path=/b undefined 0"]);
    expect(audits).toEqual([
      { operation: "delete", domain: "rl", descriptor: "path=/a, path=/b", counters: 2, client: "127.0.0.1" },
    ]);
  });

  test.each([
    ["?domain=rl", { operation: "delete", domain: "rl", counters: 3, client: "127.0.0.1" }],
    ["?all=true", { operation: "delete", counters: 3, client: "127.0.0.1" }],
  ])("DELETE %s deletes all counters that it names", async (query, audit) => {
    const { status, text } = await send("DELETE", query);
    expect([status, JSON.parse(text)]).toEqual([200, { deleted: 3 }]);
    expect(changes).toEqual([]);
    expect(audits).toEqual([audit]);
  });

  test("POST sets the counters of a descriptor, or one of them", async () => {
    expect(JSON.parse((await send("POST", "?domain=rl&path=/a", { count: 7 })).text)).toEqual({ set: 1, count: 7 });
    expect((await send("POST", "?domain=rl&path=/a", { count: 0, limit: 1 })).status).toBe(200);
    expect(changes).toEqual(["rl path=/a undefined 7", "rl path=/a 1 0"]);
    expect(audits).toMatchObject([
      { operation: "set", count: 7, counters: 1 },
      { operation: "set", limit: 1, count: 0 },
    ]);
  });

  test("a value that may be a credential is in no audit line", async () => {
    await send("DELETE", "?domain=rl&api_key=MARK-of-a-client");
    expect(changes).toHaveLength(1);
    expect(JSON.stringify(audits)).not.toContain("MARK");
  });

  test.each<[string, string, unknown, number, string]>([
    ["DELETE", "", undefined, 400, "the first parameter is domain"],
    ["DELETE", "?all=yes", undefined, 400, "?all=true"],
    ["DELETE", "?all=true&domain=rl", undefined, 400, "the first parameter is domain"],
    ["DELETE", "?path=/a&domain=rl", undefined, 400, "the first parameter is domain"],
    ["DELETE", "?domain=rl&=/a", undefined, 400, "the first parameter is domain"],
    ["DELETE", "?domain=other&path=/a", undefined, 404, "the domain has no limits"],
    ["DELETE", "?domain=long", undefined, 400, "the domain is too long"],
    ["POST", "?domain=rl", { count: 1 }, 400, "the first parameter is domain"],
    ["POST", "?domain=rl&path=/a", "", 400, "the body must be JSON"],
    ["POST", "?domain=rl&path=/a", "[1]", 400, "the body must be JSON"],
    ["POST", "?domain=rl&path=/a", { count: 1, window: "day" }, 400, 'found the member "window"'],
    ["POST", "?domain=rl&path=/a", {}, 400, "count must be a whole number from 0"],
    ["POST", "?domain=rl&path=/a", { count: -1 }, 400, "count must be a whole number from 0"],
    ["POST", "?domain=rl&path=/a", { count: 1.5 }, 400, "count must be a whole number from 0"],
    ["POST", "?domain=rl&path=/a", { count: "1" }, 400, "count must be a whole number from 0"],
    ["POST", "?domain=rl&path=/a", { count: 2 ** 60 }, 400, "count must be a whole number from 0"],
    ["POST", "?domain=rl&path=/a", { count: 1, limit: "month" }, 400, "limit must be a place in rate_limits"],
    ["PUT", "?domain=rl&path=/a", { count: 1 }, 405, "PUT is not supported; use GET, DELETE or POST"],
    ["PATCH", "?domain=rl", undefined, 405, "PATCH is not supported"],
  ])("%s %s with %j is %i", async (method, query, body, status, text) => {
    const response = await send(method, query, body);
    expect(response.status).toBe(status);
    expect(response.text).toContain(text);
    expect(audits).toEqual([]);
  });

  test("the error of the store is the response, and no change", async () => {
    expect(await send("DELETE", "?domain=away&path=/a")).toEqual({ status: 503, text: "redis is not connected\n" });
    expect(audits).toEqual([]);
  });

  test("a store that cannot list its counters says how to delete them", async () => {
    deletable = undefined;
    const { status, text } = await send("DELETE", "?all=true");
    deletable = 3;
    expect(status).toBe(501);
    expect(text).toContain("by descriptor: /counters?domain=D");
  });

  test.each([
    ["DELETE", "127.0.0.2", 403],
    ["POST", "127.0.0.6", 403],
    ["GET", "127.0.0.6", 200],
    ["DELETE", "127.0.0.1", 200],
  ])("%s from %s is %i", async (method, localAddress, status) => {
    counters = [];
    const found = await new Promise((resolve, reject) => {
      const options = { method, localAddress, agent: false, headers: { host: "localhost" } };
      const request = httpRequest(`${url}/counters?domain=rl&path=/a`, options, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      request.once("error", reject).end(method === "POST" ? '{"count": 1}' : undefined);
    });
    counters = undefined;
    expect(found).toBe(status);
    expect(changes).toHaveLength(method === "DELETE" && status === 200 ? 1 : 0);
  });

  test.each(["DELETE", "POST"])("%s is denied for every page and every other host", async (method) => {
    const own = `http://${new URL(url).host}`;
    for (const headers of [
      { origin: own },
      { origin: "null" },
      { origin: "https://evil.example" },
      { "sec-fetch-site": "same-origin" },
      { "sec-fetch-site": "cross-site" },
      { host: "evil.example" },
    ]) {
      const status = await new Promise((resolve, reject) => {
        const options = { method, headers, agent: false };
        const request = httpRequest(`${url}/counters?domain=rl&path=/a`, options, (response) => {
          response.resume();
          resolve(response.statusCode);
        });
        request.once("error", reject).end(method === "POST" ? '{"count": 1}' : undefined);
      });
      expect(status, JSON.stringify(headers)).toBe(403);
    }
    expect([changes, audits]).toEqual([[], []]);
  });
});

startHeapSampling();

test("/stats and /metrics pass on what was counted", async () => {
  expect((await get("/stats")).text).toBe("a.b: 1\n");
  expect((await get("/metrics")).text).toBe("# HELP a b\n");
});

describe("/debug/pprof", () => {
  test.each(["profile", "heap"])("takes a %s", async (kind) => {
    const response = await fetch(`${url}/debug/pprof/${kind}?seconds=1`);

    expect(response.status).toBe(200);
    expect(gunzipSync(await response.arrayBuffer()).length).toBeGreaterThan(10);
  });

  test.each(["0", "301", "x", "-1", "1.5"])("rejects %s seconds", async (seconds) => {
    expect((await get(`/debug/pprof/profile?seconds=${seconds}`)).status).toBe(400);
    expect((await get(`/debug/pprof/heap?seconds=${seconds}`)).status).toBe(400);
  });
});

describe("the guard", () => {
  const ask = (headers: Record<string, string>) =>
    new Promise<number | undefined>((resolve, reject) => {
      const request = httpRequest(`${url}/stats`, { headers, agent: false }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      request.once("error", reject).end();
    });

  test.each<[string, Record<string, string>, number]>([
    ["localhost", { host: "localhost:6070" }, 200],
    ["an address", { host: "10.0.0.1:6070" }, 200],
    ["an IPv6 address", { host: "[fd00::1]:6070" }, 200],
    ["a host that is allowed", { host: "ratelimit.example:6070" }, 200],
    ["a page of its own", { host: "localhost:6070", "sec-fetch-site": "same-origin" }, 200],
    ["a name that points here", { host: "evil.com" }, 403],
    ["a name that looks like an address", { host: "127.0.0.1.evil.com" }, 403],
    ["a page of another site", { "sec-fetch-site": "cross-site" }, 403],
    ["a page of another port", { host: "localhost:6070", origin: "http://localhost:3000" }, 403],
    ["a page without origin", { origin: "null" }, 403],
  ])("%s: %j is %i", async (_, headers, status) => {
    expect(await ask(headers)).toBe(status);
  });
});

test("counters are not listed, nor found by prefix, with values that may be credentials", async () => {
  counters = [{ key: "rl_api%5Fkey_MARK-of-a-client_60", count: 1, windowEndSeconds: 60 }];
  const all = await get("/counters");
  const found = await get("/counters?prefix=rl_api%255Fkey_MARK");
  counters = undefined;
  expect(JSON.parse(all.text)).toMatchObject({ total: 1 });
  expect(all.text).not.toContain("MARK");
  expect(JSON.parse(found.text)).toEqual({ total: 0, counters: [] });
});
