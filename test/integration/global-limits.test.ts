/** Global limits, end to end, with a scripted rate limit service. */
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { type Echo, echo, respondWith, startBackend } from "../support/backend.ts";
import { byAddress, globalPolicy, manifestsUnder, send, serveUnder, tokensByUser } from "../support/global-policy.ts";
import { rawHttp } from "../support/raw-http.ts";
import { type Script, startScriptedService } from "../support/rate-limit-service.ts";

const over = {
  code: "OVER_LIMIT",
  currentLimit: { requestsPerUnit: 10, unit: "MINUTE" },
  limitRemaining: 0,
  durationUntilReset: { seconds: 42 },
} as const;
const fine = {
  code: "OK",
  currentLimit: { requestsPerUnit: 10, unit: "MINUTE" },
  limitRemaining: 7,
  durationUntilReset: { seconds: 42 },
} as const;
const allow: Script = () => ({ overallCode: "OK", statuses: [fine] });
const deny: Script = () => ({ overallCode: "OVER_LIMIT", statuses: [over] });

/** An LLM backend whose every response has a usage of `tokens`. */
function costing(tokens: number): Parameters<typeof startBackend>[0] {
  return (request, response) => {
    request.resume();
    response.writeHead(200, { "content-type": "application/json" });
    response.end(
      JSON.stringify({
        model: "mock-1",
        usage: { prompt_tokens: 1, completion_tokens: tokens - 1, total_tokens: tokens },
      }),
    );
  };
}

