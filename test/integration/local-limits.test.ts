/** Local limits, end to end: one test for each of their rows in the product specification. */
import { describe, expect, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
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
import { rawHttp } from "../support/raw-http.ts";

const toRoute = "kind: HTTPRoute, name: chat";
const toGateway = "kind: Gateway, name: web";

/** An LLM backend whose every response has a usage of `tokens`. */
function costing(tokens: number): Parameters<typeof startBackend>[0] {
  return (_request, response) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ usage: { prompt_tokens: 1, completion_tokens: tokens - 1, total_tokens: tokens } }));
  };
}

interface Served {
  readonly gateway: TestGateway;
  readonly backend: Awaited<ReturnType<typeof startBackend>>;
  readonly base: string;
}

/** One route `chat` for all paths, and the given policies. */
async function serve(backend: Served["backend"], ...policies: readonly string[]): Promise<Served> {
  const base = manifests(
    gatewayManifest(),
    backendManifest("llm", backend.port),
    routeManifest("chat", [`backendRefs: [${backendRef("llm")}]`]),
  );
  return { gateway: await startGateway(manifests(base, ...policies)), backend, base };
}

interface TestResponse {
  readonly status: number;
  readonly body: string;
  readonly limit: readonly (string | null)[];
  readonly headers: Headers;
}

async function get(gateway: TestGateway, path = "/", headers: Record<string, string> = {}): Promise<TestResponse> {
  const response = await fetch(`${gateway.url()}${path}`, { headers });
  return {
    status: response.status,
    body: await response.text(),
    limit: ["limit", "remaining", "reset"].map((name) => response.headers.get(`x-ratelimit-${name}`)),
    headers: response.headers,
  };
}

async function statuses(gateway: TestGateway, count: number): Promise<number[]> {
  const responses: number[] = [];
  for (let i = 0; i < count; i++) responses.push((await get(gateway)).status);
  return responses;
}

const ok = (count: number): number[] => new Array<number>(count).fill(200);

describe("requests", () => {
  test("10 a minute with burst 5 allow 15 at once and then 10 a minute", async () => {
    const { gateway } = await serve(
      await startBackend(respondWith(200)),
      policyManifest("p", toRoute, ["{ requests: 10, unit: Minutes, burst: 5 }"]),
    );
    expect(await statuses(gateway, 16)).toEqual([...ok(15), 429]);
    gateway.clock.advance(60_000);
    expect(await statuses(gateway, 11)).toEqual([...ok(10), 429]);
  });

  test("the limit in the headers is the base limit plus burst", async () => {
    const { gateway } = await serve(
      await startBackend(respondWith(200)),
      policyManifest("p", toRoute, ["{ requests: 10, unit: Minutes, burst: 5 }"]),
    );
    expect((await get(gateway)).limit).toEqual(["15", "14", "60"]);
    gateway.clock.advance(17_500);
    expect((await get(gateway)).limit).toEqual(["15", "13", "43"]);
  });

  test.each([
    ["Seconds", 1_000],
    ["Minutes", 60_000],
    ["Hours", 3_600_000],
  ])("a window of %s ends after %i ms, and not before", async (unit, length) => {
    const { gateway } = await serve(
      await startBackend(respondWith(200)),
      policyManifest("p", toRoute, [`{ requests: 1, unit: ${unit} }`]),
    );
    expect(await statuses(gateway, 2)).toEqual([200, 429]);
    gateway.clock.advance(length - 1);
    expect(await statuses(gateway, 1)).toEqual([429]);
    gateway.clock.advance(1);
    expect(await statuses(gateway, 2)).toEqual([200, 429]);
  });
});

