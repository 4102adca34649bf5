/** A provider of an LLM whose responses the test sends. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { TestGateway } from "./gateway.ts";

/** A provider that responds when the test says so. */
export class HeldProvider {
  readonly held: ServerResponse[] = [];
  #onArrival: () => void = () => undefined;

  readonly respond = (request: IncomingMessage, response: ServerResponse): void => {
    request.resume();
    response.on("error", () => undefined);
    if (request.method === "HEAD") {
      response.end();
      return;
    }
    request.on("end", () => {
      this.held.push(response);
      this.#onArrival();
    });
  };

  onArrival(callback: () => void): void {
    this.#onArrival = callback;
  }

  async next(): Promise<ServerResponse> {
    if (this.held.length === 0) await new Promise<void>((resolve) => this.onArrival(resolve));
    const response = this.held.shift();
    if (response === undefined) throw new Error("no request has arrived");
    return response;
  }
}

/** Sends a response with a usage, as a stream. */
export function stream(response: ServerResponse, inputTokens: number, outputTokens: number): void {
  const usage = {
    prompt_tokens: inputTokens,
    completion_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
  };
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(`data: ${JSON.stringify({ model: "m", choices: [{ index: 0, delta: { content: "x" } }] })}\n\n`);
  response.end(`data: ${JSON.stringify({ model: "m", choices: [], usage })}\n\ndata: [DONE]\n\n`);
}

/** Returns a body of 400 bytes, so 100 tokens, that asks for a stream. */
export function bodyOf(fields: object): string {
  const body = JSON.stringify({ model: "m", stream: true, messages: [], ...fields, pad: "" });
  return body.replace('"pad":""', `"pad":"${"x".repeat(400 - body.length)}"`);
}

/** Sends a request for at most 200 tokens: 100 of its prompt, and by default 100 of its response. */
export async function ask(gateway: TestGateway, fields: object = { max_tokens: 100 }) {
  const response = await fetch(`${gateway.url()}/v1/chat/completions`, { method: "POST", body: bodyOf(fields) });
  await response.text();
  const { status, headers } = response;
  return { status, retryAfter: headers.get("retry-after"), remaining: headers.get("x-ratelimit-remaining") };
}

/** Sends 200 streams at once, of which each may use 200 tokens and uses 150 to 200. Returns the tokens that all use. */
export async function overload(
  provider: HeldProvider,
  gateway: TestGateway,
): Promise<{ readonly used: number; readonly allowed: number }> {
  const count = 200;
  let decided = 0;
  let used = 0;
  const allDecided = Promise.withResolvers<undefined>();
  const decide = (): void => {
    decided++;
    if (decided === count) allDecided.resolve(undefined);
  };
  provider.onArrival(decide);
  const requests = Array.from({ length: count }, async () => {
    const { status } = await ask(gateway);
    if (status === 429) decide();
    return status;
  });
  await allDecided.promise;
  for (const [at, response] of provider.held.entries()) {
    const output = 50 + (at % 51);
    used += 100 + output;
    stream(response, 100, output);
  }
  const statuses = await Promise.all(requests);
  return { used, allowed: statuses.filter((status) => status === 200).length };
}
