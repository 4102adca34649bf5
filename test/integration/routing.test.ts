/** Routing, end to end: which backend gets the request, how it arrives there, and the local replies. */
import { describe, expect, test } from "vitest";
import { type Echo, respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";

async function named(...names: readonly string[]): Promise<string[]> {
  return Promise.all(
    names.map(async (name) => backendManifest(name, (await startBackend(respondWith(200, name))).port)),
  );
}

async function bodyOf(gateway: TestGateway, path: string, host = "any.example"): Promise<string> {
  const { status, body } = await rawHttp(
    gateway.url(),
    `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`,
  );
  return status === 200 ? body : String(status);
}

const prefix = (path: string, backend: string): string =>
  `{ matches: [{ path: { value: ${path} } }], backendRefs: [${backendRef(backend)}] }`;

test("the longest prefix wins, by segment", async () => {
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      ...(await named("root", "api")),
      routeManifest("r", [prefix("/", "root"), prefix("/api", "api")]),
    ),
  );
  expect(await bodyOf(gateway, "/api/v1")).toBe("api");
  expect(await bodyOf(gateway, "/api?x=1")).toBe("api");
  expect(await bodyOf(gateway, "/apiary")).toBe("root");
});

test("another spelling of its path cannot evade a route", async () => {
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      ...(await named("open", "admin")),
      routeManifest("r", [prefix("/", "open"), prefix("/admin", "admin")]),
    ),
  );
  for (const path of ["/x/../admin", "/./admin", "/%61dmin", "/x/%2e%2e/admin"]) {
    expect(await bodyOf(gateway, path), path).toBe("admin");
  }
});

test("a listener serves the hosts of its hostname, exact before wildcard", async () => {
  const route = (name: string, section: string): string =>
    routeManifest(name, [`backendRefs: [${backendRef(name)}]`]).replace(
      "name: web",
      `name: web, sectionName: ${section}`,
    );
  const gateway = await startGateway(
    manifests(
      `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: web, namespace: default }
spec:
  gatewayClassName: gateway-proxy
  listeners:
    - { name: exact, protocol: HTTP, port: 80, hostname: a.example.com }
    - { name: wildcard, protocol: HTTP, port: 80, hostname: "*.example.com" }
`,
      ...(await named("exact", "wildcard")),
      route("exact", "exact"),
      route("wildcard", "wildcard"),
    ),
  );
  expect(await bodyOf(gateway, "/", "a.example.com:8080")).toBe("exact");
  expect(await bodyOf(gateway, "/", "B.Example.COM")).toBe("wildcard");
  expect(await bodyOf(gateway, "/", "example.com")).toBe("404");
});

describe("routes with one common hostname at a listener have the precedence of their own hostnames:", () => {
  const match = (name: string, rule: string): string => `{ matches: [${rule}], backendRefs: [${backendRef(name)}] }`;

  test.each([
    ["abc.example.com", "*.example.com", "abc.example.com"],
    ["*.example.com", "*.com", "*.example.com"],
  ])("at %s, %s is after %s", async (listener, wide, narrow) => {
    const gateway = await startGateway(
      manifests(
        gatewayManifest().replace("port: 80", `port: 80, hostname: "${listener}"`),
        ...(await named("wide", "narrow")),
        // By name, the wide one would be first, and by path as well.
        routeManifest("a", [match("wide", "{ path: { value: /path/prefix } }")], `hostnames: ["${wide}"]`),
        routeManifest(
          "b",
          [match("narrow", "{ path: { value: /path }, headers: [{ name: x, value: y }] }")],
          `hostnames: ["${narrow}"]`,
        ),
      ),
    );
    const get = async (header: string) => {
      const head = `GET /path/prefix/longer HTTP/1.1\r\nHost: abc.example.com\r\n${header}Connection: close\r\n\r\n`;
      return (await rawHttp(gateway.url(), head)).body;
    };
    expect(await get("X: y\r\n")).toBe("narrow");
    // What the more specific hostname does not match is served by the other.
    expect(await get("")).toBe("wide");
  });
});

