/**
 * CORS, end to end: the response fields for browsers, the responses that have them, and the part that reaches the
 * backend.
 */
import { describe, expect, test } from "vitest";
import { respondWith, startBackend, type TestBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";

interface Served {
  readonly gateway: TestGateway;
  readonly backend: TestBackend;
  readonly preflight: (headers: Readonly<Record<string, string>>) => Promise<Response>;
  readonly request: (origin: string | undefined, method?: string) => Promise<Response>;
}

async function serve(
  cors: string,
  options: { readonly match?: string; readonly limits?: string } = {},
): Promise<Served> {
  const { match = "{ path: { value: / } }", limits } = options;
  const backend = await startBackend((request, response) => {
    response.setHeader("access-control-allow-origin", "https://backend.example");
    response.setHeader("x-total", "7");
    respondWith(200, "shop")(request, response);
  });
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", backend.port),
      routeManifest("r", [
        `{ matches: [${match}], filters: [{ type: CORS, cors: { ${cors} } }], backendRefs: [${backendRef("b")}] }`,
      ]),
      ...(limits === undefined ? [] : [policyManifest("p", "kind: HTTPRoute, name: r", [limits])]),
    ),
  );
  return {
    gateway,
    backend,
    preflight: (headers) => fetch(gateway.url(), { method: "OPTIONS", headers }),
    request: (origin, method = "GET") =>
      fetch(gateway.url(), { method, headers: origin === undefined ? {} : { origin } }),
  };
}

/** The CORS fields of a response. */
function corsOf({ headers }: Response): Record<string, string> {
  return Object.fromEntries([...headers].filter(([name]) => name.startsWith("access-control-")));
}

const listed =
  "allowOrigins: ['https://www.foo.com', 'https://*.bar.com'], allowMethods: [GET, OPTIONS], allowHeaders: [x-header-1, x-header-2], exposeHeaders: [x-header-3], allowCredentials: true, maxAge: 3600";

