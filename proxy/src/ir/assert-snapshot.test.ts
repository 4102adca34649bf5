import { runToEnd } from "@gatewayproxy/runtime/steps";
import { describe, expect, test } from "vitest";
import { assertSnapshot, SnapshotError } from "./assert-snapshot.ts";
import type { LocalLimit } from "./limit.ts";
import type { Backend, Bind, Listener, Route, RouteRule } from "./snapshot.ts";

const backend: Backend = {
  key: "Service/default/b:80",
  kind: "Service",
  namespace: "default",
  name: "b",
  endpoints: [{ name: "pod", host: "10.0.0.1", port: 8080 }],
};

const limit: LocalLimit = {
  ...{
    counter: "default/p requests",
    policy: "default/p",
    entry: 0,
    target: "HTTPRoute/default/r",
    counts: "requests",
  },
  ...{ amount: 1, burst: 0, unit: "Minutes", mode: "Enforce" },
};

const rule: RouteRule = {
  key: "default/r/0",
  matches: [{ path: { kind: "PathPrefix", value: "/" }, headers: [], query: [] }],
  filters: [],
  backendRefs: [{ kind: "backend", weight: 1, backend: backend.key, filters: [] }],
  limits: [limit],
};

const route = { key: "default/r", namespace: "default", name: "r", hostnames: [], rules: [rule] };

const listener: Listener = {
  key: "default/web/http",
  gateway: { namespace: "default", name: "web" },
  name: "http",
  protocol: "HTTP",
  routes: [route],
};

const bind: Bind = { port: 80, listeners: [listener] };

function check(binds: readonly Bind[], backends: readonly Backend[] = [backend]): void {
  runToEnd(assertSnapshot({ binds, backends }));
}

const withRule = (part: Partial<RouteRule>): readonly Bind[] => [
  { ...bind, listeners: [{ ...listener, routes: [{ ...route, rules: [{ ...rule, ...part }] }] }] },
];
const withListener = (part: Partial<Listener>): readonly Bind[] => [{ ...bind, listeners: [{ ...listener, ...part }] }];
const withLimit = (part: Partial<LocalLimit>) => withRule({ limits: [{ ...limit, ...part }] });

const tls = { certificates: [], minVersion: "TLSv1.2", maxVersion: "TLSv1.3", protocols: ["h2"] } as const;
const mirror = { kind: "RequestMirror", backend: "Backend/default/gone", numerator: 1, denominator: 1 } as const;

describe("a snapshot", () => {
  test("that translation builds is valid", () => {
    expect(() => check([bind])).not.toThrow();
  });

  test.each<[string, readonly Bind[]]>([
    [
      "default/r/0 refers to backend Service/default/gone:80, which is not in the snapshot",
      withRule({
        backendRefs: [{ kind: "backend", weight: 1, backend: "Service/default/gone:80", filters: [] }],
      }),
    ],
    ["default/r/0 mirrors to Backend/default/gone, which is not in the snapshot", withRule({ filters: [mirror] })],
    ["default/r/0 has backends and no match", withRule({ matches: [] })],
    ["default/r/0 has limit default/p requests with amount 0", withLimit({ amount: 0 })],
    ["default/r/0 has limit default/p requests with burst -1", withLimit({ burst: -1 })],
    ["default/r/0 has limit default/p requests of tokens with a burst", withLimit({ counts: "tokens", burst: 1 })],
    [
      "default/r has two rules with one key",
      [{ ...bind, listeners: [{ ...listener, routes: [{ ...route, rules: [rule, rule] }] }] }],
    ],
    ["default/web/http has a route twice", withListener({ routes: [route, route] })],
    ["default/web/http has protocol HTTPS and other TLS settings", withListener({ protocol: "HTTPS" })],
    ["default/web/http has TLS without a certificate", withListener({ protocol: "HTTPS", tls })],
    ["default/web/http has a host name in upper case", withListener({ hostname: "A.test" })],
    ["*:80 has a listener twice", [{ ...bind, listeners: [listener, listener] }]],
    ["*:80 occurs in two binds", [bind, bind]],
    ["*:80 has no listener", [{ port: 80, listeners: [] }]],
    ["*:0 has a port that is not in 1..65535", [{ ...bind, port: 0 }]],
  ])("is rejected if %s", (violation, binds) => {
    expect(() => check(binds)).toThrow(new SnapshotError(`snapshot: ${violation}`));
  });

  test("is rejected if a route is added that its listener has", () => {
    const routes = Array.from({ length: 3 }, (_, at) => ({ ...route, key: `default/r${at}` }));
    const checkRoutes = (all: readonly Route[]) => () =>
      check([{ ...bind, listeners: [{ ...listener, routes: all }] }]);
    expect(checkRoutes(routes)).not.toThrow();
    const [first = route, second = route, third = route] = routes;
    expect(checkRoutes([first, { ...second }, third])).not.toThrow();
    expect(checkRoutes([first, second, { ...third, key: second.key }])).toThrow("default/web/http has a route twice");
    expect(checkRoutes([first, second, third, second])).toThrow("default/web/http has a route twice");
  });

  test.each([
    ["twice", "Service/default/a:80", "Service/default/a:80"],
    ["after one with a greater key", "Service/default/b:80", "Service/default/a:80"],
  ])("is rejected if it has a backend %s", (_, before, key) => {
    const backends = [before, key].map((each) => ({ ...backend, key: each }));
    expect(() => check([], backends)).toThrow(`${key} does not follow backend ${before} in the order of keys`);
  });

  test("is rejected if an endpoint of a backend has no port", () => {
    const endpoints = [{ name: "pod", host: "10.0.0.1", port: 0 }];
    expect(() => check([bind], [{ ...backend, endpoints }])).toThrow("has endpoint 10.0.0.1:0");
  });
});
