/** Entries with `when`, `limit` and `cost`, end to end. */
import { expect, test } from "vitest";
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

const toGateway = "kind: Gateway, name: web";

/** Two routes to one LLM backend, /chat and /batch, whose Gateway has the given entries. */
async function serve(...entries: readonly string[]) {
  const usage = {
    prompt_tokens: 100,
    completion_tokens: 50,
    total_tokens: 150,
  };
  const backend = await startBackend((incoming, response) => {
    incoming.resume();
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ model: "mock-1", usage }));
  });
  const route = (name: string): string =>
    routeManifest(name, [
      `{ matches: [{ path: { type: PathPrefix, value: /${name} } }], backendRefs: [${backendRef("llm")}] }`,
    ]);
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("llm", backend.port),
      route("chat"),
      route("batch"),
      policyManifest("ceiling", toGateway, entries),
    ),
  );
  return { gateway, backend };
}

async function post(gateway: TestGateway, path: string, body: object | string, headers: Record<string, string> = {}) {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const response = await fetch(`${gateway.url()}${path}`, { method: "POST", body: text, headers });
  await response.text();
  const { status, headers: received } = response;
  return { status, remaining: received.get("x-ratelimit-remaining"), retryAfter: received.get("retry-after") };
}

const asked = { messages: [], model: "small" };

test("a route opts out of the ceiling of its Gateway, and the record says so", async () => {
  const { gateway } = await serve(`{ name: ceiling, requests: 1, unit: Minutes, when: 'route != "default/batch"' }`);
  expect(await post(gateway, "/chat", asked)).toMatchObject({ status: 200, remaining: "0" });
  expect(await post(gateway, "/chat", asked)).toMatchObject({ status: 429, retryAfter: "60" });
  for (let at = 0; at < 3; at++) {
    expect(await post(gateway, "/batch", asked)).toMatchObject({ status: 200, remaining: null });
  }
  expect(gateway.records.at(-1)?.decisions).toMatchObject([{ outcome: "notApplied", limit: { name: "ceiling" } }]);
});

test("the limit of a window is that of the request's tier", async () => {
  const tier = `'request.headers["x-tier"] == "gold" ? 3 : 1'`;
  const { gateway } = await serve(`{ requests: 2, unit: Minutes, key: 'request.headers["x-user"]', limit: ${tier} }`);
  const statuses = async (user: string, headers: Record<string, string>): Promise<number[]> => {
    const found: number[] = [];
    for (let at = 0; at < 4; at++) {
      found.push((await post(gateway, "/chat", asked, { "x-user": user, ...headers })).status);
    }
    return found;
  };
  expect(await statuses("ann", { "x-tier": "gold" })).toEqual([200, 200, 200, 429]);
  expect(await statuses("bob", { "x-tier": "free" })).toEqual([200, 429, 429, 429]);
  expect(await statuses("cyd", {})).toEqual([200, 200, 429, 429]);
});

test("a request costs what its model and its stream cost, read from the body once for all limits", async () => {
  const { gateway, backend } = await serve(
    `{ requests: 10, unit: Minutes, cost: 'llm.requestModel == "large" ? 6 : 1' }`,
    `{ requests: 100, unit: Minutes, when: llm.stream }`,
  );
  expect(await post(gateway, "/chat", asked)).toMatchObject({ status: 200, remaining: "9" });
  expect(await post(gateway, "/chat", { ...asked, model: "large" })).toMatchObject({ status: 200, remaining: "3" });
  expect(await post(gateway, "/chat", { ...asked, model: "large" })).toMatchObject({ status: 429 });
  expect(await post(gateway, "/chat", asked)).toMatchObject({ status: 200, remaining: "2" });
  expect(backend.requests).toHaveLength(3);
});

test("a body that cannot be read does not get past a limit about it", async () => {
  const { gateway, backend } = await serve(`{ requests: 10, unit: Minutes, key: llm.requestModel }`);
  expect(await post(gateway, "/chat", '{"model": "a", "model": ')).toMatchObject({ status: 400 });
  expect(backend.requests).toHaveLength(0);
});

test("spellings of a model that some server reads alike share its counter", async () => {
  const { gateway } = await serve(`{ requests: 2, unit: Minutes, key: llm.requestModel }`);
  const statusOf = async (model: string) => (await post(gateway, "/chat", { ...asked, model })).status;
  expect(await statusOf("Small-1")).toBe(200);
  expect(await statusOf("small-1")).toBe(200);
  const arn = "arn:aws:bedrock:us-east-1::foundation-model/small-1";
  const invisible = ["small\u00ad-1", "small-1\u200b", "\ufeffsmall-1", "small-1\u0000"];
  const alike = ["SMALL-1", " small-1", "small-1\n", "models/small-1", "Models/Small-1", "ｓmall-1", arn, ...invisible];
  for (const model of alike) expect(await statusOf(model), JSON.stringify(model)).toBe(429);
  for (const other of ["small-2", "small", "small.1"]) expect(await statusOf(other)).toBe(200);
  // No model has such a name: they share one counter, with requests for none.
  expect(await statusOf("s".repeat(300))).toBe(200);
  expect(await statusOf("t".repeat(300))).toBe(200);
  expect(await statusOf("u".repeat(300))).toBe(429);
  expect(await statusOf(" ")).toBe(429);
});

test("a response is charged by the cost of its tokens", async () => {
  const { gateway } = await serve(`{ tokens: 1000, unit: Minutes, cost: 'llm.inputTokens + 4 * llm.outputTokens' }`);
  await post(gateway, "/chat", asked);
  expect(await post(gateway, "/chat", asked)).toMatchObject({ status: 200, remaining: "400" });
});

test("a request whose cost takes too much work to compute gets 400 and counts nothing", async () => {
  const costly = `size(request.headers["x-long"].split("").map(x, x + "1").join(","))`;
  const { gateway } = await serve(`{ requests: 5, unit: Minutes, cost: '${costly} > 0 ? 1 : 2' }`);
  expect(await post(gateway, "/chat", asked, { "x-long": "a".repeat(16_000) })).toMatchObject({ status: 400 });
  expect(await post(gateway, "/chat", asked, { "x-long": "a" })).toMatchObject({ status: 200, remaining: "4" });
});

test("a policy without expressions on the body does not wait for it", async () => {
  const backend = await startBackend(respondWith(200));
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", backend.port),
      routeManifest("r", [`backendRefs: [${backendRef("b")}]`]),
      policyManifest("p", toGateway, [`{ requests: 1, unit: Minutes, when: route != "default/other" }`]),
    ),
  );
  expect(await post(gateway, "/", "any text")).toMatchObject({ status: 200 });
  expect(await post(gateway, "/", "any text")).toMatchObject({ status: 429 });
});