describe("preflights", () => {
  test("an allowed origin gets the configured headers, and the backend gets no request", async () => {
    const { backend, preflight, gateway } = await serve(listed);
    const response = await preflight({
      origin: "https://www.foo.com",
      "access-control-request-method": "GET",
      "access-control-request-headers": "x-header-1",
    });
    expect(response.status).toBe(204);
    expect(corsOf(response)).toEqual({
      "access-control-allow-origin": "https://www.foo.com",
      "access-control-allow-methods": "GET, OPTIONS",
      "access-control-allow-headers": "x-header-1, x-header-2",
      "access-control-expose-headers": "x-header-3",
      "access-control-allow-credentials": "true",
      "access-control-max-age": "3600",
    });
    expect(response.headers.get("vary")).toContain("Origin");
    expect(backend.requests).toHaveLength(0);
    expect(gateway.records[0]).toMatchObject({ status: 204, reason: undefined, route: "default/r" });
  });

  test.each([
    ["https://a.bar.com", 204],
    ["https://a.b.bar.com", 204],
    ["https://www.foo.com:443", 204],
    ["https://bar.com", 403],
    ["http://www.foo.com", 403],
    ["https://www.foo.com:8443", 403],
    ["https://www.foo.com.evil.example", 403],
    ["https://foobar.com", 403],
    ["null", 403],
  ])("from %s: %i", async (origin, status) => {
    const { preflight } = await serve(listed);
    const response = await preflight({ origin, "access-control-request-method": "GET" });
    expect(response.status).toBe(status);
    expect(response.headers.get("access-control-allow-origin")).toBe(status === 204 ? origin : null);
  });

  test("with wildcards and credentials, the response echoes the request and contains no star", async () => {
    const { preflight } = await serve(
      "allowOrigins: ['*'], allowMethods: ['*'], allowHeaders: ['*'], exposeHeaders: ['*'], allowCredentials: true",
    );
    const headers = { origin: "https://any.example:81", "access-control-request-method": "PUT" };
    expect(corsOf(await preflight({ ...headers, "access-control-request-headers": "x-a, x-b" }))).toEqual({
      "access-control-allow-origin": "https://any.example:81",
      "access-control-allow-credentials": "true",
      "access-control-allow-methods": "PUT",
      "access-control-allow-headers": "x-a, x-b",
      "access-control-max-age": "5",
    });
    expect(corsOf(await preflight(headers))).not.toHaveProperty("access-control-allow-headers");
  });

  test("with wildcards and without credentials, the response is the same for every origin", async () => {
    const { preflight } = await serve("allowOrigins: ['*'], allowMethods: [PUT], exposeHeaders: ['*']");
    const response = await preflight({ origin: "https://any.example", "access-control-request-method": "PUT" });
    expect(corsOf(response)).toEqual({
      "access-control-allow-origin": "*",
      "access-control-allow-methods": "PUT",
      "access-control-expose-headers": "*",
      "access-control-max-age": "5",
    });
  });

  test("get their response before the limits, and do not count", async () => {
    const { preflight, request } = await serve(listed, { limits: "{ requests: 1, unit: Hours }" });
    const headers = { origin: "https://www.foo.com", "access-control-request-method": "GET" };
    for (let n = 0; n < 3; n++) expect((await preflight(headers)).status).toBe(204);
    expect((await request("https://www.foo.com")).status).toBe(200);
    expect((await request("https://www.foo.com")).status).toBe(429);
    expect((await preflight(headers)).status).toBe(204);
  });

  test("match the rule of the method that they announce", async () => {
    const { preflight } = await serve(listed, { match: "{ method: PUT }" });
    const headers = { origin: "https://www.foo.com" };
    expect((await preflight({ ...headers, "access-control-request-method": "PUT" })).status).toBe(204);
    expect((await preflight({ ...headers, "access-control-request-method": "POST" })).status).toBe(404);
  });

  test("an OPTIONS request that is no preflight goes to the backend", async () => {
    const { backend, preflight } = await serve(listed);
    await preflight({ origin: "https://www.foo.com" });
    await preflight({ "access-control-request-method": "GET" });
    expect(backend.requests).toHaveLength(2);
  });
});

describe("other requests", () => {
  test("an allowed origin may read the response, whatever CORS fields the backend sends", async () => {
    const { request } = await serve(listed);
    const response = await request("https://www.foo.com");
    expect(await response.text()).toBe("shop");
    expect(corsOf(response)).toEqual({
      "access-control-allow-origin": "https://www.foo.com",
      "access-control-allow-credentials": "true",
      "access-control-expose-headers": "x-header-3",
    });
    expect(response.headers.get("vary")).toBe("Origin");
  });

  test.each([["https://foobar.com"], [undefined]])("from origin %s are served, without CORS fields", async (origin) => {
    const { request, backend } = await serve(listed);
    const response = await request(origin);
    expect(response.status).toBe(200);
    expect(corsOf(response)).toEqual({});
    expect(response.headers.get("vary")).toBe("Origin");
    expect(backend.requests).toHaveLength(1);
  });

  test("with credentials, a wildcard of exposed headers becomes their names", async () => {
    const { request } = await serve("allowOrigins: ['*'], exposeHeaders: ['*'], allowCredentials: true");
    const exposed = (await request("https://a.example")).headers.get("access-control-expose-headers");
    expect(exposed?.split(", ")).toContain("x-total");
    expect(exposed).not.toContain("*");
  });

  test("an allowed origin may read a local reply", async () => {
    const { request } = await serve(listed, { limits: "{ requests: 1, unit: Hours }" });
    await request("https://www.foo.com");
    const response = await request("https://www.foo.com");
    expect(response.status).toBe(429);
    expect(response.headers.get("access-control-allow-origin")).toBe("https://www.foo.com");
  });
});