describe("the service decides", () => {
  test("an allowed request is forwarded, and its response has the service's limit in Envoy's format", async () => {
    const service = await startScriptedService(allow);
    const backend = await startBackend(respondWith(200, "hello"));
    const gateway = await serveUnder(backend, globalPolicy(`address: '127.0.0.1:${service.port}', ${byAddress}`));
    const response = await send(gateway);
    expect([response.status, response.body]).toEqual([200, "hello"]);
    expect(response.limit).toEqual(["10, 10;w=60", "7", "42"]);
    expect(service.calls[0]?.request).toMatchObject({
      domain: "chat",
      descriptors: [{ entries: [{ key: "remote_address", value: "127.0.0.1" }], limit: null }],
      hitsAddend: 1,
    });
    expect(gateway.records[0]?.globalDecisions).toMatchObject([{ outcome: "allowed", by: "service" }]);
  });

  test("a denied request is not forwarded, and has x-envoy-ratelimited whatever the service", async () => {
    const service = await startScriptedService(deny);
    const backend = await startBackend();
    const gateway = await serveUnder(backend, globalPolicy(`address: '127.0.0.1:${service.port}', ${byAddress}`));
    const response = await send(gateway);
    expect([response.status, response.body]).toEqual([429, "rate limit exceeded"]);
    expect(response.limit).toEqual(["10, 10;w=60", "0", "42"]);
    expect(response.headers.get("retry-after")).toBe("42");
    expect(response.headers.get("content-type")).toBe("text/plain");
    expect(response.headers.get("x-envoy-ratelimited")).toBe("true");
    expect(backend.requests).toHaveLength(0);
    expect(gateway.records[0]).toMatchObject({
      reason: "RateLimited",
      globalDecisions: [{ outcome: "denied", by: "service" }],
    });
  });

  test("envoyRatelimitedHeader: FromService leaves x-envoy-ratelimited to the service", async () => {
    const service = await startScriptedService(deny);
    const gateway = await serveUnder(
      await startBackend(),
      globalPolicy(`address: '127.0.0.1:${service.port}', envoyRatelimitedHeader: FromService, ${byAddress}`),
    );
    expect((await send(gateway)).headers.has("x-envoy-ratelimited")).toBe(false);
  });

  test("x-envoy-ratelimited of a backend or of the service is removed from responses to allowed requests", async () => {
    const mark = { key: "X-Envoy-RateLimited", value: "true" };
    const service = await startScriptedService(() => ({
      overallCode: "OK",
      statuses: [fine],
      responseHeadersToAdd: [mark],
    }));
    const backend = await startBackend((request, response) => {
      request.resume();
      response.writeHead(429, { "X-Envoy-RateLimited": "true", trailer: "x-envoy-ratelimited" });
      response.write("busy");
      response.addTrailers({ "x-envoy-ratelimited": "true" });
      response.end();
    });
    const gateway = await serveUnder(backend, globalPolicy(`address: '127.0.0.1:${service.port}', ${byAddress}`));
    const { status, head, body } = await rawHttp(
      gateway.url(),
      "GET / HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\nConnection: close\r\n\r\n",
    );
    expect(status).toBe(429);
    expect(head + body).not.toMatch(/^x-envoy-ratelimited:/im);
  });

  test("the client gets the service's response headers and body, the backend its request headers", async () => {
    const service = await startScriptedService((_call, number) =>
      number === 1
        ? {
            overallCode: "OK",
            responseHeadersToAdd: [{ key: "X-Tier", value: "gold" }],
            requestHeadersToAdd: [
              { key: "x-quota", value: "left" },
              { key: "Host", value: "evil" },
            ],
          }
        : {
            overallCode: "OVER_LIMIT",
            rawBody: Buffer.from('{"error":"slow down"}'),
            responseHeadersToAdd: [
              { key: "Content-Type", value: "application/json" },
              { key: "x-envoy-ratelimited", value: "true" },
            ],
          },
    );
    const gateway = await serveUnder(
      await startBackend(echo),
      globalPolicy(`address: '127.0.0.1:${service.port}', ${byAddress}`),
    );
    const passed = await send(gateway);
    expect(passed.headers.get("x-tier")).toBe("gold");
    const { headers } = JSON.parse(passed.body) as Echo;
    expect(headers["x-quota"]).toBe("left");
    expect(headers["host"]).not.toContain("evil");
    const denied = await send(gateway);
    expect([denied.status, denied.body]).toEqual([429, '{"error":"slow down"}']);
    expect(denied.headers.get("content-type")).toBe("application/json");
    expect(denied.headers.get("x-envoy-ratelimited")).toBe("true");
  });

  test("Shadow calls the service and records the decision, and neither denies nor adds headers", async () => {
    const service = await startScriptedService(deny);
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(`address: '127.0.0.1:${service.port}', mode: Shadow, ${byAddress}`),
    );
    const response = await send(gateway);
    expect([response.status, response.limit]).toEqual([200, [null, null, null]]);
    expect(gateway.records[0]?.globalDecisions).toMatchObject([{ outcome: "shadowDenied" }]);
  });

  test("a denial is cached until its reset, and requests over the limit make no call", async () => {
    const service = await startScriptedService(deny);
    const gateway = await serveUnder(
      await startBackend(),
      globalPolicy(`address: '127.0.0.1:${service.port}', ${byAddress}`),
    );
    await send(gateway);
    gateway.clock.advance(2_000);
    const again = await send(gateway);
    expect([again.status, ...again.limit]).toEqual([429, "10, 10;w=60", "0", "40"]);
    expect(again.headers.get("retry-after")).toBe("40");
    expect(gateway.records[1]?.globalDecisions).toMatchObject([{ outcome: "denied", by: "cache" }]);
    expect(service.calls).toHaveLength(1);
    gateway.clock.advance(40_000);
    await send(gateway);
    expect(service.calls).toHaveLength(2);
  });

  test.each([
    ["of the limit", "{ requestsPerUnit: 20, unit: Minute }", "chat"],
    ["of the domain", "{ requestsPerUnit: 10, unit: Minute }", "more"],
  ])("an edit %s makes a call, whatever denials are cached", async (_, limitOverride, domain) => {
    const service = await startScriptedService(deny);
    const policy = (override: string) =>
      globalPolicy(
        `address: '127.0.0.1:${service.port}', descriptors: [{ entries: [{ name: remote_address, expression: source.address }], limitOverride: ${override} }]`,
      );
    const backend = await startBackend();
    const gateway = await serveUnder(backend, policy("{ requestsPerUnit: 10, unit: Minute }"));
    await send(gateway);
    await send(gateway);
    expect(service.calls).toHaveLength(1);
    await gateway.apply(manifestsUnder(backend, policy(limitOverride).replace("domain: chat", `domain: ${domain}`)));
    await send(gateway);
    expect(service.calls).toHaveLength(2);
  });

  test("a cached denial ends with its window, even if the reset is rounded up to whole seconds", async () => {
    const inSeconds = (seconds: number, nanos: number) => ({
      overallCode: "OVER_LIMIT" as const,
      statuses: [{ ...over, durationUntilReset: { seconds, nanos } }],
    });
    const responses = [inSeconds(42, 0), inSeconds(1, 0), inSeconds(1, 500_000_000)];
    const service = await startScriptedService((_, number) => responses[number - 1]);
    const gateway = await serveUnder(
      await startBackend(),
      globalPolicy(`address: '127.0.0.1:${service.port}', ${byAddress}`),
    );
    const callsAfter = async (ms: number): Promise<number> => {
      gateway.clock.advance(ms);
      await send(gateway);
      return service.calls.length;
    };
    expect(await callsAfter(0)).toBe(1);
    expect(await callsAfter(40_999)).toBe(1);
    expect(await callsAfter(1)).toBe(2);
    // Less than a second may be left of the last one.
    expect(await callsAfter(0)).toBe(3);
    expect(await callsAfter(1_499)).toBe(3);
  });

  test("a cached denial decreases the service's retry-after", async () => {
    const service = await startScriptedService(() => ({
      overallCode: "OVER_LIMIT",
      statuses: [over],
      responseHeadersToAdd: [{ key: "Retry-After", value: "42" }],
    }));
    const gateway = await serveUnder(
      await startBackend(),
      globalPolicy(`address: '127.0.0.1:${service.port}', ${byAddress}`),
    );
    expect((await send(gateway)).headers.get("retry-after")).toBe("42");
    gateway.clock.advance(30_000);
    expect((await send(gateway)).headers.get("retry-after")).toBe("12");
    expect(service.calls).toHaveLength(1);
  });
});

