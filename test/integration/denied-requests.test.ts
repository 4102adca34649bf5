/**
 * `denied` of a ProxyPolicy: the form, the status, the text and the headers of a 429, over HTTP/1.1, HTTP/2 and gRPC.
 */
import { status as grpcStatus } from "@grpc/grpc-js";
import { connect } from "node:http2";
import { describe, expect, onTestFinished, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  serviceManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";
import { globalPolicy, manifestsUnder, serveUnder } from "../support/global-policy.ts";
import { callGrpc, connectGrpc, startGrpcBackend } from "../support/grpc-backend.ts";
import { startScriptedService } from "../support/rate-limit-service.ts";
import { rawHttp } from "../support/raw-http.ts";

const onRoute = "kind: HTTPRoute, name: chat";
/** Denies every request, and allows the next one in 60 seconds. */
const nothing = "{ name: nothing, requests: 1, unit: Minutes, limit: '0' }";

/** Serves the route `chat` under policies. */
async function serve(...policies: readonly string[]): Promise<TestGateway> {
  const backend = await startBackend(respondWith(200, "hello"));
  return serveUnder(backend, ...policies);
}

function denying(denied: string): Promise<TestGateway> {
  return serve(policyManifest("limits", onRoute, [nothing], [`denied: ${denied}`]));
}

interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

async function byHttp1(gateway: TestGateway, path = "/", init: RequestInit = {}): Promise<Reply> {
  const response = await fetch(`${gateway.url()}${path}`, init);
  return { status: response.status, headers: Object.fromEntries(response.headers), body: await response.text() };
}

function byHttp2(gateway: TestGateway, path = "/", init: { readonly headers?: object } = {}): Promise<Reply> {
  const session = connect(gateway.url());
  onTestFinished(() => session.close());
  return new Promise((resolve, reject) => {
    const stream = session.request({ ":path": path, ...init.headers });
    let head: Record<string, string | string[] | undefined> = {};
    let body = "";
    stream.on("response", (received) => (head = received as typeof head));
    stream.setEncoding("utf8").on("data", (text: string) => (body += text));
    stream.on("end", () => resolve({ status: Number(head[":status"]), headers: head, body })).on("error", reject);
  });
}

const title = "Request cannot be satisfied as assigned quota has been exceeded";
const type = "https://iana.org/assignments/http-problem-types#quota-exceeded";

describe.each([
  ["HTTP/1.1", byHttp1],
  ["HTTP/2", byHttp2],
] as const)("over %s", (_protocol, send) => {
  test("the default is plain text with status 429", async () => {
    const { status, headers, body } = await send(await serve(policyManifest("limits", onRoute, [nothing])));
    expect([status, body]).toEqual([429, "rate limit exceeded"]);
    expect(headers).toMatchObject({ "content-type": "text/plain", "retry-after": "60", "x-ratelimit-limit": "0" });
  });

  test("Problem is a problem of the draft's type", async () => {
    const { status, headers, body } = await send(await denying("{ format: Problem }"));
    expect(status).toBe(429);
    expect(headers).toMatchObject({ "content-type": "application/problem+json", "retry-after": "60" });
    const detail = "Rate limit exceeded. Please try again in 1m0s.";
    expect(JSON.parse(body)).toEqual({ type, title, status: 429, detail, "violated-policies": ["nothing"] });
  });

  test("status, body and headers", async () => {
    const denied = `{ status: 503, body: 'Später: ☃', headers: [{ name: X-Plan, value: free }, { name: server, value: us }] }`;
    const gateway = await denying(denied);
    const { status, headers, body } = await send(gateway);
    expect([status, body]).toEqual([503, "Später: ☃"]);
    expect(headers).toMatchObject({
      ...{ "content-type": "text/plain; charset=utf-8", "x-plan": "free", server: "us" },
      ...{ "cache-control": "no-store", "retry-after": "60", "x-ratelimit-remaining": "0" },
    });
    expect(gateway.records[0]).toMatchObject({ status: 503, reason: "RateLimited" });
  });

  test("a body of any type, by its content-type", async () => {
    const body = '{"error": "slow down"}';
    const reply = await send(
      await denying(`{ body: '${body}', headers: [{ name: Content-Type, value: application/json }] }`),
    );
    expect(reply.body).toBe(body);
    expect(reply.headers["content-type"]).toBe("application/json");
  });

  test("an empty body", async () => {
    const reply = await send(await denying(`{ body: '' }`));
    expect([reply.status, reply.body]).toEqual([429, ""]);
    expect(reply.headers).toMatchObject({ "content-type": "text/plain; charset=utf-8", "retry-after": "60" });
  });
});

test("the body is the detail of a problem, escaped", async () => {
  const { body } = await byHttp1(await denying(`{ format: Problem, status: 402, body: "\\"}\\n☃" }`));
  expect(JSON.parse(body)).toMatchObject({ status: 402, detail: '"}\n☃' });
});

test("a problem lists the exhausted entries of its policy alone, by their names", async () => {
  const gateway = await serve(
    policyManifest(
      "limits",
      onRoute,
      [
        "{ requests: 1, unit: Hours, limit: '0' }",
        "{ name: day, tokens: 1, unit: Days, limit: '0' }",
        "{ name: shadow, requests: 1, unit: Days, limit: '0', mode: Shadow }",
        "{ name: elsewhere, requests: 1, unit: Weeks, limit: '0', when: 'false' }",
        "{ name: left, requests: 5, unit: Days }",
      ],
      ["denied: { format: Problem }"],
    ),
    policyManifest("ceiling", "kind: Gateway, name: web", ["{ name: secret, requests: 1, unit: Hours, limit: '0' }"]),
  );
  const { body, headers } = await byHttp1(gateway);
  expect(JSON.parse(body)).toMatchObject({ "violated-policies": ["limits-0", "day"] });
  expect(headers["retry-after"]).toBe("86400");
});

test("the policy whose entry denies decides", async () => {
  const gateway = await serve(
    policyManifest("limits", onRoute, ["{ requests: 1, unit: Minutes }"], ["denied: { format: Problem }"]),
    policyManifest(
      "ceiling",
      "kind: Gateway, name: web",
      ["{ requests: 2, unit: Hours }"],
      ["denied: { status: 503 }"],
    ),
  );
  const statusAndType = async () => {
    const { status, headers } = await byHttp1(gateway);
    return [status, headers["content-type"]];
  };
  expect(await statusAndType()).toEqual([200, "text/plain"]);
  expect(await statusAndType()).toEqual([429, "application/problem+json"]);
  gateway.clock.advance(60_000);
  expect(await statusAndType()).toEqual([200, "text/plain"]);
  // Both deny: the entry that denies for the longest time decides.
  expect(await statusAndType()).toEqual([503, "text/plain"]);
});

test("a response to HEAD has the headers of the body, and no body", async () => {
  const gateway = await denying("{ format: Problem }");
  const { head, body: sent } = await rawHttp(gateway.url(), "HEAD / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
  expect(head).toContain("content-type: application/problem+json");
  expect(head).toContain("retry-after: 60");
  expect(sent).toBe("");
});

test("scripts of other origins may read it", async () => {
  const backend = await startBackend();
  const cors =
    "{ type: CORS, cors: { allowOrigins: ['https://app.example'], allowCredentials: true, exposeHeaders: ['*'] } }";
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("llm", backend.port),
      routeManifest("chat", [`{ filters: [${cors}], backendRefs: [${backendRef("llm")}] }`]),
      policyManifest(
        "limits",
        onRoute,
        [nothing],
        ["headers: [Ietf]", "denied: { format: Problem, headers: [{ name: x-plan, value: free }] }"],
      ),
    ),
  );
  const { status, headers } = await byHttp1(gateway, "/", { headers: { origin: "https://app.example" } });
  expect(status).toBe(429);
  expect(headers["access-control-allow-origin"]).toBe("https://app.example");
  const exposed = String(headers["access-control-expose-headers"]).split(", ");
  expect(exposed).toEqual(expect.arrayContaining(["x-plan", "retry-after", "ratelimit", "ratelimit-policy"]));
});

