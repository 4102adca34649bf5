/** Limits by what responses cost, end to end. */
import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import { startGatewayTo } from "../support/llm-gateway.ts";
import { gatewayManifest, manifests, routeManifest, startGateway, type TestGateway } from "../support/gateway.ts";
import { globalPolicy } from "../support/global-policy.ts";
import { startScriptedService } from "../support/rate-limit-service.ts";

const usage = {
  prompt_tokens: 1_000,
  completion_tokens: 100,
  total_tokens: 1_100,
  prompt_tokens_details: { cached_tokens: 400 },
};

const priceList = [
  "priced: { input: '0.25', cachedInput: '0.025', output: '2.00' }",
  "alias: { input: '10', output: '10' }",
  "free: { input: '0', output: '0' }",
  "tiny: { input: '0.000001', output: '0.000001' }",
];
const prices = `currency: USD, prices: { ${priceList.join(", ")} }`;
/** 600 × 0.25 + 400 × 0.025 + 100 × 2 micro-units. */
const cost = 360;

async function serve(entries: readonly string[], ai = prices, settings = ""): Promise<TestGateway> {
  const backend = await startBackend((incoming, response) => {
    incoming.resume();
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ model: "priced-2026-01-01", usage }));
  });
  return await startGatewayTo("openai", backend.port, entries, ai, "", {}, settings);
}

async function ask(gateway: TestGateway, model: string | undefined, path = "/v1/chat/completions") {
  const body = JSON.stringify({ model, messages: [] });
  const response = await fetch(`${gateway.url()}${path}`, { method: "POST", body });
  const text = await response.text();
  return { status: response.status, text, remaining: response.headers.get("x-ratelimit-remaining") };
}

test("a budget counts what responses cost, each kind of token at its price", async () => {
  const gateway = await serve(["{ name: budget, spend: '0.000500', unit: Hours }"]);
  expect(await ask(gateway, "priced")).toMatchObject({ status: 200, remaining: String(500 - cost) });
  expect(gateway.records.at(-1)?.usage).toMatchObject({ cost, currency: "USD" });
  // It begins while something is left, and its cost is known only afterwards.
  expect(await ask(gateway, "priced")).toMatchObject({ status: 200, remaining: "0" });
  expect(await ask(gateway, "priced")).toMatchObject({ status: 429, remaining: "0" });
  expect(gateway.records.at(-1)?.decisions).toMatchObject([{ outcome: "denied", limit: { name: "budget" } }]);
});

test("a model without a price is rejected, and counted nowhere", async () => {
  const gateway = await serve(["{ requests: 10, unit: Hours }", "{ name: budget, spend: '1', unit: Hours }"]);
  const { status, text } = await ask(gateway, "other");
  expect(status).toBe(403);
  expect(text).toMatch(/no price for the model/);
  expect(gateway.records.at(-1)).toMatchObject({
    reason: "ModelUnpriced",
    decisions: [{ outcome: "denied", limit: { name: "budget" } }],
  });
  expect(await ask(gateway, undefined)).toMatchObject({ status: 403 });
  expect(await ask(gateway, "priced")).toMatchObject({ status: 200, remaining: "9" });
});

test.each([
  ["with unpriced: Allow", "unpriced: Allow"],
  ["in shadow mode", "mode: Shadow"],
  ["where the entry does not apply", "when: 'llm.requestModel != \"other\"'"],
])("a model without a price is served %s, and costs nothing", async (_, field) => {
  const gateway = await serve([`{ spend: '0.000001', unit: Hours, ${field} }`]);
  expect(await ask(gateway, "other")).toMatchObject({ status: 200 });
  expect(await ask(gateway, "other")).toMatchObject({ status: 200 });
  expect(gateway.records.at(-1)).toMatchObject({ isUnpriced: true });
  expect(gateway.records.at(-1)?.usage?.cost).toBeUndefined();
});

test("requests that generate nothing need no price", async () => {
  const gateway = await serve(["{ spend: '1', unit: Hours }"]);
  const response = await fetch(`${gateway.url()}/v1/models`);
  await response.text();
  expect(response.status).toBe(200);
  expect(await ask(gateway, "other", "/v1/messages/count_tokens")).toMatchObject({ status: 200 });
});

