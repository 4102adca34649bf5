/** Repeated header fields and query parameters: limits and matches read the same value as the backend. */
import { connect } from "node:http2";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { defaultRequestRules } from "../../proxy/src/listen/request-head.ts";
import { startBackend, type TestBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";

interface Rig {
  readonly gateway: TestGateway;
  readonly backend: TestBackend;
  /** Sends these header lines with GET; resolves with the status. */
  readonly send: (lines: readonly string[], target?: string) => Promise<number>;
}

/** One route to one backend, with one request an hour for each value of `key`. */
async function start(key: string, options: TestGatewayOptions = {}, rule = ""): Promise<Rig> {
  const backend = await startBackend();
  const texts = [
    gatewayManifest(),
    backendManifest("b", backend.port),
    routeManifest("r", [`{ ${rule}backendRefs: [${backendRef("b")}] }`]),
    policyManifest("p", "kind: HTTPRoute, name: r", [`{ requests: 1, unit: Hours, key: '${key}' }`]),
  ];
  const gateway = await startGateway(manifests(...texts), options);
  const send = async (lines: readonly string[], target = "/"): Promise<number> => {
    const head = [`GET ${target} HTTP/1.1`, ...lines, "Connection: close"].join("\r\n");
    return (await rawHttp(gateway.url(), `${head}\r\n\r\n`)).status;
  };
  return { gateway, backend, send };
}

/** All values of the field in the backend's last request. */
function received({ requests }: TestBackend, name: string): readonly string[] {
  const { rawHeaders = [] } = requests.at(-1) ?? {};
  return rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === name);
}

describe("a header that is sent twice", () => {
  test("reaches the backend as the one line whose value was counted", async () => {
    const { send, backend } = await start('request.headers["x-api-key"]');
    expect(await send(["Host: a", "X-Api-Key: real", "x-other: 1", "x-api-key: junk"])).toBe(200);
    expect(received(backend, "x-api-key")).toEqual(["real,junk"]);
    expect(await send(["Host: a", "x-api-key: real,junk"])).toBe(429);
    expect(await send(["Host: a", "x-api-key: real"])).toBe(200);
  });

  test("reaches it so over HTTP/2 too", async () => {
    const { gateway, backend } = await start('request.headers["x-api-key"]');
    const session = connect(gateway.url());
    const stream = session.request({ "x-api-key": ["real", "junk"], cookie: ["a=1", "b=2"] });
    stream.resume();
    await new Promise((resolve) => stream.on("close", resolve));
    session.close();
    expect(received(backend, "x-api-key")).toEqual(["real,junk"]);
    expect(received(backend, "cookie")).toEqual(["a=1; b=2"]);
  });

  test.each(["authorization", "proxy-authorization", "content-type", "user-agent", "origin"])(
    "is rejected if %s has a single value by definition",
    async (name) => {
      const { send, backend, gateway } = await start(`request.headers["${name}"]`);
      expect(await send(["Host: a", `${name}: a`, `${name}: b`])).toBe(400);
      expect(backend.requests).toEqual([]);
      expect(gateway.records).toMatchObject([{ status: 400, reason: "BadRequest" }]);
    },
  );

  test("is one line too if one of the two is of a filter", async () => {
    const filter =
      "filters: [{ type: RequestHeaderModifier, requestHeaderModifier: { add: [{ name: x-user, value: eve }] } }], ";
    const { send, backend } = await start("source.address", {}, filter);
    await send(["Host: a", "X-User: ann"]);
    expect(received(backend, "x-user")).toEqual(["ann,eve"]);
  });
});

test("a header that Connection names is neither counted nor forwarded", async () => {
  const { send, backend } = await start('request.headers["x-api-key"]');
  const named = (value: string): readonly string[] => ["Host: a", "Connection: x-api-key", `x-api-key: ${value}`];
  expect(await send(named("1"))).toBe(200);
  expect(received(backend, "x-api-key")).toEqual([]);
  // Requests without a value share one counter.
  expect(await send(named("2"))).toBe(429);
});

test.each(["bearer k", "BEARER  k", "Bearer \t k", "Bearer k  "])(
  "credentials spelled %j are Bearer k",
  async (spelled) => {
    const { send, backend } = await start("request.headers.authorization");
    expect(await send(["Host: a", `Authorization: ${spelled}`])).toBe(200);
    expect(received(backend, "authorization")).toEqual(["Bearer k"]);
    expect(await send(["Host: a", "Authorization: Bearer k"])).toBe(429);
  },
);

describe("one host has one spelling", () => {
  test.each(["request.host", "request.headers.host"])("in %s", async (key) => {
    const { send, backend } = await start(key);
    expect(await send(["Host: a.example"])).toBe(200);
    expect(await send(["Host: A.Example"])).toBe(429);
    expect(await send(["Host: a.example."])).toBe(429);
    // The authority of the target takes precedence over Host (RFC 9112 §3.2.2).
    expect(await send(["Host: other"], "http://A.EXAMPLE/")).toBe(429);
    expect(received(backend, "host")).toEqual(["a.example"]);
  });

  test.each(["%61.example", "a,b", "a'b", "a;b"])("and %s is rejected", async (host) => {
    const { send } = await start("request.host");
    expect(await send([`Host: ${host}`])).toBe(400);
  });
});