test.each(["{ format: Problem }", "{ format: Provider, status: 503 }", "{ status: 404 }"])(
  "a gRPC call gets RESOURCE_EXHAUSTED without a body for %s",
  async (denied) => {
    const { port } = await startGrpcBackend();
    const gateway = await startGateway(
      manifests(
        gatewayManifest(),
        serviceManifest("echo", [port], "appProtocol: kubernetes.io/h2c"),
        routeManifest("chat", ["backendRefs: [{ name: echo, port: 80 }]"]),
        policyManifest("limits", onRoute, [nothing], ["headers: [XRateLimit, Ietf, OpenAI]", `denied: ${denied}`]),
      ),
    );
    const outcome = await callGrpc(connectGrpc(new URL(gateway.url()).host), "Say", ["hello"]);
    expect(outcome).toMatchObject({
      code: grpcStatus.RESOURCE_EXHAUSTED,
      details: "rate limit exceeded",
      messages: [],
    });
    expect(Object.fromEntries(Object.entries(outcome.metadata).map(([name, [value]]) => [name, value]))).toMatchObject({
      ...{ "retry-after": "60", "x-ratelimit-remaining": "0", "x-ratelimit-limit-requests": "0" },
      ...{ "ratelimit-policy": '"nothing";q=0;w=60', ratelimit: '"nothing";r=0;t=60' },
    });
    expect(gateway.records[0]).toMatchObject({ status: 200, grpcStatus: 8, reason: "RateLimited" });
  },
);