describe("tokens", () => {
  const exhaust = async (): Promise<Served> => {
    const served = await serve(
      await startBackend(costing(1_200)),
      policyManifest("p", toRoute, ["{ tokens: 1000, unit: Minutes }"]),
    );
    expect((await get(served.gateway)).status).toBe(200);
    return served;
  };

  test("the response that exceeds the limit succeeds", async () => {
    const { gateway } = await exhaust();
    expect(gateway.records[0]).toMatchObject({ status: 200, reason: undefined, usage: { total: 1_200 } });
  });

  test("over the limit, the next request of the window is denied and not forwarded", async () => {
    const { gateway, backend } = await exhaust();
    gateway.clock.advance(59_999);
    expect(await get(gateway)).toMatchObject({ status: 429, limit: ["1000", "0", "1"] });
    expect(backend.requests).toHaveLength(1);
  });

  test("after the window, the whole limit is available again, whatever the excess", async () => {
    const { gateway } = await exhaust();
    gateway.clock.advance(60_000);
    // The head of a response that is no stream shows the remaining amount after its charge.
    expect(await get(gateway)).toMatchObject({ status: 200, limit: ["1000", "0", "60"] });
  });

  test("a stream is charged when it ends, is never ended early, and needs no other configuration", async () => {
    const { promise: goOn, resolve: finish } = Promise.withResolvers<undefined>();
    const { gateway } = await serve(
      await startBackend((_request, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.write('data: {"choices":[{"delta":{"content":"a"}}]}\n\n');
        void goOn.then(() => response.end('data: {"choices":[],"usage":{"total_tokens":1200}}\n\ndata: [DONE]\n\n'));
      }),
      policyManifest("p", toRoute, ["{ tokens: 1000, unit: Minutes }"]),
    );
    const streams = await Promise.all([fetch(gateway.url()), fetch(gateway.url())]);
    finish(undefined);
    for (const stream of streams) {
      expect(stream.status).toBe(200);
      expect((await stream.text()).endsWith("data: [DONE]\n\n")).toBe(true);
    }
    expect((await get(gateway)).status).toBe(429);
  });

  test("a response without a readable usage costs nothing, and the record says why", async () => {
    const { gateway } = await serve(
      await startBackend(respondWith(200, "no JSON")),
      policyManifest("p", toRoute, ["{ tokens: 1, unit: Minutes }"]),
    );
    expect(await statuses(gateway, 3)).toEqual([200, 200, 200]);
    expect(gateway.records[0]).toMatchObject({ usage: undefined, usageUnread: "absent" });
  });

  test("the tokens of several responses add up", async () => {
    const { gateway } = await serve(
      await startBackend(costing(400)),
      policyManifest("p", toRoute, ["{ tokens: 1000, unit: Minutes }"]),
    );
    expect(await statuses(gateway, 4)).toEqual([200, 200, 200, 429]);
  });

  test("a limit that is used up to the last token allows no more", async () => {
    const { gateway } = await serve(
      await startBackend(costing(500)),
      policyManifest("p", toRoute, ["{ tokens: 1000, unit: Minutes }"]),
    );
    expect(await statuses(gateway, 3)).toEqual([200, 200, 429]);
  });
});

describe("a denied request", () => {
  test("gets the text and the time of the reset, and reaches no backend", async () => {
    const { gateway, backend } = await serve(
      await startBackend(respondWith(200)),
      policyManifest("p", toRoute, ["{ requests: 1, unit: Minutes }"]),
    );
    await get(gateway);
    gateway.clock.advance(18_000);
    const denied = await get(gateway);
    expect(denied).toMatchObject({ status: 429, body: "rate limit exceeded", limit: ["1", "0", "42"] });
    expect(denied.headers.get("content-type")).toBe("text/plain");
    expect(denied.headers.get("retry-after")).toBe("42");
    expect(denied.headers.has("x-envoy-ratelimited")).toBe(false);
    expect(backend.requests).toHaveLength(1);
  });

  test("names the policy and the entry in the record of the request", async () => {
    const { gateway } = await serve(
      await startBackend(respondWith(200)),
      policyManifest("p", toRoute, ["{ requests: 9, unit: Hours }", "{ requests: 1, unit: Minutes }"]),
    );
    await statuses(gateway, 2);
    expect(gateway.records[1]).toMatchObject({ status: 429, reason: "RateLimited", rule: "default/chat/0" });
    expect(gateway.records[1]?.decisions.map(({ limit, outcome }) => [limit.policy, limit.entry, outcome])).toEqual([
      ["default/p", 0, "allowed"],
      ["default/p", 1, "denied"],
    ]);
  });
});

