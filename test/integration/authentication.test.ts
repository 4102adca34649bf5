/** Authentication of clients, end to end: JSON Web Tokens with real signatures, and API keys. */
import { createHash, createHmac } from "node:crypto";
import type { ServerResponse } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import { redacted, redactHeaders } from "@gatewayproxy/runtime/redaction";
import { describe, expect, onTestFinished, test } from "vitest";
import type { FetchOutcome } from "../../proxy/src/authentication/remote-key-set.ts";
import { type Echo, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
  type TestGatewayOptions,
} from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";
import { keySet, respondWithKeys, type SigningKey, signingKey, startKeyServer } from "../support/tokens.ts";

const issuer = "https://login.example.com";
const onRoute = "kind: HTTPRoute, name: chat";
const onGateway = "kind: Gateway, name: web";

/** The wall time of the fake clock in seconds, from which the times of claims are counted. */
let nowSeconds = 0;
const claims = (parts: Readonly<Record<string, unknown>> = {}) => ({
  ...{ iss: issuer, aud: "chat", sub: "alice", exp: nowSeconds + 600 },
  ...parts,
});

function policy(name: string, target: string, authentication: string, rateLimit = ""): string {
  return `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: ${name}, namespace: default }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, ${target} }]
  traffic:
    authentication: ${authentication}
${rateLimit}
`;
}

function secret(name: string, data: string, metadata = ""): string {
  return `
apiVersion: v1
kind: Secret
metadata: { name: ${name}, namespace: default, ${metadata} }
stringData: ${data}
`;
}

const inline = (...keys: readonly SigningKey[]) => `jwks: { inline: '${keySet(...keys)}' }`;
const jwtBy = (keys: string, more = "") => `{ ${more} jwt: [{ issuer: ${issuer}, audiences: [chat], ${keys} }] }`;

async function start(documents: readonly string[], options: TestGatewayOptions = {}) {
  const backend = await startBackend();
  const base = [
    gatewayManifest(),
    backendManifest("b", backend.port),
    routeManifest("chat", [`{ name: main, backendRefs: [${backendRef("b")}] }`]),
  ];
  const gateway = await startGateway(manifests(...base, ...documents), options);
  nowSeconds = Math.floor(gateway.clock.nowMs() / 1_000);
  const get = (headers: Readonly<Record<string, string>> = {}) => fetch(`${gateway.url()}/`, { headers });
  const withToken = (token: string) => get({ authorization: `Bearer ${token}` });
  const apply = (...changed: readonly string[]) => gateway.apply(manifests(...base, ...changed));
  return { backend, gateway, get, withToken, apply };
}

/** The outcome of a request: its status, challenge and body. */
async function outcomeOf(response: Response) {
  return [response.status, response.headers.get("www-authenticate"), await response.text()];
}

