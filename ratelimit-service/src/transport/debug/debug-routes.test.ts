import { request as httpRequest } from "node:http";
import { gunzipSync } from "node:zlib";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { readHeapSamples, startHeapSampling } from "@gatewayproxy/runtime/heap-sampling";
import { Profiler } from "@gatewayproxy/runtime/profiler";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ConfigSet } from "../../config/config-set.ts";
import { LiveConfig } from "../../config/live-config.ts";
import { RateLimitStats } from "../../stats.ts";
import { HttpServer } from "../http/http-server.ts";
import { debugGuard } from "./debug-guard.ts";
import { debugRoutes, type ListedCounter } from "./debug-routes.ts";

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
let counters: ListedCounter[] | undefined;
const server = new HttpServer({
  routes: new Map(
    debugRoutes({
      configStatus: () => config.status,
      counters: () => counters,
      stats: () => Promise.resolve("a.b: 1\n"),
      metrics: () => Promise.resolve("# HELP a b\n"),
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