test("the message of a gRPC call is the body, and the headers are its metadata", async () => {
  const { port } = await startGrpcBackend();
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      serviceManifest("echo", [port], "appProtocol: kubernetes.io/h2c"),
      routeManifest("chat", ["backendRefs: [{ name: echo, port: 80 }]"]),
      policyManifest(
        "limits",
        onRoute,
        [nothing],
        ["denied: { format: Problem, body: 'zu viel – später', headers: [{ name: x-plan, value: free }] }"],
      ),
    ),
  );
  const outcome = await callGrpc(connectGrpc(new URL(gateway.url()).host), "Say", ["hello"]);
  expect(outcome).toMatchObject({ code: grpcStatus.RESOURCE_EXHAUSTED, details: "zu viel – später" });
  expect(outcome.metadata["x-plan"]).toEqual(["free"]);
});

describe("a denial by a rate limit service", () => {
  const user = `descriptors: [{ entries: [{ name: user, expression: "'a'" }] }, { unit: Tokens, entries: [{ name: user, expression: "'b'" }] }]`;
  const reported = (name: string) => ({ requestsPerUnit: 10, unit: "MINUTE" as const, name });
  const over = {
    overallCode: "OVER_LIMIT" as const,
    statuses: [
      { code: "OK" as const, currentLimit: reported(""), limitRemaining: 3, durationUntilReset: { seconds: 42 } },
      { code: "OVER_LIMIT" as const, currentLimit: reported('te"am'), durationUntilReset: { seconds: 42 } },
    ],
    rawBody: Buffer.from("<p>too much</p>"),
    responseHeadersToAdd: [
      { key: "content-type", value: "text/html" },
      { key: "x-plan", value: "service" },
      { key: "ratelimit", value: '"own";r=1' },
    ],
  };

  async function denyingService(fields: string): Promise<TestGateway> {
    const service = await startScriptedService(() => over);
    const policy = globalPolicy(`address: '127.0.0.1:${service.port}', ${user}`);
    return serve(`${policy}      ${fields}\n`);
  }

  test("has the body of the service in Text", async () => {
    const { status, headers, body } = await byHttp1(await denyingService("denied: { status: 503 }"));
    expect([status, body]).toEqual([503, "<p>too much</p>"]);
    expect(headers).toMatchObject({ "content-type": "text/html", "x-envoy-ratelimited": "true", "x-plan": "service" });
    expect(headers["ratelimit"]).toBe('"own";r=1');
  });

  test("has the body and the headers of the policy in their place", async () => {
    const denied = "denied: { body: wait, headers: [{ name: x-plan, value: policy }] }";
    const { headers, body } = await byHttp1(await denyingService(denied));
    expect(body).toBe("wait");
    expect(headers).toMatchObject({ "content-type": "text/plain; charset=utf-8", "x-plan": "policy" });
    expect(headers).toMatchObject({ "x-envoy-ratelimited": "true", "x-ratelimit-remaining": "0", "retry-after": "42" });
  });

  test("is a problem with the service's names of limits", async () => {
    const gateway = await denyingService("headers: [Ietf, OpenAI]\n      denied: { format: Problem }");
    for (const { headers, body } of [await byHttp1(gateway), await byHttp1(gateway)]) {
      expect(JSON.parse(body)).toMatchObject({ type, "violated-policies": ["team"] });
      expect(headers).toMatchObject({
        ...{ "content-type": "application/problem+json", "x-envoy-ratelimited": "true", "x-plan": "service" },
        ...{
          "ratelimit-policy": '"chat-global-0";q=10;w=60, "team";q=10;qu="tokens";w=60',
          ratelimit: '"chat-global-0";r=3;t=42, "team";r=0;t=42',
        },
        ...{ "x-ratelimit-remaining-requests": "3", "x-ratelimit-remaining-tokens": "0" },
        ...{ "x-ratelimit-reset-tokens": "42s" },
      });
      expect(headers["x-ratelimit-limit"]).toBeUndefined();
    }
    expect(gateway.records[1]?.globalDecisions).toMatchObject([{ outcome: "denied", by: "cache" }]);
  });
});