describe("a token", () => {
  test.each(["RS256", "PS384", "ES256", "ES384", "EdDSA"])("signed with %s is accepted", async (alg) => {
    const key = await signingKey(alg);
    const { get, withToken, gateway } = await start([policy("p", onRoute, jwtBy(inline(key)))]);
    const response = await withToken(await key.sign(claims()));
    expect(response.status).toBe(200);
    expect(((await response.json()) as Echo).headers["authorization"]).toMatch(/^Bearer ey/);
    expect(await outcomeOf(await get())).toEqual([
      401,
      'Bearer realm="gateway"',
      "authentication failed: the request has no credential",
    ]);
    expect(gateway.records).toMatchObject([
      { status: 200, identity: "jwt alice", authentication: "accepted" },
      { status: 401, identity: undefined, authentication: "missing", reason: "Unauthenticated" },
    ]);
  });

  test("is rejected with the kind of what is wrong, and reaches no backend", async () => {
    const key = await signingKey("RS256");
    const other = await signingKey("RS256", key.kid);
    const { backend, withToken } = await start([policy("p", onRoute, jwtBy(inline(key)))]);
    const [head = "", payload = ""] = (await key.sign(claims())).split(".");
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const publicKey = JSON.stringify(key.jwk);
    const hmac = `${encode({ alg: "HS256", kid: key.kid })}.${payload}`;
    const cases: readonly (readonly [string, string])[] = [
      [`${encode({ alg: "none" })}.${payload}.`, "the algorithm of the token is not accepted"],
      [`${encode({ alg: "nOnE" })}.${payload}.`, "the algorithm of the token is not accepted"],
      [
        `${hmac}.${createHmac("sha256", publicKey).update(hmac).digest("base64url")}`,
        "the algorithm of the token is not accepted",
      ],
      [await other.sign(claims()), "the signature of the token is not valid"],
      [`${head}.${payload}.AAAA`, "the signature of the token is not valid"],
      [await key.sign(claims(), { kid: "../../../../etc/passwd" }), "the key of the token is not known"],
      [await key.sign(claims(), { kid: "https://evil.example/jwks" }), "the key of the token is not known"],
      [
        await other.sign(claims(), { kid: undefined, jwk: other.jwk, jku: "https://evil.example/jwks" }),
        "the signature of the token is not valid",
      ],
      [await key.sign(claims({ exp: nowSeconds - 31 })), "the token has expired"],
      [await key.sign(claims({ exp: undefined })), "the token cannot be read"],
      [await key.sign(claims({ nbf: nowSeconds + 31 })), "the token is not valid yet"],
      [await key.sign(claims({ iss: "https://evil.example" })), "the issuer of the token is not accepted"],
      [await key.sign(claims({ aud: ["other", "chat "] })), "the token is for another audience"],
      [await key.sign(claims({ aud: undefined })), "the token is for another audience"],
      ["ey.x", "the token cannot be read"],
      [`${head}.${payload}.${"A".repeat(20_000)}`, "the token cannot be read"],
    ];
    for (const [token, message] of cases) {
      const [status, challenge, body] = await outcomeOf(await withToken(token));
      expect([status, body]).toEqual([401, `authentication failed: ${message}`]);
      expect(challenge).toBe(`Bearer realm="gateway", error="invalid_token", error_description="${message}"`);
    }
    expect(backend.requests).toHaveLength(0);
  });

  test("is accepted within 30 s of clock skew, and not beyond its expiry from the cache", async () => {
    const key = await signingKey("ES256");
    const { gateway, withToken } = await start([policy("p", onRoute, jwtBy(inline(key)))]);
    const token = await key.sign(claims({ nbf: nowSeconds + 29, exp: nowSeconds + 60 }));
    expect((await withToken(token)).status).toBe(200);
    gateway.clock.advance(89_000);
    expect((await withToken(token)).status).toBe(200);
    gateway.clock.advance(2_000);
    expect(await (await withToken(token)).text()).toBe("authentication failed: the token has expired");
  });

  test("of any issuer of the policy is accepted, with its own key only", async () => {
    const [one, two] = [await signingKey("RS256", "k"), await signingKey("ES256", "k")];
    const second = "https://second.example";
    const jwt = `{ jwt: [{ issuer: ${issuer}, ${inline(one)} }, { issuer: ${second}, ${inline(two)} }] }`;
    const { withToken } = await start([policy("p", onRoute, jwt)]);
    expect((await withToken(await one.sign(claims()))).status).toBe(200);
    expect((await withToken(await two.sign(claims({ iss: second })))).status).toBe(200);
    expect((await withToken(await one.sign(claims({ iss: second })))).status).toBe(401);
    expect((await withToken(await two.sign(claims()))).status).toBe(401);
  });

  test("in two Authorization fields is rejected before any is read", async () => {
    const key = await signingKey("ES256");
    const { gateway } = await start([policy("p", onRoute, jwtBy(inline(key)))]);
    const token = await key.sign(claims());
    const fields = `Authorization: Bearer ${token}\r\nAuthorization: Bearer ${token}\r\n`;
    const { status } = await rawHttp(gateway.url(), `GET / HTTP/1.1\r\nHost: a\r\n${fields}Connection: close\r\n\r\n`);
    expect(status).toBe(400);
  });
});