describe("descriptors", () => {
  test("one whose header is absent does not apply if it has Skip", async () => {
    const service = await startScriptedService(allow);
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(
        `address: '127.0.0.1:${service.port}', failureMode: Closed, descriptors: [{ entries: [{ name: user, expression: 'request.headers["x-user"]', ifAbsent: Skip }] }]`,
      ),
    );
    expect((await send(gateway)).status).toBe(200);
    expect(service.calls).toHaveLength(0);
    expect((await send(gateway, { headers: { "x-user": "ann" } })).status).toBe(200);
    expect(service.calls).toHaveLength(1);
  });

  test.each([
    ['request.headers["x-user"]', "has no header", {}],
    ['request.headers["x-user"]', "has an empty header", { headers: { "x-user": "" } }],
    ["unverifiedJwt.sub", "has no token", {}],
    ['request.query["user"]', "has no parameter", {}],
    ["int(request.path)", "has no number", {}],
    ["llm.requestModel", "has no body", {}],
    ["llm.requestModel", "has no model", { method: "POST", body: "{}" }],
    ["llm.requestModel", "has the model null", { method: "POST", body: '{"model":null}' }],
    ["llm.requestModel", "has a number as the model", { method: "POST", body: '{"model":4}' }],
    ["llm.requestModel", "is a form", { method: "POST", body: "--x--" }],
  ])("%s has no value if the request %s", async (expression, _what, request) => {
    const service = await startScriptedService(deny);
    const backend = await startBackend(respondWith(200));
    const gateway = await serveUnder(
      backend,
      globalPolicy(
        `address: '127.0.0.1:${service.port}', descriptors: [{ entries: [{ name: n, expression: '${expression}' }] }]`,
      ),
    );
    expect((await send(gateway, request)).status).toBe(429);
    expect(service.calls[0]?.request.descriptors[0]?.entries).toEqual([{ key: "n", value: "-" }]);
    expect(backend.requests).toHaveLength(0);
  });

  test.each([
    ["in UTF-16", Buffer.from('{"model":"gpt-5"}', "utf16le"), {}, 400],
    ["with two models", '{"model":"gpt-5","Model":"x"}', {}, 400],
    ["compressed", gzipSync('{"model":"gpt-5"}'), { "content-encoding": "gzip" }, 415],
  ])("one with the model rejects a body %s", async (_how, body, headers, status) => {
    const service = await startScriptedService(allow);
    const backend = await startBackend(respondWith(200));
    const gateway = await serveUnder(
      backend,
      globalPolicy(
        `address: '127.0.0.1:${service.port}', descriptors: [{ entries: [{ name: m, expression: llm.requestModel }] }]`,
      ),
    );
    expect((await send(gateway, { method: "POST", headers, body })).status).toBe(status);
    expect([service.calls.length, backend.requests.length]).toEqual([0, 0]);
  });

  test("one that fails closed denies with 503 while its service is unavailable", async () => {
    const service = await startScriptedService(() => undefined);
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(
        `address: '127.0.0.1:${service.port}', failureMode: Closed, descriptors: [{ entries: [{ name: n, expression: 'request.path' }] }]`,
      ),
    );
    const response = await send(gateway);
    expect([response.status, response.body]).toEqual([503, "the rate limit service is unavailable"]);
    expect(gateway.records[0]?.reason).toBe("RateLimitServiceFailure");
  });

  test("cost and limitOverride are sent, per descriptor if they differ", async () => {
    const service = await startScriptedService(allow);
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(
        `address: '127.0.0.1:${service.port}', descriptors: [{ entries: [{ name: a, expression: '"x"' }], cost: 'int(request.query.n)', limitOverride: { requestsPerUnit: 5, unit: Hour } }, { entries: [{ name: b, expression: gateway }] }]`,
      ),
    );
    await send(gateway, {}, "/?n=3");
    expect(service.calls[0]?.request).toMatchObject({
      hitsAddend: 0,
      descriptors: [
        { limit: { requestsPerUnit: 5, unit: "HOUR" }, hitsAddend: { value: "3" } },
        { entries: [{ key: "b", value: "default/web" }], hitsAddend: { value: "1" } },
      ],
    });
  });

  test.each([
    ["2", 200, 2],
    ["1.2", 200, 2],
    ["40000", 200, 40_000],
    ["-1", 200, 1],
    ["5e9", 200, 4_294_967_295],
    ["1e300", 200, 4_294_967_295],
    ["many", 200, 1],
  ])("a cost of %s gets %i and counts as %s", async (n, status, hits) => {
    const service = await startScriptedService(allow);
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(
        `address: '127.0.0.1:${service.port}', failureMode: Closed, descriptors: [{ entries: [{ name: a, expression: '"x"' }], cost: 'double(request.query.n)' }]`,
      ),
    );
    expect((await send(gateway, {}, `/?n=${n}`)).status).toBe(status);
    expect(service.calls.map(({ request }) => request.hitsAddend)).toEqual([hits]);
  });

  test("a cost of 0 makes a call that counts nothing", async () => {
    const service = await startScriptedService(allow);
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(
        `address: '127.0.0.1:${service.port}', descriptors: [{ entries: [{ name: a, expression: '"x"' }], cost: 'request.path == "/free" ? 0 : 1' }]`,
      ),
    );
    await send(gateway, {}, "/free");
    expect(service.calls[0]?.request.descriptors).toMatchObject([{ hitsAddend: { value: "0" } }]);
  });

  test("the model is read from the request's body, which the backend gets completely", async () => {
    const service = await startScriptedService(allow);
    const gateway = await serveUnder(
      await startBackend(echo),
      globalPolicy(
        `address: '127.0.0.1:${service.port}', descriptors: [{ entries: [{ name: model, expression: llm.requestModel }] }]`,
      ),
    );
    const body = JSON.stringify({ model: "gpt-5", messages: ["x".repeat(200_000)] });
    const response = await send(gateway, { method: "POST", body });
    expect((JSON.parse(response.body) as Echo).body).toBe(body);
    expect(service.calls[0]?.request.descriptors[0]?.entries).toEqual([{ key: "model", value: "gpt-5" }]);
  });
});