test("matches on headers, query and method", async () => {
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      ...(await named("plain", "canary", "post", "asked")),
      routeManifest("r", [
        `backendRefs: [${backendRef("plain")}]`,
        `{ matches: [{ headers: [{ name: X-Canary, value: "yes" }] }], backendRefs: [${backendRef("canary")}] }`,
        `{ matches: [{ method: POST }], backendRefs: [${backendRef("post")}] }`,
        `{ matches: [{ queryParams: [{ name: q, type: RegularExpression, value: "a+" }] }], backendRefs: [${backendRef("asked")}] }`,
      ]),
    ),
  );
  const send = async (path: string, init: RequestInit = {}): Promise<string> =>
    (await fetch(`${gateway.url()}${path}`, init)).text();
  expect(await send("/")).toBe("plain");
  expect(await send("/", { headers: { "x-canary": "yes" } })).toBe("canary");
  expect(await send("/", { method: "POST" })).toBe("post");
  expect(await send("/?q=aaa")).toBe("asked");
  expect(await send("/?q=ab")).toBe("plain");
});

test("weights are exact over 1,000 requests", async () => {
  const [a, b] = [await startBackend(respondWith(200)), await startBackend(respondWith(200))];
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("a", a.port),
      backendManifest("b", b.port),
      routeManifest("r", [`backendRefs: [${backendRef("a", 9)}, ${backendRef("b", 1)}]`]),
    ),
  );
  for (let batch = 0; batch < 20; batch++) {
    await Promise.all(Array.from({ length: 50 }, async () => (await fetch(gateway.url())).arrayBuffer()));
  }
  expect([a.requests.length, b.requests.length]).toEqual([900, 100]);
});

test("weights stay exact over changes of other objects", async () => {
  const [a, b] = [await startBackend(respondWith(200)), await startBackend(respondWith(200))];
  const configuration = (generation: number): string =>
    manifests(
      gatewayManifest(),
      backendManifest("a", a.port),
      backendManifest("b", b.port),
      routeManifest("r", [`backendRefs: [${backendRef("a", 9)}, ${backendRef("b", 1)}]`]),
      routeManifest("other", [prefix(`/other/${generation}`, "a")]),
    );
  const gateway = await startGateway(configuration(0));
  for (let n = 1; n <= 40; n++) {
    await (await fetch(gateway.url())).arrayBuffer();
    await gateway.apply(configuration(n));
  }
  expect([a.requests.length, b.requests.length]).toEqual([36, 4]);
});

describe("filters", () => {
  async function echoThrough(
    filters: string,
    match = "/",
  ): Promise<(path: string) => Promise<{ echo: Echo; headers: Headers }>> {
    const { port } = await startBackend();
    const gateway = await startGateway(
      manifests(
        gatewayManifest(),
        backendManifest("echo", port),
        routeManifest("r", [
          `{ matches: [{ path: { value: ${match} } }], filters: [${filters}], backendRefs: [${backendRef("echo")}] }`,
        ]),
      ),
    );
    return async (path) => {
      const response = await fetch(`${gateway.url()}${path}`, { headers: { "x-old": "1", "x-kept": "2" } });
      return { echo: (await response.json()) as Echo, headers: response.headers };
    };
  }

  test("RequestHeaderModifier sets, adds and removes", async () => {
    const send = await echoThrough(
      "{ type: RequestHeaderModifier, requestHeaderModifier: { set: [{ name: X-Set, value: s }], add: [{ name: x-kept, value: more }], remove: [X-Old] } }",
    );
    const { echo } = await send("/");
    expect(echo.headers).toMatchObject({ "x-set": "s", "x-kept": "2,more" });
    expect(echo.headers).not.toHaveProperty("x-old");
  });

  test("ResponseHeaderModifier edits the response", async () => {
    const send = await echoThrough(
      "{ type: ResponseHeaderModifier, responseHeaderModifier: { set: [{ name: X-Served-By, value: us }], remove: [content-type] } }",
    );
    const { headers } = await send("/");
    expect(headers.get("x-served-by")).toBe("us");
    expect(headers.has("content-type")).toBe(false);
  });

  test("URLRewrite replaces the prefix and the host, and keeps the query", async () => {
    const send = await echoThrough(
      "{ type: URLRewrite, urlRewrite: { hostname: inner.example, path: { type: ReplacePrefixMatch, replacePrefixMatch: /v2 } } }",
      "/api",
    );
    const { echo } = await send("/api/items?x=1");
    expect(echo.url).toBe("/v2/items?x=1");
    expect(echo.headers["host"]).toBe("inner.example");
  });
});