describe("a key set at a URL", () => {
  async function withServer(options: TestGatewayOptions = {}) {
    const key = await signingKey("ES256", "one");
    const server = await startKeyServer(respondWithKeys(key));
    const fetched: FetchOutcome[] = [];
    const awaiting: (() => void)[] = [];
    const keySetFetched = (_uri: string, outcome: FetchOutcome): void => {
      fetched.push(outcome);
      for (const resolve of awaiting.splice(0)) resolve();
    };
    const nextFetch = () => new Promise<void>((resolve) => awaiting.push(resolve));
    const first = nextFetch();
    const started = await start([policy("p", onRoute, jwtBy(`jwks: { uri: '${server.uri}' }`))], {
      ...options,
      observer: { keySetFetched },
    });
    await first;
    return { key, server, fetched, nextFetch, ...started };
  }

  test("is read once for all requests, and again after five minutes", async () => {
    const { key, server, gateway, withToken, nextFetch } = await withServer();
    const token = await key.sign(claims());
    const responses = await Promise.all([1, 2, 3].map(() => withToken(token)));
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(server.requests).toEqual(["/jwks"]);
    const second = nextFetch();
    gateway.clock.advance(300_000);
    await second;
    expect(server.requests).toHaveLength(2);
  });

  test("is read again for an unknown key, at most every 10 s; a withdrawn key is not accepted any more", async () => {
    const { key, server, gateway, withToken } = await withServer();
    const next = await signingKey("ES256", "two");
    const old = await key.sign(claims());
    expect((await withToken(old)).status).toBe(200);
    server.respond = respondWithKeys(next);
    const token = await next.sign(claims());
    expect((await withToken(token)).status).toBe(401);
    expect(server.requests).toHaveLength(1);
    gateway.clock.advance(10_000);
    expect((await withToken(token)).status).toBe(200);
    expect(server.requests).toHaveLength(2);
    expect(await (await withToken(old)).text()).toBe("authentication failed: the key of the token is not known");
  });

  test("stays in use while it cannot be read", async () => {
    const { key, server, gateway, withToken, nextFetch, fetched } = await withServer();
    server.respond = (_request, response) => response.writeHead(500).end();
    const failure = nextFetch();
    gateway.clock.advance(300_000);
    await failure;
    expect(fetched.at(-1)).toMatchObject({ kind: "failed" });
    expect((await withToken(await key.sign(claims({ exp: nowSeconds + 900 })))).status).toBe(200);
    const recovery = nextFetch();
    server.respond = respondWithKeys(key);
    gateway.clock.advance(1_000);
    await recovery;
    expect(fetched.at(-1)).toMatchObject({ kind: "read", keys: 1 });
  });

  test.each([
    [
      "redirects",
      (_: unknown, response: ServerResponse) =>
        response.writeHead(302, { location: "http://169.254.169.254/latest/meta-data" }).end(),
    ],
    ["has 10 MB", (_: unknown, response: ServerResponse) => response.end(`{"keys":[${" ".repeat(10_000_000)}]}`)],
    ["is no JSON", (_: unknown, response: ServerResponse) => response.end("<html>")],
    [
      "has symmetric keys only",
      (_: unknown, response: ServerResponse) => response.end('{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}'),
    ],
  ] as const)("that %s gives no key: 503 while there is none", async (_, respond) => {
    const server = await startKeyServer(respond);
    const key = await signingKey("ES256");
    const { withToken, get } = await start([policy("p", onRoute, jwtBy(`jwks: { uri: '${server.uri}' }`))]);
    const response = await withToken(await key.sign(claims()));
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "1"]);
    expect((await get()).status).toBe(401);
  });

  test("at an address that the proxy does not connect to is never asked", async () => {
    const connections: unknown[] = [];
    const server = createServer((socket) => connections.push(socket.destroy()));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const key = await signingKey("ES256");
    const own = { host: "127.0.0.1", port };
    const addresses = new AddressGuard({ own: [own], deniesSpecial: false, allowed: [] });
    const uri = `http://localhost:${port}/`;
    const { withToken } = await start([policy("p", onRoute, jwtBy(`jwks: { uri: '${uri}' }`))], { addresses });
    expect((await withToken(await key.sign(claims()))).status).toBe(503);
    expect(connections).toHaveLength(0);
  });
});

