/** The counter of tokens without its thread. */
import { MessageChannel } from "node:worker_threads";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { onTestFinished } from "vitest";
import { serveTokens } from "../../proxy/src/llm/tokens/serve-tokens.ts";
import { TokenCounter } from "../../proxy/src/llm/tokens/token-counter.ts";

/** A counter with the encoding of recent models of OpenAI. It is closed when the test ends. */
export async function startTokenCounter(): Promise<TokenCounter> {
  const counter = new TokenCounter(systemClock, () => {
    const { port1, port2 } = new MessageChannel();
    serveTokens(port2);
    return port1;
  });
  onTestFinished(() => counter.close());
  const body = Buffer.from('{"input":"a"}');
  for (let tokens: number | undefined; tokens === undefined; ) {
    await new Promise((resolve) => setImmediate(resolve));
    tokens = await new Promise((resolve) => counter.count("o200k_base", body, resolve));
  }
  return counter;
}
