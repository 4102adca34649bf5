/**
 * `headers` of a ProxyPolicy: which families of response headers show its limits, and what becomes of those of a
 * backend.
 */
import { describe, expect, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import { policyManifest, type TestGateway } from "../support/gateway.ts";
import { globalPolicy, serveUnder } from "../support/global-policy.ts";
import { startScriptedService } from "../support/rate-limit-service.ts";
import { parseItems } from "../support/structured-fields.ts";

const onRoute = "kind: HTTPRoute, name: chat";
const onGateway = "kind: Gateway, name: web";

/** What a provider sends, of all families. */
const ofProvider = {
  "x-ratelimit-limit": "1",
  "x-ratelimit-limit-requests": "9000",
  "x-ratelimit-remaining-requests": "8999",
  "x-ratelimit-reset-requests": "1s",
  "x-ratelimit-limit-tokens": "700000",
  "x-ratelimit-remaining-tokens": "600000",
  "x-ratelimit-reset-tokens": "6m0s",
  "X-RateLimit-Limit-Images": "5",
  RateLimit: '"provider";r=1;t=1',
  "RateLimit-Policy": '"provider";q=1;w=1',
};

async function serve(...policies: readonly string[]): Promise<TestGateway> {
  const backend = await startBackend((request, response) => {
    request.resume();
    response.writeHead(200, { ...ofProvider, "content-type": "application/json" });
    response.end('{"model":"a","usage":{"total_tokens":400}}');
  });
  return serveUnder(backend, ...policies);
}

/** All fields of limits in a response. */
async function limitFields(gateway: TestGateway): Promise<Readonly<Record<string, string>>> {
  const { headers } = await fetch(gateway.url());
  return Object.fromEntries([...headers].filter(([name]) => name.includes("ratelimit")));
}

const images = { "x-ratelimit-limit-images": "5" };
const providers = Object.fromEntries(Object.entries(ofProvider).map(([name, value]) => [name.toLowerCase(), value]));

test("no family: nothing is sent and nothing is replaced, also on a 429", async () => {
  const gateway = await serve(policyManifest("limits", onRoute, ["{ requests: 1, unit: Minutes }"], ["headers: []"]));
  expect(await limitFields(gateway)).toEqual(providers);
  const response = await fetch(gateway.url());
  expect(response.status).toBe(429);
  expect(response.headers.get("retry-after")).toBe("60");
  expect([...response.headers.keys()].filter((name) => name.includes("ratelimit"))).toEqual([]);
});

test("Ietf alone replaces its two fields, one item for each entry that applies", async () => {
  const local = [
    "{ name: per-user, tokens: 1000, unit: Hours, every: 2 }",
    "{ requests: 10, burst: 5, unit: Minutes }",
    "{ name: not-here, requests: 10, unit: Minutes, when: 'false' }",
    "{ name: shadow, requests: 10, unit: Minutes, mode: Shadow }",
  ];
  const gateway = await serve(policyManifest("limits", onRoute, local, ["headers: [Ietf]"]));
  expect(await limitFields(gateway)).toEqual({
    ...providers,
    "ratelimit-policy": '"per-user";q=1000;qu="tokens";w=7200, "limits-1";q=15;w=60',
    ratelimit: '"per-user";r=600;t=7200, "limits-1";r=14;t=60',
  });
});

test("OpenAI alone replaces the six fields of requests and tokens, by the nearest entry of each unit", async () => {
  const local = [
    "{ requests: 100, unit: Days }",
    "{ requests: 10, unit: Minutes, every: 90 }",
    "{ tokens: 1000, unit: Seconds, every: 61 }",
  ];
  const gateway = await serve(policyManifest("limits", onRoute, local, ["headers: [OpenAI]"]));
  expect(await limitFields(gateway)).toEqual({
    ...{ "x-ratelimit-limit-requests": "10", "x-ratelimit-remaining-requests": "9" },
    "x-ratelimit-reset-requests": "1h30m0s",
    ...{ "x-ratelimit-limit-tokens": "1000", "x-ratelimit-remaining-tokens": "600" },
    "x-ratelimit-reset-tokens": "1m1s",
    ...{ "x-ratelimit-limit": "1", ratelimit: '"provider";r=1;t=1', "ratelimit-policy": '"provider";q=1;w=1' },
    ...images,
  });
});

test("requests in progress have their unit and no window in Ietf, and no figures in OpenAI", async () => {
  const entry = "{ name: at-once, concurrent: 5 }";
  const gateway = await serve(policyManifest("limits", onRoute, [entry], ["headers: [Ietf, OpenAI]"]));
  const fields = await limitFields(gateway);
  expect(fields).toMatchObject({
    "ratelimit-policy": '"at-once";q=5;qu="concurrent-requests"',
    ratelimit: '"at-once";r=4;t=1',
    ...images,
  });
  expect(Object.keys(fields).filter((name) => /-(?:requests|tokens)$/.test(name))).toEqual([]);
});

test("OpenAI with requests alone removes the provider's figures of tokens, too", async () => {
  const gateway = await serve(
    policyManifest("limits", onRoute, ["{ requests: 10, unit: Minutes }"], ["headers: [OpenAI]"]),
  );
  const fields = await limitFields(gateway);
  expect(fields).toMatchObject({ "x-ratelimit-limit-requests": "10", ...images });
  expect(Object.keys(fields).filter((name) => name.endsWith("-tokens"))).toEqual([]);
});

test("of several policies, each family shows the limits of those that send it", async () => {
  const gateway = await serve(
    policyManifest("limits", onRoute, ["{ requests: 20, unit: Minutes }"], ["headers: [Ietf, XRateLimit]"]),
    policyManifest("ceiling", onGateway, ["{ requests: 5, unit: Hours }"], ["headers: [Ietf, OpenAI]"]),
  );
  expect(await limitFields(gateway)).toMatchObject({
    ...{ "x-ratelimit-limit": "20", "x-ratelimit-remaining": "19", "x-ratelimit-reset": "60" },
    ratelimit: '"limits-0";r=19;t=60, "ceiling-0";r=4;t=3600',
    ...{ "x-ratelimit-limit-requests": "5", "x-ratelimit-reset-requests": "1h0m0s" },
  });
});

test("a refund is included in all families", async () => {
  const gateway = await serveUnder(
    await startBackend(respondWith(503, "no")),
    policyManifest(
      "limits",
      onRoute,
      ["{ requests: 10, unit: Minutes }"],
      ["headers: [XRateLimit, Ietf, OpenAI]", "refundOn: [BackendError]"],
    ),
  );
  expect(await limitFields(gateway)).toEqual({
    ...{ "x-ratelimit-limit": "10", "x-ratelimit-remaining": "10", "x-ratelimit-reset": "60" },
    ...{ "ratelimit-policy": '"limits-0";q=10;w=60', ratelimit: '"limits-0";r=10;t=60' },
    ...{ "x-ratelimit-limit-requests": "10", "x-ratelimit-remaining-requests": "10" },
    "x-ratelimit-reset-requests": "1m0s",
  });
});

test("the head of a stream shows the state before its tokens", async () => {
  const backend = await startBackend((request, response) => {
    request.resume();
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end('data: {"usage":{"total_tokens":400}}\n\n');
  });
  const gateway = await serveUnder(
    backend,
    policyManifest("limits", onRoute, ["{ tokens: 1000, unit: Minutes }"], ["headers: [Ietf]"]),
  );
  const remaining = async (): Promise<unknown> => {
    const response = await fetch(gateway.url());
    await response.text();
    return parseItems(response.headers.get("ratelimit") ?? "")[0]?.parameters.get("r");
  };
  expect([await remaining(), await remaining()]).toEqual([1_000, 600]);
});

test("a window of the calendar has its own length, which is another in the next month", async () => {
  const local = ["{ requests: 10, unit: Months, window: Calendar, timeZone: Europe/Berlin }"];
  const gateway = await serve(policyManifest("limits", onRoute, local, ["headers: [Ietf, OpenAI]"]));
  // The clock starts on 2023-11-14 at 22:13:20 UTC.
  const untilDecember = Date.UTC(2023, 10, 30, 23) / 1_000 - 1_700_000_000;
  expect(await limitFields(gateway)).toMatchObject({
    "ratelimit-policy": `"limits-0";q=10;w=${30 * 86_400}`,
    ratelimit: `"limits-0";r=9;t=${untilDecember}`,
    "x-ratelimit-reset-requests": "384h46m40s",
  });
  gateway.clock.advance(untilDecember * 1_000);
  expect(await limitFields(gateway)).toMatchObject({
    "ratelimit-policy": `"limits-0";q=10;w=${31 * 86_400}`,
    ratelimit: `"limits-0";r=9;t=${31 * 86_400}`,
  });
});

test("a denial has the time until all units that the request lacks are restored, the same in all families", async () => {
  const local = [
    `{ requests: 2, unit: Minutes, window: Sliding, cost: '"x-cost" in request.headers ? int(request.headers["x-cost"]) : 1' }`,
  ];
  const gateway = await serve(
    policyManifest("limits", onRoute, local, ["headers: [XRateLimit, Ietf, OpenAI]", "denied: { format: Problem }"]),
  );
  await fetch(gateway.url());
  gateway.clock.advance(30_000);
  await fetch(gateway.url());
  const resets = async (cost: string): Promise<readonly unknown[]> => {
    const { status, headers } = await fetch(gateway.url(), { headers: { "x-cost": cost } });
    const t = parseItems(headers.get("ratelimit") ?? "")[0]?.parameters.get("t");
    const openAi = Number(
      /^(?:(\d+)m)?(\d+)s$/.exec(headers.get("x-ratelimit-reset-requests") ?? "")?.[2] ?? Number.NaN,
    );
    const minutes = headers.get("x-ratelimit-reset-requests")?.startsWith("1m") === true ? 60 : 0;
    return [
      status,
      t,
      minutes + openAi,
      ...["x-ratelimit-reset", "retry-after"].map((name) => Number(headers.get(name))),
    ];
  };
  expect(await resets("1")).toEqual([429, 31, 31, 31, 31]);
  expect(await resets("2")).toEqual([429, 61, 61, 61, 61]);
});

test("equal names of two policies get a number", async () => {
  const local = ["{ name: day, requests: 10, unit: Days }"];
  const gateway = await serve(
    policyManifest("limits", onRoute, local, ["headers: [Ietf]"]),
    policyManifest("ceiling", onGateway, local, ["headers: [Ietf]"]),
  );
  expect((await limitFields(gateway))["ratelimit"]).toBe('"day";r=9;t=86400, "day-2";r=9;t=86400');
});

test("of more than 16 items, those nearest to exhaustion are sent, in their order", async () => {
  const amounts = (first: number) =>
    Array.from({ length: 10 }, (_, at) => `{ name: n${first + at}, requests: ${first + at}, unit: Days }`);
  const gateway = await serve(
    policyManifest("limits", onRoute, amounts(20), ["headers: [Ietf]"]),
    policyManifest("ceiling", onGateway, amounts(10), ["headers: [Ietf]"]),
  );
  const { ratelimit = "", "ratelimit-policy": policy = "" } = await limitFields(gateway);
  const names = [20, 21, 22, 23, 24, 25, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19].map((amount) => `n${amount}`);
  expect(parseItems(ratelimit).map(({ value }) => value)).toEqual(names);
  expect(parseItems(policy).map(({ value }) => value)).toEqual(names);
});

test("neither the value of a key nor the namespace is disclosed", async () => {
  const local = [`{ requests: 10, unit: Minutes, key: 'request.headers["authorization"]' }`];
  const gateway = await serve(policyManifest("limits", onRoute, local, ["headers: [Ietf, OpenAI]"]));
  const { headers } = await fetch(gateway.url(), { headers: { authorization: "Bearer secret" } });
  expect(JSON.stringify([...headers])).not.toMatch(/secret|default|authorization|pk=/);
});

describe("limits of a rate limit service", () => {
  const status = (limitRemaining: number, name = "") => ({
    code: "OK" as const,
    currentLimit: { requestsPerUnit: 10, unit: "MINUTE" as const, name },
    limitRemaining,
    durationUntilReset: { seconds: 42 },
  });
  const descriptors =
    "descriptors: [{ entries: [{ name: a, expression: \"'a'\" }] }, { entries: [{ name: b, expression: \"'b'\" }] }]";

  async function serveGlobal(fields: string, ...others: readonly string[]): Promise<TestGateway> {
    const service = await startScriptedService(() => ({
      overallCode: "OK",
      statuses: [status(7), status(4, "te\\am")],
      responseHeadersToAdd: [{ key: "x-plan", value: "free" }],
    }));
    const policy = globalPolicy(`address: '127.0.0.1:${service.port}', ${descriptors}`);
    return serve(`${policy}      ${fields}\n`, ...others);
  }

  test("have an item each, named by the service or by their index", async () => {
    const gateway = await serveGlobal(
      "headers: [Ietf, OpenAI]",
      policyManifest("limits", onGateway, ["{ requests: 2, unit: Hours }"], ["headers: [Ietf]"]),
    );
    expect(await limitFields(gateway)).toMatchObject({
      "ratelimit-policy": '"limits-0";q=2;w=3600, "chat-global-0";q=10;w=60, "team";q=10;w=60',
      ratelimit: '"limits-0";r=1;t=3600, "chat-global-0";r=7;t=42, "team";r=4;t=42',
      ...{ "x-ratelimit-remaining-requests": "4", "x-ratelimit-reset-requests": "42s", "x-ratelimit-limit": "1" },
    });
  });

  test("are within the bounds of integers in structured fields, whatever the service reports", async () => {
    const service = await startScriptedService(() => ({
      overallCode: "OK",
      statuses: [
        {
          code: "OK",
          currentLimit: { requestsPerUnit: 2 ** 32 - 1, unit: "YEAR", unitMultiplier: { value: 2 ** 32 - 1 } },
          limitRemaining: 2 ** 32 - 1,
          durationUntilReset: { seconds: "9223372036854775807" },
        },
      ],
    }));
    const policy = globalPolicy(`address: '127.0.0.1:${service.port}', ${descriptors}`);
    const gateway = await serve(`${policy}      headers: [Ietf, OpenAI]\n`);
    const { ratelimit = "", "ratelimit-policy": quota = "", ...others } = await limitFields(gateway);
    expect(Object.fromEntries(parseItems(quota)[0]?.parameters ?? [])).toEqual({ q: 2 ** 32 - 1, w: 1e15 - 1 });
    expect(parseItems(ratelimit)[0]?.parameters.get("r")).toBe(2 ** 32 - 1);
    expect(others["x-ratelimit-reset-requests"] ?? "0s").toMatch(/^(\d+h\d+m)?\d+s$/);
  });

  test("are not in a family that their policy does not send, and the service's other fields are sent", async () => {
    const gateway = await serveGlobal("headers: []");
    const { headers } = await fetch(gateway.url());
    expect(headers.get("x-plan")).toBe("free");
    expect(await limitFields(gateway)).toEqual(providers);
  });
});
