/** A provider of an LLM whose responses the test sends. */
import type { IncomingMessage, ServerResponse } from "node:http";

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