test("a fallback entry denies as its policy says", async () => {
  const service = await startScriptedService(() => ({ code: grpcStatus.INTERNAL, details: "down" }));
  const fallback = "fallback: [{ requests: 1, unit: Minutes }]";
  const global = `address: '127.0.0.1:${service.port}', descriptors: [{ entries: [{ name: a, expression: "'a'" }] }], ${fallback}`;
  const gateway = await serve(`${globalPolicy(global)}      headers: [Ietf]\n      denied: { format: Problem }\n`);
  const allowed = await byHttp1(gateway);
  expect(allowed.headers).toMatchObject({ ratelimit: '"chat-fallback-0";r=0;t=60' });
  expect(allowed.headers["x-ratelimit-limit"]).toBeUndefined();
  const { status, headers, body } = await byHttp1(gateway);
  expect(status).toBe(429);
  expect(JSON.parse(body)).toMatchObject({ "violated-policies": ["chat-fallback-0"] });
  expect(headers).toMatchObject({ "ratelimit-policy": '"chat-fallback-0";q=1;w=60', "retry-after": "60" });
});

test("the limits that a service reported deny as their policy says while it is unavailable", async () => {
  const currentLimit = { requestsPerUnit: 2, unit: "MINUTE" as const };
  const service = await startScriptedService((_call, number) =>
    number === 1
      ? { overallCode: "OK", statuses: [{ code: "OK", currentLimit, limitRemaining: 1 }] }
      : { code: grpcStatus.INTERNAL, details: "down" },
  );
  const global = `address: '127.0.0.1:${service.port}', descriptors: [{ entries: [{ name: a, expression: "'a'" }] }]`;
  const gateway = await serve(`${globalPolicy(global)}      headers: [Ietf]\n      denied: { format: Problem }\n`);
  const replies: Reply[] = [];
  for (let sent = 0; sent < 4; sent++) replies.push(await byHttp1(gateway));
  expect(replies.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
  expect(replies.map(({ headers }) => headers["ratelimit"])).toEqual([
    '"chat-global-0";r=1',
    ...['"chat-global-0";r=1;t=60', '"chat-global-0";r=0;t=60', '"chat-global-0";r=0;t=60'],
  ]);
  expect(JSON.parse(replies[3]?.body ?? "")).toMatchObject({ "violated-policies": ["chat-global-0"] });
});

test("a denial by one global limit lists the limits that allowed the request, with their refund", async () => {
  const status = (code: "OK" | "OVER_LIMIT", limitRemaining: number) => ({
    code,
    currentLimit: { requestsPerUnit: 10, unit: "MINUTE" as const },
    limitRemaining,
    durationUntilReset: { seconds: 42 },
  });
  const service = await startScriptedService(({ request: { domain } }) =>
    domain === "chat"
      ? { overallCode: "OVER_LIMIT", statuses: [status("OVER_LIMIT", 0)] }
      : { overallCode: "OK", statuses: [status("OK", 4)] },
  );
  const global = globalPolicy(
    `address: '127.0.0.1:${service.port}', descriptors: [{ entries: [{ name: a, expression: "'a'" }] }]`,
    "[{ name: local, requests: 5, unit: Hours }]",
  );
  const other = global
    .replace("name: chat, namespace", "name: other, namespace")
    .replace("domain: chat", "domain: other");
  const gateway = await serve(`${global}      headers: [Ietf]\n`, `${other}      headers: [Ietf]\n`);
  const { status: code, headers } = await byHttp1(gateway);
  expect(code).toBe(429);
  expect(headers["ratelimit"]).toBe(
    '"local";r=5;t=3600, "local-2";r=5;t=3600, "other-global-0";r=4;t=42, "chat-global-0";r=0;t=42',
  );
});

test("an unavailable service stays a 503 in plain text, with the local limits in its headers", async () => {
  const service = await startScriptedService(() => ({ code: grpcStatus.INTERNAL, details: "down" }));
  const global = globalPolicy(
    `address: '127.0.0.1:${service.port}', failureMode: Closed, descriptors: [{ entries: [{ name: a, expression: "'a'" }] }]`,
    "[{ name: local, requests: 5, unit: Hours }]",
  );
  const { status, headers, body } = await byHttp1(
    await serve(`${global}      headers: [Ietf]\n      denied: { format: Problem }\n`),
  );
  expect([status, body]).toEqual([503, "the rate limit service is unavailable"]);
  expect(headers["ratelimit"]).toBe('"local";r=5;t=3600');
});

test("an edit of the response keeps the counters", async () => {
  const backend = await startBackend(respondWith(200, "hello"));
  const local = ["{ requests: 1, unit: Hours }"];
  const gateway = await serveUnder(backend, policyManifest("limits", onRoute, local));
  expect((await byHttp1(gateway)).status).toBe(200);
  await gateway.apply(manifestsUnder(backend, policyManifest("limits", onRoute, local, ["denied: { status: 503 }"])));
  expect((await byHttp1(gateway)).status).toBe(503);
});