describe("an API key", () => {
  const keys = (more = "secretRefs: [{ name: acme }]") => `{ apiKeys: { ${more} } }`;
  const acme = secret("acme", "{ apiKey: key-of-acme, apiKey-next: next-key-of-acme }", "labels: { tier: gold }");

  test("is accepted in the fields of the policy, also the next one of a rotation", async () => {
    const { gateway, get } = await start([acme, policy("p", onRoute, keys())]);
    expect((await get({ "x-api-key": "key-of-acme" })).status).toBe(200);
    expect((await get({ authorization: "bearer next-key-of-acme" })).status).toBe(200);
    expect(gateway.records[0]).toMatchObject({ identity: "apiKey default/acme" });
    const unknown = await get({ "x-api-key": "key-of-acm" });
    expect(unknown.status).toBe(401);
    expect(unknown.headers.get("www-authenticate")).toMatch(/^Bearer .*, ApiKey realm="gateway"$/);
    expect(await unknown.text()).toBe("authentication failed: the API key is not known");
    expect((await get({ "x-api-key": "" })).status).toBe(401);
    expect((await get({ authorization: "Basic key-of-acme" })).status).toBe(401);
  });

  test("of a Secret with the labels is accepted until the Secret loses them", async () => {
    const selector = keys("secretSelector: { matchLabels: { tier: gold } }");
    const { get, apply } = await start([acme, policy("p", onRoute, selector)]);
    expect((await get({ "x-api-key": "key-of-acme" })).status).toBe(200);
    const { problems } = await apply(acme.replace("gold", "silver"), policy("p", onRoute, selector));
    expect((await get({ "x-api-key": "key-of-acme" })).status).toBe(401);
    expect(problems.map(({ message }) => message)).toEqual(["no Secret of namespace default has these labels"]);
  });

  test("of a Secret that does not exist leaves the route closed, and is reported", async () => {
    const { get, apply } = await start([acme, policy("p", onRoute, keys())]);
    const { problems } = await apply(policy("p", onRoute, keys()));
    expect((await get({ "x-api-key": "key-of-acme" })).status).toBe(401);
    expect(problems.map(({ message }) => message)).toEqual(["Secret default/acme does not exist"]);
  });

  test("is not forwarded with forward: Remove", async () => {
    const authentication =
      "{ forward: Remove, apiKeys: { from: [{ header: X-Client }], secretRefs: [{ name: acme }] } }";
    const { get } = await start([acme, policy("p", onRoute, authentication)]);
    const response = await get({ "x-client": "key-of-acme", authorization: "Basic abc", "x-other": "1" });
    const { headers } = (await response.json()) as Echo;
    expect([headers["x-client"], headers["authorization"], headers["x-other"]]).toEqual([undefined, "Basic abc", "1"]);
  });
});

test("a field that a policy names is redacted where headers are shown", async () => {
  const authentication = "{ apiKeys: { from: [{ header: x-client-no }], secretRefs: [{ name: acme }] } }";
  await start([secret("acme", "{ apiKey: key-of-acme }"), policy("p", onRoute, authentication)]);
  expect(redactHeaders(["X-Client-No", "key-of-acme"])).toEqual([{ name: "X-Client-No", value: redacted }]);
});

test("a snapshot holds no key, and its hash in the form that dumps redact", async () => {
  const { apply } = await start([]);
  const translation = await apply(
    secret(
      "acme",
      "{ apiKey: key-of-acme }",
      `annotations: { kubectl.kubernetes.io/last-applied-configuration: key-of-acme }`,
    ),
    policy("p", onRoute, "{ apiKeys: { secretRefs: [{ name: acme }] } }"),
  );
  const [bind] = translation.binds;
  const keys = bind?.listeners[0]?.routes[0]?.rules[0]?.authentication?.[0]?.apiKeys?.keys;
  expect(keys).toEqual([
    {
      sha256: { secret: createHash("sha256").update("key-of-acme").digest("base64") },
      source: { namespace: "default", name: "acme" },
      attributes: { name: "acme", namespace: "default" },
    },
  ]);
  expect(JSON.stringify(translation.binds)).not.toContain("key-of-acme");
});