describe("a name that a CGI-style server reads as another name", () => {
  const lines = [
    "Host: a",
    "X_User: eve",
    "x.user: eve",
    "X-User: ann",
    "content_length: 5",
    "x_forwarded_for: 10.0.0.1",
  ];

  test("is dropped", async () => {
    const { send, backend } = await start('request.headers["x_user"]');
    expect(await send(lines)).toBe(200);
    expect(backend.requests[0]?.headers).toMatchObject({ "x-user": "ann" });
    for (const name of ["x_user", "x.user", "content_length", "x_forwarded_for"]) {
      expect(received(backend, name)).toEqual([]);
    }
  });

  test("is rejected if the setting says so", async () => {
    const { send, backend } = await start("source.address", {
      requestRules: { ...defaultRequestRules, irregularNames: "reject" },
    });
    expect(await send(lines)).toBe(400);
    expect(backend.requests).toEqual([]);
  });

  test("is kept if the setting says so, and is then sent once", async () => {
    const { send, backend } = await start("source.address", {
      requestRules: { ...defaultRequestRules, irregularNames: "keep" },
    });
    expect(await send([...lines, "X_USER: eva"])).toBe(200);
    expect(received(backend, "x_user")).toEqual(["eve,eva"]);
  });
});

describe("a query parameter with two different values", () => {
  const conflicting = "/?id=1&key=a&id=2&key=b";

  test("is rejected if a limit reads it", async () => {
    const { send, backend } = await start('request.query["key"]');
    expect(await send(["Host: a"], conflicting)).toBe(400);
    expect(await send(["Host: a"], "/?key=a&k%65y=b")).toBe(400);
    expect(backend.requests).toEqual([]);
    expect(await send(["Host: a"], "/?key=a&id=1&id=2&key=a")).toBe(200);
  });

  test("is rejected if a match reads it", async () => {
    const match = "matches: [{ queryParams: [{ name: key, value: a }] }, {}], ";
    const { send } = await start("source.address", {}, match);
    expect(await send(["Host: a"], conflicting)).toBe(400);
  });

  test("passes if only matches of other hostnames or paths read it", async () => {
    const backend = await startBackend();
    const match = (value: string) => `matches: [{ path: { value: ${value} }, queryParams: [{ name: key, value: a }] }]`;
    const other = routeManifest("other", [`{ ${match("/")} }`]).replace("rules:", "hostnames: [other.test]\n  rules:");
    const gateway = await startGateway(
      manifests(
        gatewayManifest(),
        backendManifest("b", backend.port),
        routeManifest("r", [`{ ${match("/deep")} }`, `{ backendRefs: [${backendRef("b")}] }`]),
        other,
      ),
    );
    const send = async (host: string, target: string): Promise<number> =>
      (await rawHttp(gateway.url(), `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)).status;
    expect(await send("shop.test", conflicting)).toBe(200);
    expect(backend.requests[0]?.url).toBe(conflicting);
    expect(await send("shop.test", `/deep${conflicting}`)).toBe(400);
    expect(await send("other.test", "/?key=b&key=a")).toBe(400);
  });

  test("passes if nothing reads it", async () => {
    const { send, backend } = await start('request.query["user"]');
    expect(await send(["Host: a"], conflicting)).toBe(200);
    expect(backend.requests[0]?.url).toBe(conflicting);
  });

  test("is rejected if an expression reads all parameters", async () => {
    const { send } = await start("string(size(request.query))");
    expect(await send(["Host: a"], conflicting)).toBe(400);
  });
});

test("for all header lines, the value that the backend receives selects the counter of the request", async () => {
  const name = "x-api-key";
  const { send, backend } = await start(`request.headers["${name}"]`);
  const fieldName = fc.constantFrom(
    "x-api-key",
    "X-Api-Key",
    "X-API-KEY",
    "x_api_key",
    "x-api-keys",
    "connection",
    "cookie",
  );
  const value = fc.string({ unit: fc.constantFrom("a", "b", ",", ";", " ", "\t", '"', "é"), maxLength: 4 });
  let run = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(fieldName, value), { maxLength: 6 }), async (fields) => {
      // Each run has its own counters.
      const own = `run${run++}`;
      const sent = backend.requests.length;
      const lines = fields.map(([field, text]) => `${field}: ${field === "connection" ? "close" : `${own}${text}`}`);
      const status = await send(["Host: a", ...lines]);
      const values = received(backend, name);
      if (!fields.some(([field]) => field.toLowerCase() === name)) return;
      expect(status).toBe(200);
      expect(backend.requests.length).toBe(sent + 1);
      expect(values.length).toBe(1);
      expect(await send(["Host: a", `${name}: ${values[0] ?? ""}`])).toBe(429);
    }),
    { numRuns: 60 },
  );
});