describe("tokens", () => {
  test("are checked before the request, and charged after the response", async () => {
    const service = await startScriptedService(allow);
    const gateway = await serveUnder(
      await startBackend(costing(120)),
      globalPolicy(`address: '127.0.0.1:${service.port}', ${tokensByUser}`),
    );
    expect((await send(gateway, { headers: { "x-user": "ann" } })).status).toBe(200);
    await service.received(2);
    const [check, charge] = service.calls;
    expect(check?.request.descriptors).toMatchObject([
      { entries: [{ key: "user", value: "ann" }], hitsAddend: { value: "0" } },
    ]);
    expect(charge?.request.hitsAddend).toBe(120);
    expect(charge?.request.descriptors).toMatchObject([{ entries: [{ key: "user", value: "ann" }] }]);
  });

  test("deny requests that are over the limit, and those are not charged", async () => {
    const service = await startScriptedService(deny);
    const backend = await startBackend(costing(120));
    const gateway = await serveUnder(backend, globalPolicy(`address: '127.0.0.1:${service.port}', ${tokensByUser}`));
    expect((await send(gateway, { headers: { "x-user": "ann" } })).status).toBe(429);
    expect([backend.requests.length, service.calls.length]).toEqual([0, 1]);
  });

  test("of a stream are charged after its end, and the client gets the whole stream", async () => {
    const service = await startScriptedService(allow);
    const chunks = [
      'data: {"choices":[]}\n\n',
      'data: {"choices":[],"usage":{"total_tokens":77}}\n\n',
      "data: [DONE]\n\n",
    ];
    const gateway = await serveUnder(
      await startBackend((request, response) => {
        request.resume();
        response.writeHead(200, { "content-type": "text/event-stream" });
        for (const chunk of chunks) response.write(chunk);
        response.end();
      }),
      globalPolicy(`address: '127.0.0.1:${service.port}', ${tokensByUser}`),
    );
    expect((await send(gateway, { headers: { "x-user": "ann" } })).body).toBe(chunks.join(""));
    await service.received(2);
    expect(service.calls[1]?.request.hitsAddend).toBe(77);
  });

  test("have the cost of the expression on the response", async () => {
    const service = await startScriptedService(allow);
    const gateway = await serveUnder(
      await startBackend(costing(120)),
      globalPolicy(
        `address: '127.0.0.1:${service.port}', descriptors: [{ unit: Tokens, entries: [{ name: m, expression: llm.requestModel }], cost: 'llm.inputTokens + llm.outputTokens * (llm.responseModel == "mock-1" ? 3 : 1)' }]`,
      ),
    );
    await send(gateway, { method: "POST", body: '{"model":"gpt-5"}' });
    await service.received(2);
    expect(service.calls[1]?.request.hitsAddend).toBe(1 + 119 * 3);
  });

  test("hitsMode: Request checks with one hit, and the charge is less by that hit", async () => {
    const service = await startScriptedService(allow);
    const gateway = await serveUnder(
      await startBackend(costing(120)),
      globalPolicy(`address: '127.0.0.1:${service.port}', hitsMode: Request, ${tokensByUser}`),
    );
    await send(gateway, { headers: { "x-user": "ann" } });
    await service.received(2);
    expect(
      service.calls.map(({ method, request }) => [method, request.hitsAddend, request.descriptors[0]?.hitsAddend]),
    ).toEqual([
      ["ShouldRateLimit", 1, null],
      ["ShouldRateLimit", 119, null],
    ]);
  });

  test("hitsMode: Kuadrant checks and reports by the methods of Limitador", async () => {
    const service = await startScriptedService(() => ({ overallCode: "OK" }));
    const gateway = await serveUnder(
      await startBackend(costing(120)),
      globalPolicy(`address: '127.0.0.1:${service.port}', hitsMode: Kuadrant, ${tokensByUser}`),
    );
    await send(gateway, { headers: { "x-user": "ann" } });
    await service.received(2);
    expect(service.calls.map(({ method, request }) => [method, request.hitsAddend])).toEqual([
      ["CheckRateLimit", 0],
      ["Report", 120],
    ]);
  });
});