test("the backend gets the client address, and no connection headers of the client", async () => {
  const { port } = await startBackend();
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("echo", port),
      routeManifest("r", [`backendRefs: [${backendRef("echo")}]`]),
    ),
  );
  const { body } = await rawHttp(
    gateway.url(),
    "GET / HTTP/1.1\r\nHost: shop.example:81\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nTE: gzip\r\nUpgrade: h2c\r\nX-Forwarded-For: 10.0.0.9\r\nX-Forwarded-Proto: https\r\n\r\n",
  );
  const { headers } = JSON.parse(body) as Echo;
  expect(headers).toMatchObject({
    host: "shop.example:81",
    "x-forwarded-for": "10.0.0.9, 127.0.0.1",
    "x-forwarded-proto": "http",
    "x-forwarded-host": "shop.example:81",
  });
  expect(headers["x-request-id"]).toMatch(/^[\da-f-]{36}$/);
  for (const name of ["x-hop", "te", "upgrade"]) expect(headers).not.toHaveProperty(name);
});

describe("local replies", () => {
  const serviceWithoutEndpoints = `
apiVersion: v1
kind: Service
metadata: { name: empty, namespace: default }
spec: { ports: [{ port: 80 }] }
`;

  test.each([
    ["no route matches", "404", "RouteNotFound", [prefix("/only", "ok")]],
    ["a rule without a backend", "500", "InvalidBackend", ["matches: [{ path: { value: / } }]"]],
    ["a backend that does not exist", "500", "InvalidBackend", [`backendRefs: [${backendRef("missing")}]`]],
    ["a Service without a ready endpoint", "503", "NoReadyEndpoint", ["backendRefs: [{ name: empty, port: 80 }]"]],
  ])("%s: %s", async (_case, status, reason, rules) => {
    const gateway = await startGateway(
      manifests(gatewayManifest(), ...(await named("ok")), serviceWithoutEndpoints, routeManifest("r", rules)),
    );
    expect(await bodyOf(gateway, "/")).toBe(status);
    expect(gateway.records[0]).toMatchObject({ status: Number(status), reason });
  });

  test("503 when the port of the endpoint is closed", async () => {
    const gateway = await startGateway(
      // Port 1 of the loopback address has no listener.
      manifests(
        gatewayManifest(),
        backendManifest("gone", 1),
        routeManifest("r", [`backendRefs: [${backendRef("gone")}]`]),
      ),
    );
    expect(await bodyOf(gateway, "/")).toBe("503");
    expect(gateway.records[0]?.reason).toBe("UpstreamConnectFailure");
  });

  test("502 when the endpoint resets before it responds", async () => {
    const { port } = await startBackend((request) => request.socket.destroy());
    const gateway = await startGateway(
      manifests(
        gatewayManifest(),
        backendManifest("b", port),
        routeManifest("r", [`backendRefs: [${backendRef("b")}]`]),
      ),
    );
    expect(await bodyOf(gateway, "/")).toBe("502");
    expect(gateway.records[0]?.reason).toBe("UpstreamReset");
  });
});

test("a Service is reached by the ready endpoints of its slices", async () => {
  const { port, requests } = await startBackend(respondWith(200, "pod"));
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      `
apiVersion: v1
kind: Service
metadata: { name: svc, namespace: default }
spec: { ports: [{ name: http, port: 80, targetPort: ${port} }] }
`,
      `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: svc-1, namespace: default, labels: { kubernetes.io/service-name: svc } }
addressType: IPv4
ports: [{ name: http, port: ${port} }]
endpoints:
  - { addresses: [127.0.0.1], conditions: { ready: true } }
  - { addresses: [127.0.0.2], conditions: { ready: false } }
`,
      routeManifest("r", ["backendRefs: [{ name: svc, port: 80 }]"]),
    ),
  );
  for (let i = 0; i < 4; i++) expect(await bodyOf(gateway, "/")).toBe("pod");
  expect(requests).toHaveLength(4);
});