describe("several entries", () => {
  test("a request must pass all: 10 a minute with burst 5, and 1000 tokens a minute", async () => {
    const { gateway } = await serve(
      await startBackend(costing(250)),
      policyManifest("p", toRoute, ["{ requests: 10, unit: Minutes, burst: 5 }", "{ tokens: 1000, unit: Minutes }"]),
    );
    expect(await statuses(gateway, 5)).toEqual([200, 200, 200, 200, 429]);
    gateway.clock.advance(60_000);
    // Both entries are full again: 1000 − 250, a smaller part than 15 − 1.
    expect((await get(gateway)).limit).toEqual(["1000", "750", "60"]);
  });

  test("a request that one entry denies consumes nothing of another", async () => {
    const { gateway } = await serve(
      await startBackend(respondWith(200)),
      policyManifest("p", toRoute, ["{ requests: 1, unit: Seconds }", "{ requests: 3, unit: Minutes }"]),
    );
    expect(await statuses(gateway, 4)).toEqual([200, 429, 429, 429]);
    gateway.clock.advance(1_000);
    expect((await get(gateway)).status).toBe(200);
    gateway.clock.advance(1_000);
    expect((await get(gateway)).status).toBe(200);
    gateway.clock.advance(1_000);
    expect((await get(gateway)).limit).toEqual(["3", "0", "57"]);
  });

  test("the headers show the entry with the least remaining", async () => {
    const { gateway } = await serve(
      await startBackend(costing(900)),
      policyManifest("p", toRoute, ["{ requests: 2, unit: Minutes }", "{ tokens: 1000, unit: Minutes }"]),
    );
    expect((await get(gateway)).limit).toEqual(["1000", "100", "60"]);
    expect((await get(gateway)).limit).toEqual(["2", "0", "60"]);
  });
});

describe("attachment", () => {
  const twoRoutes = (port: number): string =>
    manifests(
      gatewayManifest(),
      backendManifest("llm", port),
      routeManifest("chat", [`{ matches: [{ path: { value: /chat } }], backendRefs: [${backendRef("llm")}] }`]),
      routeManifest("other", [`{ matches: [{ path: { value: /other } }], backendRefs: [${backendRef("llm")}] }`]),
    );

  test("a policy on a route limits that route alone", async () => {
    const { port } = await startBackend(respondWith(200));
    const gateway = await startGateway(
      manifests(twoRoutes(port), policyManifest("p", toRoute, ["{ requests: 1, unit: Minutes }"])),
    );
    expect((await get(gateway, "/chat")).status).toBe(200);
    expect((await get(gateway, "/chat")).status).toBe(429);
    expect((await get(gateway, "/other")).limit).toEqual([null, null, null]);
  });

  test("a policy on a Gateway limits all its routes together", async () => {
    const { port } = await startBackend(respondWith(200));
    const gateway = await startGateway(
      manifests(twoRoutes(port), policyManifest("p", toGateway, ["{ requests: 2, unit: Minutes }"])),
    );
    expect((await get(gateway, "/chat")).status).toBe(200);
    expect((await get(gateway, "/other")).status).toBe(200);
    expect((await get(gateway, "/chat")).status).toBe(429);
    expect((await get(gateway, "/other")).status).toBe(429);
  });

  test("a higher limit on a route does not replace that of its Gateway", async () => {
    const { port } = await startBackend(respondWith(200));
    const gateway = await startGateway(
      manifests(
        twoRoutes(port),
        policyManifest("ceiling", toGateway, ["{ requests: 1, unit: Minutes }"]),
        policyManifest("route", toRoute, ["{ requests: 100, unit: Minutes }"]),
      ),
    );
    expect((await get(gateway, "/chat")).status).toBe(200);
    expect((await get(gateway, "/chat")).status).toBe(429);
  });

  test("two policies on one target both apply", async () => {
    const { port } = await startBackend(respondWith(200));
    const gateway = await startGateway(
      manifests(
        twoRoutes(port),
        policyManifest("a", toRoute, ["{ requests: 5, unit: Minutes }"]),
        policyManifest("b", toRoute, ["{ requests: 2, unit: Minutes }"]),
      ),
    );
    expect((await get(gateway, "/chat")).limit[0]).toBe("2");
    expect((await get(gateway, "/chat")).status).toBe(200);
    expect((await get(gateway, "/chat")).status).toBe(429);
  });
});