describe("local and global limits of a policy", () => {
  test("a request that the local limit denies makes no call to the service", async () => {
    const service = await startScriptedService(allow);
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(`address: '127.0.0.1:${service.port}', ${byAddress}`, "[{ requests: 1, unit: Minutes }]"),
    );
    expect((await send(gateway)).status).toBe(200);
    const denied = await send(gateway);
    expect([denied.status, denied.limit]).toEqual([429, ["1", "0", "60"]]);
    expect(denied.headers.has("x-envoy-ratelimited")).toBe(false);
    expect(service.calls).toHaveLength(1);
  });

  test.each([
    ["the service", ""],
    ["the fallback", "fallback: [{ requests: 1, unit: Minutes }],"],
  ])("a client that disconnects before %s has decided gets a refund", async (_, fallback) => {
    const service = await startScriptedService((_call, number) => (number === 1 ? undefined : allow(_call, number)));
    const gateway = await serveUnder(
      await startBackend(),
      globalPolicy(
        `address: '127.0.0.1:${service.port}', ${fallback} ${byAddress}`,
        "[{ requests: 1, unit: Minutes }]",
      ),
    );
    const leaving = new AbortController();
    const left = send(gateway, { signal: leaving.signal });
    await service.received(1);
    leaving.abort();
    await expect(left).rejects.toThrow();
    await expect.poll(() => gateway.records.length).toBe(1);
    gateway.clock.advance(100);
    service.kill();
    expect((await send(gateway)).status).toBe(200);
  });

  test("a denial by the service refunds the local limit", async () => {
    const service = await startScriptedService((_call, number) =>
      number < 4 ? { overallCode: "OVER_LIMIT" } : { overallCode: "OK" },
    );
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(`address: '127.0.0.1:${service.port}', ${byAddress}`, "[{ requests: 1, unit: Minutes }]"),
    );
    const statuses = [];
    for (let at = 0; at < 5; at++) statuses.push((await send(gateway)).status);
    expect(statuses).toEqual([429, 429, 429, 200, 429]);
  });

  test.each([
    ["the global one", 3, "5", ["10, 10;w=60", "3", "42"]],
    ["the local one", 9, "5", ["5", "4", "60"]],
  ])("the headers show the limit with the least remaining: %s", async (_, limitRemaining, requests, headers) => {
    const service = await startScriptedService(() => ({ overallCode: "OK", statuses: [{ ...fine, limitRemaining }] }));
    const gateway = await serveUnder(
      await startBackend(respondWith(200)),
      globalPolicy(`address: '127.0.0.1:${service.port}', ${byAddress}`, `[{ requests: ${requests}, unit: Minutes }]`),
    );
    expect((await send(gateway)).limit).toEqual(headers);
  });
});