test("a model has the price of its name for the provider, or else of its alias", async () => {
  const models = "models: [{ name: alias, as: priced }, { name: free, as: unnamed }, { name: bare, as: unnamed }]";
  const gateway = await serve(["{ spend: '1', unit: Hours }"], `${prices}, ${models}`);
  expect(await ask(gateway, "alias")).toMatchObject({ status: 200 });
  expect(gateway.records.at(-1)?.usage).toMatchObject({ cost });
  expect(await ask(gateway, "free")).toMatchObject({ status: 200 });
  expect(gateway.records.at(-1)?.usage).toMatchObject({ cost: 0 });
  expect(await ask(gateway, "bare")).toMatchObject({ status: 403 });
});

test("a client cannot choose the price of a prescribed model by the name of another one", async () => {
  const ask403 = async (ai: string): Promise<void> => {
    const gateway = await serve(["{ spend: '1', unit: Hours }"], ai, "model: secret");
    for (const model of ["free", "tiny", "secret"]) expect(await ask(gateway, model)).toMatchObject({ status: 403 });
  };
  await ask403(prices);
  await ask403("prices: { free: { input: '0', output: '0' } }");
});

test("a fraction of a micro-unit is rounded up for each response", async () => {
  const gateway = await serve(["{ spend: '0.000003', unit: Hours }"]);
  expect(await ask(gateway, "tiny")).toMatchObject({ status: 200, remaining: "2" });
  expect(await ask(gateway, "tiny")).toMatchObject({ status: 200, remaining: "1" });
});

test("expressions read the cost, as units of the entry and of others", async () => {
  const gateway = await serve([
    "{ name: markup, spend: '1', unit: Hours, cost: llm.cost * 2 }",
    "{ name: micro, tokens: 1000, unit: Hours, cost: llm.cost }",
  ]);
  expect(await ask(gateway, "priced")).toMatchObject({ status: 200, remaining: String(1_000 - cost) });
  const other = await serve(["{ name: markup, spend: '1', unit: Hours, cost: llm.cost * 2 }"]);
  expect(await ask(other, "priced")).toMatchObject({ status: 200, remaining: String(1_000_000 - 2 * cost) });
});

test("a limit by expression is in the currency", async () => {
  const gateway = await serve([`{ spend: '1', unit: Hours, limit: '0.001 + 0.001' }`]);
  expect(await ask(gateway, "priced")).toMatchObject({ status: 200, remaining: String(2_000 - cost) });
});

test("a response has a cost without a limit by spend, by the model of the request", async () => {
  const gateway = await serve(["{ requests: 10, unit: Hours }"]);
  expect(await ask(gateway, "priced")).toMatchObject({ status: 200 });
  expect(gateway.records.at(-1)?.usage).toMatchObject({ cost, model: "priced-2026-01-01" });
});

test.each([
  ["is rejected by the fallback of a global limit", "", 403],
  ["is served by a fallback with unpriced: Allow", "unpriced: Allow,", 200],
])("a model without a price %s, while the service is away", async (_, field, expected) => {
  let isAway = false;
  const away = { code: status.UNAVAILABLE, details: "away" };
  const service = await startScriptedService(() => (isAway ? away : { overallCode: "OK" }));
  const backend = await startBackend((incoming, response) => {
    incoming.resume();
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ model: "priced-2026-01-01", usage }));
  });
  const llm = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: {} }, host: 127.0.0.1, port: ${backend.port}, ${prices} } }
`;
  const global = `address: '127.0.0.1:${service.port}', descriptors: [{ entries: [{ name: all, expression: route }] }]`;
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      llm,
      routeManifest("chat", ["backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: llm }]"]),
      globalPolicy(`${global}, fallback: [{ spend: '0.001', ${field} unit: Hours }]`),
    ),
  );
  expect(await ask(gateway, "other")).toMatchObject({ status: 200 });
  isAway = true;
  expect(await ask(gateway, "other")).toMatchObject({ status: expected });
  if (expected === 403) expect(gateway.records.at(-1)).toMatchObject({ reason: "ModelUnpriced" });
  expect(await ask(gateway, "priced")).toMatchObject({ status: 200, remaining: "1000" });
  expect(await ask(gateway, "priced")).toMatchObject({ status: 200, remaining: String(1_000 - cost) });
});
