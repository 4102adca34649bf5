/**
 * `examples/failover` as `npm run demo:failover` runs it, on free ports: a conversation of OpenAI's own client while
 * the first provider is out of quota, and several workers of which each knows of it.
 */
import { readFileSync } from "node:fs";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import OpenAI from "openai";
import { expect, onTestFinished, test } from "vitest";
import { startMockLlm } from "../../examples/mock-llm/src/mock-llm.ts";
import { freePort } from "../support/free-port.ts";
import { startProxy } from "../support/proxy-process.ts";

const folder = join(import.meta.dirname, "../../examples/failover");
/** Sends a request on a connection of its own, which any worker may accept. @returns the body of the response */
async function sendAlone(url: string, body: string): Promise<unknown> {
  const headers = { ...fast, "content-type": "application/json" };
  const sent = request(url, { method: "POST", headers, agent: false });
  sent.end(body);
  // The type of the event is that of the documentation of node:http.
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  return json(response);
}

const fast = { "x-mock-delay-ms": "0" };
const limit = 10_000;

async function start(workers: number) {
  const [primary, spare] = await Promise.all([0, 0].map((port) => startMockLlm({ port, host: "127.0.0.1" })));
  if (primary === undefined || spare === undefined) throw new Error("a mock did not start");
  onTestFinished(() => primary.close());
  onTestFinished(() => spare.close());
  const port = await freePort();
  const files = Object.fromEntries(
    ["gateway.yaml", "providers.yaml", "limits.yaml"].map((file) => [
      file,
      readFileSync(join(folder, file), "utf8")
        .replace("port: 8080", `port: ${port}`)
        .replace("port: 8089", `port: ${primary.port}`)
        .replace("port: 8090", `port: ${spare.port}`),
    ]),
  );
  const proxy = await startProxy(files, ["--listen-address", "127.0.0.1", "--workers", String(workers)]);
  return { primary, spare, proxy, url: `http://127.0.0.1:${port}/v1` };
}

test("a conversation of OpenAI's client survives a provider that is out of quota, and is charged once", async () => {
  const { primary, spare, url } = await start(1);
  const openai = new OpenAI({ baseURL: url, apiKey: "client", maxRetries: 0, defaultHeaders: fast });
  const messages: OpenAI.ChatCompletionMessageParam[] = [];
  let tokens = 0;
  for (const [question, behavior, model] of [
    ["What is a rate limit?", {}, "primary-model"],
    ["What is a token?", { status: 429, "retry-after": 60 }, "spare-model"],
    ["What is a burst?", {}, "spare-model"],
  ] as const) {
    primary.behave(behavior);
    messages.push({ role: "user", content: question });
    const stream = await openai.chat.completions.create({
      ...{ model: "any", messages, stream: true, stream_options: { include_usage: true } },
    });
    let content = "";
    for await (const chunk of stream) {
      expect(chunk.model).toBe(model);
      content += chunk.choices[0]?.delta.content ?? "";
      tokens += chunk.usage?.total_tokens ?? 0;
    }
    expect(content.length).toBeGreaterThan(20);
    messages.push({ role: "assistant", content });
  }
  expect([primary.requests.length, spare.requests.length]).toEqual([2, 2]);
  const { headers } = await fetch(`${url}/nothing`, { method: "POST" });
  expect(limit - Number(headers.get("x-ratelimit-remaining"))).toBe(tokens);
});

test("every worker leaves a provider alone that is out of quota", async () => {
  const { primary, spare, url } = await start(3);
  primary.behave({ status: 429, "retry-after": 60 });
  const body = JSON.stringify({ model: "any", messages: [{ role: "user", content: "Hi" }], max_tokens: 1 });
  for (let sent = 0; sent < 24; sent++) {
    expect(await sendAlone(`${url}/chat/completions`, body)).toMatchObject({ model: "spare-model" });
  }
  expect([primary.requests.length, spare.requests.length]).toEqual([1, 24]);
});
