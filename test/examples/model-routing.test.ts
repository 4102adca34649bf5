/** `examples/model-routing` as its page describes it, on free ports. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import OpenAI from "openai";
import { expect, onTestFinished, test } from "vitest";
import { startMockLlm } from "../../examples/mock-llm/src/mock-llm.ts";
import { manifests, startGateway } from "../support/gateway.ts";

const folder = join(import.meta.dirname, "../../examples/model-routing");
const read = (file: string): string => readFileSync(join(folder, file), "utf8");

test("an alias, a limit on one model, and the models that are offered", async () => {
  const mock = await startMockLlm({ port: 0, host: "127.0.0.1" });
  onTestFinished(() => mock.close());
  const gateway = await startGateway(
    manifests(read("gateway.yaml"), read("models.yaml").replaceAll("port: 8089", `port: ${mock.port}`)),
  );
  const client = new OpenAI({
    ...{ baseURL: `${gateway.url(8080)}/v1`, apiKey: "none", maxRetries: 0 },
    defaultHeaders: { "x-mock-delay-ms": "0" },
  });
  const chat = async (model: string): Promise<unknown> => {
    const { response } = await client.chat.completions
      .create({ model, messages: [{ role: "user", content: "Hi" }] })
      .withResponse()
      .catch((error: unknown) => ({ response: error as { readonly status: number } }));
    return response.status;
  };
  const offered = await Array.fromAsync(await client.models.list());
  expect(offered.map(({ id }) => id)).toEqual(["gpt-4", "large", "claude"]);
  const statuses = [];
  for (const model of ["gpt-4", "large", "large", "claude", "gpt-3"]) statuses.push(await chat(model));
  expect(statuses).toEqual([200, 200, 429, 200, 404]);
  const sent = mock.requests.map(({ body }) => (JSON.parse(body) as { readonly model: string }).model);
  expect(sent).toEqual(["gpt-4o-2024-11-20", "large", "claude-sonnet-4-5"]);
});