test("limit headers of the upstream are replaced, and OpenAI's pass", async () => {
  const backend = await startBackend((_request, response) => {
    response.writeHead(200, { "X-RateLimit-Limit": "7", "x-ratelimit-remaining-requests": "3" });
    response.end();
  });
  const { gateway } = await serve(backend, policyManifest("p", toRoute, ["{ requests: 5, unit: Minutes }"]));
  const { limit, headers } = await get(gateway);
  expect(limit).toEqual(["5", "4", "60"]);
  expect(headers.get("x-ratelimit-remaining-requests")).toBe("3");
});

test("a key has a counter per value, and one for requests without a value", async () => {
  const { gateway } = await serve(
    await startBackend(respondWith(200)),
    policyManifest("p", toRoute, [`{ requests: 1, unit: Minutes, key: 'request.headers["x-user"]' }`]),
  );
  const statusOf = async (headers: Record<string, string>): Promise<number> =>
    (await get(gateway, "/", headers)).status;
  expect(await statusOf({ "x-user": "ann" })).toBe(200);
  expect(await statusOf({ "x-user": "bob" })).toBe(200);
  expect(await statusOf({})).toBe(200);
  expect(await statusOf({ "x-user": "ann" })).toBe(429);
  expect(await statusOf({})).toBe(429);
});

test("a key by host has one counter for all spellings of a host", async () => {
  const { port } = await startBackend(respondWith(200));
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", port),
      routeManifest("r", [`{ backendRefs: [${backendRef("b")}] }`], "hostnames: [a.example]"),
      policyManifest("p", "kind: HTTPRoute, name: r", ["{ requests: 1, unit: Minutes, key: request.host }"]),
    ),
  );
  const send = async (host: string): Promise<number> =>
    (await rawHttp(gateway.url(), `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)).status;
  expect(await send("a.example")).toBe(200);
  expect([await send("A.example:80"), await send("a.example."), await send("a.example.:80")]).toEqual([429, 429, 429]);
});

test("Shadow counts and denies nothing", async () => {
  const { gateway } = await serve(
    await startBackend(respondWith(200)),
    policyManifest("p", toRoute, ["{ requests: 1, unit: Minutes, mode: Shadow }"]),
  );
  expect(await statuses(gateway, 2)).toEqual([200, 200]);
  expect(gateway.records[1]?.decisions[0]?.outcome).toBe("shadowDenied");
  expect((await get(gateway)).limit).toEqual([null, null, null]);
});

test("an edit keeps the counters of the entries that it does not change", async () => {
  const { gateway, base } = await serve(
    await startBackend(respondWith(200)),
    policyManifest("p", toRoute, ["{ requests: 2, unit: Minutes }", "{ requests: 9, unit: Minutes }"]),
  );
  await statuses(gateway, 2);
  await gateway.apply(
    manifests(base, policyManifest("p", toRoute, ["{ requests: 8, unit: Minutes }", "{ requests: 2, unit: Minutes }"])),
  );
  expect((await get(gateway)).limit).toEqual(["2", "0", "60"]);
});

test("replicas count separately", async () => {
  const backend = await startBackend(respondWith(200));
  const policy = policyManifest("p", toRoute, ["{ requests: 1, unit: Minutes }"]);
  const [one, other] = [await serve(backend, policy), await serve(backend, policy)];
  expect(await statuses(one.gateway, 2)).toEqual([200, 429]);
  expect(await statuses(other.gateway, 2)).toEqual([200, 429]);
});