describe("several policies", () => {
  test("must all accept a request: the owner of a route cannot open what the Gateway closes", async () => {
    const [company, tenant] = [await signingKey("ES256", "c"), await signingKey("ES256", "t")];
    const own = `{ mode: Optional, jwt: [{ issuer: https://tenant.example, ${inline(tenant)} }] }`;
    const { withToken, get } = await start([
      policy("gateway", onGateway, jwtBy(inline(company))),
      policy("route", onRoute, own),
    ]);
    expect((await withToken(await company.sign(claims()))).status).toBe(200);
    expect((await withToken(await tenant.sign(claims({ iss: "https://tenant.example" })))).status).toBe(401);
    expect((await get()).status).toBe(401);
  });

  test("of a route give no identity to the limits of its Gateway", async () => {
    const tenant = await signingKey("ES256", "t");
    const limit = "    rateLimit: { local: [{ requests: 1, unit: Hours, key: jwt.sub }] }";
    const optional = "{ mode: Optional, apiKeys: { secretRefs: [{ name: acme }] } }";
    const { withToken } = await start([
      secret("acme", "{ apiKey: key-of-acme }"),
      policy("gateway", onGateway, optional, limit),
      policy("route", onRoute, jwtBy(inline(tenant))),
    ]);
    expect((await withToken(await tenant.sign(claims({ sub: "a" })))).status).toBe(200);
    // Another subject of the same tenant has no counter of its own at the Gateway.
    expect((await withToken(await tenant.sign(claims({ sub: "b" })))).status).toBe(429);
  });
});

describe("limits by identity", () => {
  test("count by claims, by labels, and together where there is no identity", async () => {
    const key = await signingKey("ES256");
    const authentication = `{ mode: Optional, jwt: [{ issuer: ${issuer}, ${inline(key)} }], apiKeys: { secretRefs: [{ name: acme }] } }`;
    const limit =
      "    rateLimit: { local: [{ requests: 1, unit: Hours, key: 'has(jwt.sub) ? jwt.sub : apiKey.tier' }] }";
    const { withToken, get } = await start([
      secret("acme", "{ apiKey: key-of-acme }", "labels: { tier: gold }"),
      policy("p", onRoute, authentication, limit),
    ]);
    const alice = await key.sign(claims());
    const statuses = [
      (await withToken(alice)).status,
      (await withToken(alice)).status,
      (await withToken(await key.sign(claims({ sub: "bob" })))).status,
      (await get({ "x-api-key": "key-of-acme" })).status,
      (await get({ "x-api-key": "key-of-acme" })).status,
      (await get()).status,
      (await withToken("a.b.c")).status,
    ];
    expect(statuses).toEqual([200, 429, 200, 200, 429, 200, 429]);
  });

  test("are reported where no policy verifies the identity", async () => {
    const { apply } = await start([]);
    const limited = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: p, namespace: default }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, ${onRoute} }]
  traffic: { rateLimit: { local: [{ requests: 1, unit: Hours, key: jwt.sub }] } }
`;
    const { problems } = await apply(limited);
    expect(problems.map(({ message }) => message)).toEqual([
      "expressions read jwt, and no policy with authentication.jwt applies to HTTPRoute/default/chat: they have no value there",
    ]);
  });
});

test("an authentication that cannot be read closes its targets, whatever --refused-policies says", async () => {
  const broken = policy("p", onRoute, "{ jwt: [{ issuer: 7 }] }");
  const { get } = await start([broken], { expectsProblems: true, refusedPolicies: "Open" });
  expect((await get()).status).toBe(503);
});

test("a preflight request needs no credential", async () => {
  const backend = await startBackend();
  const cors = "{ type: CORS, cors: { allowOrigins: ['https://app.example'] } }";
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", backend.port),
      routeManifest("chat", [`{ filters: [${cors}], backendRefs: [${backendRef("b")}] }`]),
      secret("acme", "{ apiKey: key-of-acme }"),
      policy("p", onRoute, "{ apiKeys: { secretRefs: [{ name: acme }] } }"),
    ),
  );
  const headers = { origin: "https://app.example", "access-control-request-method": "GET" };
  const preflight = await fetch(gateway.url(), { method: "OPTIONS", headers });
  expect(preflight.status).toBe(204);
  const rejected = await fetch(gateway.url(), { headers: { origin: "https://app.example" } });
  expect([rejected.status, rejected.headers.get("access-control-allow-origin")]).toEqual([401, "https://app.example"]);
  expect(backend.requests).toHaveLength(0);
});
