/** The example of tiers, as its page describes it. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createLogin } from "../../examples/customer-tiers/src/login.ts";
import { startMockLlm } from "../../examples/mock-llm/src/mock-llm.ts";
import { manifests, startGateway } from "../support/gateway.ts";

const folder = join(import.meta.dirname, "../../examples/customer-tiers");

/** Serves the manifests of the folder, with a key of a new login service, in front of the mock LLM. */
async function start() {
  const mock = await startMockLlm({ port: 0, host: "127.0.0.1" });
  onTestFinished(() => mock.close());
  const login = createLogin();
  const files = readdirSync(folder).filter((file) => file.endsWith(".yaml") && file !== "login-keys.yaml");
  const texts = files.map((file) => readFileSync(join(folder, file), "utf8").replace("8089", String(mock.port)));
  const served = texts.map((text) => text.replace("port: 8080", "port: 80"));
  const gateway = await startGateway(manifests(...served, login.manifest));
  const nowSeconds = Math.floor(gateway.clock.nowMs() / 1_000);
  const chat = async (credential: Readonly<Record<string, string>>, tokens = 10) => {
    const headers = { "content-type": "application/json", "x-mock-prompt-tokens": String(tokens - 1), ...credential };
    const body = JSON.stringify({ model: "mock", messages: [{ role: "user", content: "Why?" }] });
    const response = await fetch(`${gateway.url()}/v1/chat/completions`, {
      ...{ method: "POST", body },
      headers: { ...headers, "x-mock-completion-tokens": "1" },
    });
    await response.text();
    return response.status;
  };
  const statuses = async (count: number, credential: Readonly<Record<string, string>>, tokens = 10) => {
    const found: number[] = [];
    for (let at = 0; at < count; at++) found.push(await chat(credential, tokens));
    return found;
  };
  const tokenOf = (claims: Readonly<Record<string, unknown>>) => {
    return { authorization: `Bearer ${login.token(claims, nowSeconds)}` };
  };
  return { gateway, statuses, tokenOf };
}

const keyOf = (name: string) => ({ "x-api-key": `demo-key-of-${name}-replace-it` });
const times = (count: number, status: number): number[] => new Array<number>(count).fill(status);

test("clients without a valid credential get 401, and each customer has the requests of its tier", async () => {
  const { statuses, tokenOf } = await start();
  expect(await statuses(1, {})).toEqual([401]);
  expect(await statuses(1, { "x-api-key": "guess" })).toEqual([401]);
  expect(await statuses(21, keyOf("acme"))).toEqual([...times(20, 200), 429]);
  expect(await statuses(6, keyOf("initech"))).toEqual([...times(5, 200), 429]);
  expect(await statuses(6, tokenOf({ sub: "ada", monthly_tokens: 2_000 }))).toEqual([...times(5, 200), 429]);
  expect(await statuses(30, keyOf("monitoring"))).toEqual(times(30, 200));
});

test("the tokens of a month are those of the Secret or of the claim, and otherwise those of the policy", async () => {
  const { gateway, statuses, tokenOf } = await start();
  // Each request costs 400 tokens, and is allowed while any remain.
  expect(await statuses(4, keyOf("initech"), 400)).toEqual([...times(3, 200), 429]);
  expect(await statuses(3, tokenOf({ sub: "ada", monthly_tokens: 700 }), 400)).toEqual([200, 200, 429]);
  expect(await statuses(3, tokenOf({ sub: "bob" }), 400)).toEqual([200, 200, 429]);
  expect(await statuses(2, tokenOf({ sub: "cyd", monthly_tokens: -1 }), 600)).toEqual([200, 429]);
  gateway.clock.advance(60_000);
  // A minute restores requests, and no tokens.
  expect(await statuses(1, keyOf("initech"), 400)).toEqual([429]);
  expect(gateway.records.at(-1)?.decisions).toMatchObject([
    { outcome: "allowed", limit: { name: "per-minute" } },
    { outcome: "denied", limit: { name: "monthly-tokens" } },
  ]);
});
