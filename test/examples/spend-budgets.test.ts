/** The example of budgets in money, as its page describes it. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startMockLlm } from "../../examples/mock-llm/src/mock-llm.ts";
import { manifests, startGateway } from "../support/gateway.ts";

const folder = join(import.meta.dirname, "../../examples/spend-budgets");

/** Serves the manifests of the folder in front of the mock LLM. */
async function start() {
  const mock = await startMockLlm({ port: 0, host: "127.0.0.1" });
  onTestFinished(() => mock.close());
  const files = readdirSync(folder).filter((file) => file.endsWith(".yaml"));
  const texts = files.map((file) => readFileSync(join(folder, file), "utf8").replace("8089", String(mock.port)));
  const gateway = await startGateway(manifests(...texts.map((text) => text.replace("port: 8080", "port: 80"))));
  /** Sends a request that costs 2 dollars for each million of output tokens. */
  const chat = async (user: string, outputTokens: number, model = "mock") => {
    const response = await fetch(`${gateway.url()}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify({ model, messages: [] }),
      headers: {
        "content-type": "application/json",
        "x-api-key": `demo-key-of-${user}-replace-it`,
        "x-mock-prompt-tokens": "0",
        "x-mock-completion-tokens": String(outputTokens),
      },
    });
    return { status: response.status, body: await response.text() };
  };
  const shadowDenied = (): string[] =>
    (gateway.records.at(-1)?.decisions ?? []).flatMap(({ limit, outcome }) =>
      outcome === "shadowDenied" ? (limit.name ?? []) : [],
    );
  return { gateway, chat, shadowDenied };
}

test("a user spends 25 dollars a month, with a warning from 20 on", async () => {
  const { chat, shadowDenied } = await start();
  expect(await chat("ada", 10_000_000)).toMatchObject({ status: 200 });
  expect(shadowDenied()).toEqual([]);
  expect(await chat("ada", 1_000_000)).toMatchObject({ status: 200 });
  expect(shadowDenied()).toEqual(["user-warning"]);
  expect(await chat("ada", 2_000_000)).toMatchObject({ status: 200 });
  const { status, body } = await chat("ada", 1);
  expect(status).toBe(429);
  expect(JSON.parse(body)).toMatchObject({ error: { code: "rate_limit_exceeded" } });
  expect(await chat("grace", 1)).toMatchObject({ status: 200 });
});

test("a team spends 500 dollars a month, and a model without a price gets 403", async () => {
  const { chat, shadowDenied } = await start();
  expect(await chat("ada", 249_000_000)).toMatchObject({ status: 200 });
  expect(await chat("grace", 1_000_000)).toMatchObject({ status: 200 });
  expect(shadowDenied()).toEqual(["team-warning"]);
  expect(await chat("grace", 1)).toMatchObject({ status: 429 });
  expect(await chat("grace", 1, "other")).toMatchObject({ status: 403 });
});
